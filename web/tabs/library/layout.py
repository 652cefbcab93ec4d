"""Layout of the Library tab: the voices as cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from web.tabs.library.handlers import LibraryHandlers
from web.ui.components import voice_list
from web.ui.events import listen, listen_to_latest, show, telling_refusal
from web.ui.shared import FOCUS_TEXT, SharedComponents, section_title

if TYPE_CHECKING:
    from web.context import WebContext

# `at` makes each value different: the answer to an earlier press may be lost.
CHANGE_CLIPS = "() => [{ id: reprise.changing, at: Date.now() }, { __type__: 'update', selected: 'new' }]"
IMPORT_FAILED = telling_refusal("window.repriseLibrary.importFailed();")
PICTURE_FAILED = telling_refusal("window.repriseLibrary.pictureFailed();")


def build(context: WebContext, shared: SharedComponents) -> None:
    """Lay out the tab and register its event listeners."""
    handlers, token = LibraryHandlers(context), shared.token
    section_title(context.label("voice.title"))
    voices = voice_list()
    changes = shared.changes
    for event in (changes.voice_list, voices.relist):
        show(event, handlers.list_voices, token, voices)
    for event, handler in (
        (voices.revise, handlers.update_voice),
        (voices.duplicate, handlers.duplicate_voice),
        (voices.purge, handlers.purge_deleted),
    ):
        listen(event, handler, token, [voices, changes], trigger_mode="multiple")
    for event, handler, failed in (
        (voices.import_files, handlers.import_voices, IMPORT_FAILED),
        (voices.picture, handlers.change_picture, PICTURE_FAILED),
    ):
        answered = listen(event, handler, token, [voices, changes], trigger_mode="multiple")
        answered.failure(None, js=failed)
    for event, select in ((voices.remove, handlers.delete_voice), (voices.restore, handlers.restore_voice)):
        changed = [voices, changes, shared.picker]
        listen(event, select, [shared.picker, token], changed, trigger_mode="multiple")
    in_new_voice = [shared.changed, shared.tabs]
    voices.change_clips(None, None, in_new_voice, js=CHANGE_CLIPS, queue=False, api_visibility="private")
    outputs = [shared.picker, shared.tabs, voices]
    used = listen_to_latest(voices.speak_with, handlers.speak_with_voice, token, outputs)
    used.success(None, js=FOCUS_TEXT)
