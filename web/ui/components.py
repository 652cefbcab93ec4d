"""Our own components: `gr.HTML` with markup of `web/static`, mounted by an ES module of the same name there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

from engine.audio.clip_length import BEST_FROM
from engine.audio.decode import LONGEST
from engine.audio.merge import MAX_MERGED_SECONDS
from web.ui.modules import STATIC
from web.uploads import MAX_UPLOAD_MB

LONG_TEXT = 5_000  # characters: about six minutes of speech


def player(sample_rate: int, *, render: bool = True) -> gr.HTML:
    """Plays takes: the one that arrives, and those of the take list, which asks `window.reprisePlayer` (player.js).

    Its value: a message of `web.tabs.speak.handlers`.
    """
    events = ("halt", "abandon")
    return _component("player/player", "rp-player-block", events, rate=sample_rate, render=render)


def take_list() -> gr.HTML:
    """The takes of a session. Its value: what `web.tabs.speak.take_list` answers; events: as takes.js has them."""
    return _component(
        "speak/takes", "rp-takes", ("fresh", "star", "erase", "again", "seed", "further", "halt", "prove")
    )


def writing(text: str, *, render: bool = True) -> gr.HTML:
    """What stands under the text to speak: its length, style tags, examples. Its value: as writing.js has it.

    Its event `to_script` makes a script of the text, and is offered for one of more than LONG_TEXT characters.
    """
    return _component(
        "speak/writing", "rp-writing", ("to_script",), value={"text": text}, long=LONG_TEXT, render=render
    )


def voice_card() -> gr.HTML:
    """The picked voice, and its clip to hear. Its value: as `web.tabs.speak.handlers` has it."""
    return _component("speak/voice_card", "rp-voice-card", ("fresh",))


def voice_rail() -> gr.HTML:
    """The voices to pick from. Its value and its events: as `web.tabs.speak.rail` has them."""
    return _component("speak/voice_rail", "rp-voices", ("fresh", "mark", "pick"))


def switches(languages: Mapping[str, str]) -> gr.HTML:
    """The language and light or dark, kept by the browser. languages: names by code."""
    return _component("shell/switches", "rp-switches", languages=dict(languages))


def dictionary() -> gr.HTML:
    """How words are said. Its value and its events: as `web.tabs.speak.dictionary` has them."""
    return _component("shell/dictionary", "rp-dictionary", ("put", "erase", "take_in"))


def recogniser() -> gr.HTML:
    """What writes down what is said. Its value and its events: as `web.tabs.status.recogniser` has them."""
    return _component("shell/recogniser", "rp-recogniser", ("look", "install"))


def clip_input(functions: Sequence[Callable[..., Any]] = (), **more: Any) -> gr.HTML:
    """Records clips or takes files, has them trimmed, examined and mended. Its value goes through `chosen_clips`.

    Args:
        functions: of the server, as `ClipServer` has them; what needs one that is missing is not there.
        more: `scripts`, texts to read aloud, of which a clip that is recorded gets the words; `together`, how many
            seconds several clips may have.
    """
    lengths = {"enough": BEST_FROM, "longest": int(LONGEST), "together": int(MAX_MERGED_SECONDS)}
    props = {"scripts": [], "max_mb": MAX_UPLOAD_MB, **lengths, **more}
    return _component("new_voice/recorder", "rp-clip-block", server_functions=list(functions), **props)


def voice_list() -> gr.HTML:
    """The voices as cards. Its value and its events: those of `web.tabs.library.handlers`."""
    events = ("speak_with", "duplicate", "remove", "put_back", "let_go", "revise", "take_in", "relist", "picture")
    return _component("library/library", "rp-library", events, max_mb=MAX_UPLOAD_MB)


def script_editor() -> gr.HTML:
    """Scripts and their cards. Its value: what `web.tabs.script.handlers` answers; event: `act`, a request."""
    return _component("script/script_editor", "rp-script-editor", ("act",))


def history_list() -> gr.HTML:
    """What was spoken. Its value: as `web.tabs.history.handlers` makes it. `star`, `withdraw`, `again` have an id."""
    return _component("history/history", "rp-history", ("star", "withdraw", "again", "more", "refresh"))


def status_board() -> gr.HTML:
    """What the server is doing. Its value: as `web.tabs.status.handlers` makes it; event: `look`, while it is seen."""
    return _component("status/status", "rp-status", ("look",))


def file_checker() -> gr.HTML:
    """Takes a file to be checked for its origin. Its value and its event: as `web.tabs.status.origin` has them."""
    return _component("status/checker", "rp-checker", ("check",), max_mb=MAX_UPLOAD_MB)


def owner_key() -> gr.HTML:
    """Keeps the token by which this browser is known (owners.py). Its value: the token, an input of all events."""
    return _component("ui/owner", "rp-owner")


def change_broadcast() -> gr.HTML:
    """Tells the tabs, and this browser's other pages, what was changed. Its value: as `broadcast_change` makes it."""
    events = ("voices", "history", "scripts", "opened", "reopen")
    return _component("ui/change_broadcast", "rp-change-broadcast", events)


def connection() -> gr.HTML:
    """Says that the server is gone. Event: `back`, when it answers again, perhaps as another process."""
    return _component("connection/connection", "rp-connection", ("back",))


def _component(name: str, elem_id: str, events: Sequence[str] = (), *, value: Any = None, **props: Any) -> gr.HTML:
    """A component whose markup and module are at `name`. Gradio allows an event whose name it finds in the script."""
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
