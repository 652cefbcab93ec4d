"""Custom components: `gr.HTML` with markup from `web/static`, mounted by the ES module of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

from engine.audio.clip_length import BEST_FROM
from engine.audio.decode import LONGEST
from engine.audio.merge import MAX_MERGED_SECONDS
from web.ui.modules import STATIC
from web.uploads.files import MAX_UPLOAD_MB

LONG_TEXT = 5_000  # characters: about six minutes of speech


def player(sample_rate: int, *, render: bool = True) -> gr.HTML:
    """Create the player of streamed takes. The list of takes plays through it, as `window.reprisePlayer` (player.js).

    Value: a message of `web.tabs.speak.handlers`.
    """
    return _component(
        "player/player", "rp-player-block", ("stop_speech", "renew_links"), rate=sample_rate, render=render
    )


def take_list() -> gr.HTML:
    """Create the list of a session's takes. Value: see `web.tabs.speak.take_list`. Events: see takes.js."""
    return _component(
        "speak/takes/takes",
        "rp-takes",
        ("renew_links", "star", "erase", "again", "seed", "speak_more", "stop_speech", "check"),
    )


def writing(text: str, *, render: bool = True) -> gr.HTML:
    """Create the hints below the text: its length, style tags, examples. Value: see writing.js.

    Events: `to_script`, to turn the text into a script, offered above LONG_TEXT characters; `written`, when the user
    has changed the text below a notice.
    """
    return _component(
        "speak/writing", "rp-writing", ("to_script", "written"), value={"text": text}, long=LONG_TEXT, render=render
    )


def voice_card() -> gr.HTML:
    """Create the card of the selected voice, with its clip. Value: see `web.tabs.speak.views`."""
    return _component("speak/voices/voice_card", "rp-voice-card", ("renew_links",))


def voice_rail() -> gr.HTML:
    """Create the rail of voices to select from. Value and events: see `web.tabs.speak.rail`."""
    return _component("speak/voices/voice_rail", "rp-voices", ("renew_links", "mark", "pick"))


def switches(languages: Mapping[str, str]) -> gr.HTML:
    """Create the switches for language and light or dark theme, which the browser stores. languages: names by code."""
    return _component("shell/switches", "rp-switches", languages=dict(languages))


def welcome(*, render: bool = True) -> gr.HTML:
    """Create the first steps. Value: see welcome.js."""
    return _component("shell/welcome", "rp-welcome", render=render)


def dictionary() -> gr.HTML:
    """Create the pronunciation dictionary. Value and events: see `web.tabs.speak.dictionary`."""
    return _component("shell/dictionary", "rp-dictionary", ("save_entry", "erase", "import_entries"))


def recogniser() -> gr.HTML:
    """Create the dialog of the speech recogniser. Value and events: see `web.tabs.status.recogniser`."""
    return _component("shell/recogniser", "rp-recogniser", ("refresh", "install"))


def clip_input(functions: Sequence[Callable[..., Any]] = (), **more: Any) -> gr.HTML:
    """Create the recorder, to record, upload, trim, examine and repair clips. `chosen_clips` parses its value.

    Args:
        functions: server functions of `ClipServer`.
        more: `scripts`, texts to read aloud, used as transcripts of recorded clips; `most_merged`, the maximum total
            seconds of several clips.
    """
    lengths = {"enough": BEST_FROM, "longest": int(LONGEST), "most_merged": int(MAX_MERGED_SECONDS)}
    props = {"scripts": [], "max_mb": MAX_UPLOAD_MB, **lengths, **more}
    return _component("new_voice/recorder", "rp-clip-block", server_functions=list(functions), **props)


def changed_voice(*, render: bool = True) -> gr.HTML:
    """Create the note on the voice whose clips the form changes. Value and events: see changed_voice.js."""
    return _component("new_voice/changed_voice", "rp-changed-voice", ("open_clips", "empty_form"), render=render)


def saved_voice(*, render: bool = True) -> gr.HTML:
    """Create the line about a voice that was saved while its user did something else. Value: see saved_voice.js.

    Event: `use`, to speak with the voice.
    """
    return _component("new_voice/saved_voice", "rp-saved-voice", ("use",), render=render)


def voice_list() -> gr.HTML:
    """Create the voices as cards. Value and events: see `web.tabs.library.handlers`.

    Event without a handler: `change_clips`, of the voice in `reprise.changing`.
    """
    acts = ("speak_with", "duplicate", "remove", "restore", "purge", "revise", "picture", "change_clips")
    return _component("library/library", "rp-library", (*acts, "import_files", "relist"), max_mb=MAX_UPLOAD_MB)


def voice_pictures() -> gr.HTML:
    """Create the loader of voices' pictures. Value and event: see `web.tabs.library.pictures`."""
    return _component("library/pictures", "rp-pictures", ("fetch",))


def script_editor(suffixes: Sequence[str]) -> gr.HTML:
    """Create the editor of scripts and cards. Value: see `web.tabs.script.handlers`. Events: `act`, a command; `bring`,
    an uploaded file (`path`, `name`), which the button above it asks for.

    suffixes: of the files that the button offers first.
    """
    return _component("script/script_editor", "rp-script-editor", ("act", "bring"), accept=", ".join(suffixes))


def history_list() -> gr.HTML:
    """Create the list of the history. Value and events: see `web.tabs.history.handlers`."""
    return _component("history/history", "rp-history", ("star", "withdraw", "again", "more", "refresh", "shown"))


def status_board() -> gr.HTML:
    """Create the board of the server's state. Value: see `web.tabs.status.views`. Event: `refresh`, while visible."""
    return _component("status/status", "rp-status", ("refresh",))


def file_checker() -> gr.HTML:
    """Create the check of a file's origin. Value and event: see `web.tabs.status.file_check`."""
    return _component("status/checker", "rp-checker", ("check",), max_mb=MAX_UPLOAD_MB)


def owner_key() -> gr.HTML:
    """Create the store of the browser's owner token (owners.py). Value: the token, an input of all events."""
    return _component("connection/owner", "rp-owner")


def change_broadcast() -> gr.HTML:
    """Create the broadcast of changes to all tabs and to this browser's other pages. Value: see `broadcast_change`."""
    events = ("voices", "voice_list", "history", "scripts", "words", "opened", "reopen", "forgotten")
    return _component("connection/change_broadcast", "rp-change-broadcast", events)


def connection() -> gr.HTML:
    """Create the notice of a lost connection. Event: `back`, when the server responds again, maybe after a restart."""
    return _component("connection/connection", "rp-connection", ("back",))


def _component(name: str, elem_id: str, events: Sequence[str] = (), *, value: Any = None, **props: Any) -> gr.HTML:
    """Create a component with the markup and module at `name`. Gradio only allows events named in the script."""
    markup = STATIC / f"{name}.html"
    mount = f"reprise.mount({name!r}, {{ element, trigger, props, server, upload, watch }});"
    return gr.HTML(
        value=value,
        html_template=markup.read_text("utf-8") if markup.exists() else "",
        js_on_load=mount + "".join(f" '{event}';" for event in events),
        apply_default_css=False,
        elem_id=elem_id,
        **props,
    )
