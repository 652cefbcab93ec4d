"""Our own components: `gr.HTML` with markup and scripts of `web/static`, which nothing serves as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from engine.audio.decode import LONGEST
from engine.audio.together import LONGEST_TOGETHER
from engine.errors import InvalidInput
from web.translations import Translations

STATIC = Path(__file__).parent / "static"
MAX_UPLOAD_MB = 50

_BUFFER = ("samples.js", "take.js")
_PLAYER = ("peaks.js", "shelf.js", "wav.js", "format.js", "outputs.js", "deck.js", "wave.js", "player_view.js")
_SCRIPT = (
    "making.js", "wav.js", "format.js", "script_line.js", "script_cards.js", "script_listening.js",
    "script_card_view.js", "script_view.js", "script.js",
)  # fmt: skip
_RECORDER = (
    "samples.js", "wav.js", "recording.js", "meter.js", "microphone.js", "peaks.js", "format.js", "wave.js",
    "clip_sound.js", "trim.js", "echo.js", "trim_view.js", "clips.js", "doctor.js", "transcript.js",
    "recorder_view.js", "recorder.js",
)  # fmt: skip


def read(*names: str) -> str:
    """Files of `web/static`, one behind the other."""
    return "\n".join((STATIC / name).read_text("utf-8") for name in names)


def player(sample_rate: int, translations: Translations | None = None, *, render: bool = True) -> gr.HTML:
    """Plays takes: the one that arrives, and those of the take list, which asks `window.reprisePlayer` (player.js).

    Its value: a message of `web.events.speaking`; events: `halt`, `abandon`. translations: None for the page's own.
    """
    worklet = _constant("WORKLET_SOURCE", read(*_BUFFER, "take_worklet.js"))
    said = (translations or Translations.load()).script("player") + read("words.js")
    code = worklet + said + read(*_BUFFER, *_PLAYER, "player.js")
    return _component("player.html", code, "rp-player-block", rate=sample_rate, render=render)


def take_list(translations: Translations) -> gr.HTML:
    """The takes of a session. Its value: what `web.events.taking` answers; events: as takes.js has them."""
    own = ("fresh.js", "take_list.js", "take_row.js", "takes.js")
    return _component("takes.html", translations.script("takes") + read("words.js", *own), "rp-takes")


def writing(translations: Translations, text: str) -> gr.HTML:
    """What stands under the text to speak: its length, style tags, examples. Its value: as writing.js has it."""
    code = translations.script("writing", "examples") + read("words.js", "estimate.js", "writing.js")
    return _component("writing.html", code, "rp-writing", value={"text": text})


def voice_card(translations: Translations) -> gr.HTML:
    """The picked voice, and its clip to hear. Its value: as `web.events.choosing` has it; event: `fresh`."""
    code = translations.script("card") + read("words.js", "fresh.js", "voice_card.js")
    return _component("voice_card.html", code, "rp-voice-card")


def script_desk(translations: Translations) -> gr.HTML:
    """Scripts and their cards. Its value: what `web.events.scripts` answers; event: `act`, a question."""
    return _component("script.html", translations.script("script") + read("words.js", *_SCRIPT), "rp-script-desk")


def clip_input(translations: Translations, functions: Sequence[Callable[..., Any]] = (), **more: Any) -> gr.HTML:
    """Records clips or takes files, has them trimmed, examined and mended. Its value goes through `chosen_clips`.

    Args:
        functions: of the server, as `web.clip_server` has them; what needs one that is missing is not there.
        more: `scripts`, texts to read aloud, of which a clip that is recorded gets the words; `dictates`, whether
            the server can write words down; `together`, how many seconds several clips may have.
    """
    code = translations.script("clip") + _constant("TAP_SOURCE", read("tap_worklet.js")) + read("words.js", *_RECORDER)
    props = {"scripts": [], "dictates": False, "together": int(LONGEST_TOGETHER), **more}
    return _component(
        "recorder.html",
        code,
        "rp-clip-block",
        server_functions=list(functions),
        max_mb=MAX_UPLOAD_MB,
        longest=int(LONGEST),
        **props,
    )


def voice_list(translations: Translations) -> gr.HTML:
    """The voices as cards. Its value and its events: those of `web.events.keeping`."""
    code = translations.script("library") + read("words.js", "library_logic.js", "library_card.js", "library.js")
    return _component("library.html", code, "rp-library", max_mb=MAX_UPLOAD_MB)


def owner_key(translations: Translations) -> gr.HTML:
    """Keeps the token that `web.owners` knows this browser by. Its value: the token, an input of every event."""
    code = translations.script("owner") + read("words.js", "owner.js")
    return _component("owner.html", code, "rp-owner")


def bell() -> gr.HTML:
    """Tells the tabs, and this browser's other pages, what was changed. Its value: as `web.wiring.ring` makes it."""
    return _component(None, read("bell.js"), "rp-bell")


def _constant(name: str, text: str) -> str:
    return f"const {name} = {json.dumps(text)};\n"


def _component(markup: str | None, code: str, elem_id: str, *, value: Any = None, **props: Any) -> gr.HTML:
    return gr.HTML(
        value=value,
        html_template=read(markup) if markup else "",
        js_on_load=code,
        apply_default_css=False,
        elem_id=elem_id,
        **props,
    )


def uploaded_path(value: object, folder: str | Path) -> Path | None:
    """The file behind the value of an upload button, None when there is none.

    The value comes from the browser: only files among this page's uploads are accepted. Raises InvalidInput.
    """
    if not value:
        return None
    path = value.get("path") if isinstance(value, dict) else None
    if not isinstance(path, str) or "\0" in path:
        raise InvalidInput("That is not a file that was uploaded here.")
    resolved = Path(path).resolve()
    if not (resolved.is_relative_to(Path(folder).resolve()) and resolved.is_file()):
        raise InvalidInput("The file is no longer on the server. Choose it again.")
    return resolved
