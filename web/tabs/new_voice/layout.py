"""Layout of the New voice tab: clips, their transcripts, a name, and the speaker's consent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import gradio as gr

from web.tabs.new_voice.clip_server import ClipServer
from web.tabs.new_voice.handlers import NewVoiceHandlers, language_choices
from web.tabs.new_voice.reading_texts import READING_TEXTS
from web.ui.components import clip_input
from web.ui.events import keep_choices, listen, show
from web.ui.shared import FOCUS_TEXT, SharedComponents, notice_line, section_title

if TYPE_CHECKING:
    from web.context import WebContext

SHOW_NOTICE = "() => { reprise.showNotice(); }"
INTERRUPTED = "() => { reprise.endSaving(); return reprise.interrupted(); }"
# Editing may have resolved the error. Otherwise the notice is left as it is: by now it may have changed.
CLEAR_ERRORS = "(notice) => (notice?.includes('rp-bad') ? '' : { __type__: 'update' })"
SEND_FORM = "(...form) => reprise.sendForm(...form)"
EMPTY_FORM = "() => ['', '', '', null]"
EMPTY_REST = "() => ['', false, null]"  # with what the draft empties
CLEAR_SENT = "(notice, ...texts) => reprise.clearSent(notice, ...texts)"
END_SAVING = "() => { reprise.endSaving(); }"
TELL_SAVED = "(saved) => saved.notice"
OPEN_SPEAK = "() => window.repriseSaved.tabToShow()"
OFFER = "() => { window.repriseSaved.offer(); }"  # the answer is lost


def build(context: WebContext, shared: SharedComponents) -> None:
    """Lay out the tab and register its event listeners."""
    handlers, label = NewVoiceHandlers(context), context.label
    section_title(label("new.title"))
    changed = shared.changed
    changed.render()
    gr.HTML(label("new.own_only"), html_template="<p>${value}</p>", elem_id="rp-own-only", apply_default_css=False)
    clips = clip_input(ClipServer(context).functions(), scripts=list(READING_TEXTS))
    description = gr.Textbox(
        label=label("new.describe"),
        info=label("new.describe_info"),
        placeholder=label("new.describe_hint"),
        lines=3,
        max_lines=8,
        elem_id="rp-describe",
    )
    with gr.Row(elem_id="rp-names"):
        name = gr.Textbox(label=label("new.name"), max_lines=1, min_width=280, elem_id="rp-name")
        speaker = gr.Textbox(
            label=label("new.speaker"),
            placeholder=label("new.speaker_hint"),
            max_lines=1,
            min_width=280,
            elem_id="rp-speaker",
        )
    language = gr.Dropdown(
        label=label("new.language"),
        info=label("new.language_info"),
        choices=language_choices(),
        value=None,
        elem_id="rp-voice-language",
    )
    shared.persisted.extend([changed, name, speaker, description])
    agreed = gr.Checkbox(label=label("new.consent_blank"), value=False, elem_id="rp-consent")
    trouble = notice_line("rp-form-notice")
    save = gr.Button(label("new.save"), variant="primary", elem_id="rp-save")
    gr.on(
        # `change`, because a textbox fires no `input` when text is pasted or deleted
        [clips.change, name.change, agreed.input, description.change],
        None,
        trouble,
        trouble,
        js=CLEAR_ERRORS,
        api_visibility="private",
    )
    typed = partial(gr.on, [name.change, speaker.change])
    show(typed, handlers.update_consent, [name, speaker], agreed, trigger_mode="always_last")
    keep_choices(language)
    opened = [changed, name, speaker, language, agreed, trouble]
    show(changed.open_clips, handlers.open_clips, shared.token, opened)
    changed.empty_form(None, None, [trouble, name, speaker, language], js=EMPTY_FORM, api_visibility="private")
    shared.changes.forgotten(None, None, [trouble, agreed, language], js=EMPTY_REST, api_visibility="private")
    asked = listen(save.click, handlers.show_waiting, None, trouble)
    asked.failure(None, None, trouble, js=INTERRUPTED)
    saved = listen(
        asked.then,
        handlers.save_voice,
        [clips, name, speaker, agreed, description, language, changed, shared.token],
        [trouble, shared.saved, shared.changes],
        js=SEND_FORM,
        queue=True,
    )
    texts = [name, speaker, description]
    saved.success(None, [trouble, *texts], [agreed, *texts], js=CLEAR_SENT, api_visibility="private")
    saved.then(None, js=END_SAVING)
    saved.failure(None, None, trouble, js=INTERRUPTED)
    trouble.change(None, js=SHOW_NOTICE)
    _listen_to_saved(handlers, shared)


def _listen_to_saved(handlers: NewVoiceHandlers, shared: SharedComponents) -> None:
    shared.saved.use(None, shared.saved, shared.notice, js=TELL_SAVED, queue=False, api_visibility="private")
    used = listen(shared.saved.use, handlers.use_saved, shared.token, [shared.picker, shared.notice])
    opened = used.success(None, None, shared.tabs, js=OPEN_SPEAK, queue=False, api_visibility="private")
    opened.then(None, js=FOCUS_TEXT)
    used.failure(None, js=OFFER)
