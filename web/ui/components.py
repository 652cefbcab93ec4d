"""Our own components: `gr.HTML` with markup and scripts of `web/static`, which nothing serves as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from engine.audio.decode import LONGEST
from engine.audio.merge import LONGEST_TOGETHER
from web.ui.i18n import Translations
from web.uploads import MAX_UPLOAD_MB

STATIC = Path(__file__).parents[1] / "static"

# What a component's script stands on, in this order.
_BUFFER = ("player/samples", "player/take")
_PLAYER = (
    "face/peaks", "player/shelf", "face/wav", "face/format", "player/outputs", "player/deck", "face/wave",
    "player/player_view", "player/player",
)  # fmt: skip
_TAKES = ("face/format", "speak/fresh", "speak/take_list", "speak/take_row", "speak/takes")
_LIBRARY = ("face/making", "face/format", "library/logic", "library/card", "library/library")
_SCRIPT = (
    "face/making", "face/wav", "face/format", "script/line", "script/cards", "script/listening", "script/card_view",
    "script/view", "script/script",
)  # fmt: skip
_RECORDER = (
    "player/samples", "face/wav", "new_voice/recording", "new_voice/meter", "new_voice/microphone", "face/peaks",
    "face/format", "face/wave", "new_voice/clip_sound", "new_voice/trim", "new_voice/echo", "new_voice/trim_view",
    "new_voice/clips", "new_voice/doctor", "new_voice/transcript", "new_voice/recorder_view", "new_voice/recorder",
)  # fmt: skip


def scripts(*names: str) -> str:
    """Scripts of `web/static`, one behind the other: `"player/take"` is player/take.js."""
    return "\n".join((STATIC / f"{name}.js").read_text("utf-8") for name in names)


def player(sample_rate: int, translations: Translations | None = None, *, render: bool = True) -> gr.HTML:
    """Plays takes: the one that arrives, and those of the take list, which asks `window.reprisePlayer` (player.js).

    Its value: a message of `web.tabs.speak.handlers`; events: `halt`, `abandon`. translations: None for the page's own.
    """
    worklet = _constant("WORKLET_SOURCE", scripts(*_BUFFER, "player/take_worklet"))
    words = (translations or Translations.load()).script("player")
    code = worklet + words + scripts("face/words", *_BUFFER, *_PLAYER)
    return _component("player/player", code, "rp-player-block", rate=sample_rate, render=render)


def take_list(translations: Translations) -> gr.HTML:
    """The takes of a session. Its value: what `web.tabs.speak.take_list` answers; events: as takes.js has them."""
    return _component("speak/takes", translations.script("takes") + scripts("face/words", *_TAKES), "rp-takes")


def writing(translations: Translations, text: str) -> gr.HTML:
    """What stands under the text to speak: its length, style tags, examples. Its value: as writing.js has it."""
    code = translations.script("writing", "examples") + scripts("face/words", "speak/estimate", "speak/writing")
    return _component("speak/writing", code, "rp-writing", value={"text": text})


def voice_card(translations: Translations) -> gr.HTML:
    """The picked voice, and its clip to hear. Its value: as `web.tabs.speak.choosing` has it; event: `fresh`."""
    code = translations.script("card") + scripts("face/words", "speak/fresh", "speak/voice_card")
    return _component("speak/voice_card", code, "rp-voice-card")


def clip_input(translations: Translations, functions: Sequence[Callable[..., Any]] = (), **more: Any) -> gr.HTML:
    """Records clips or takes files, has them trimmed, examined and mended. Its value goes through `chosen_clips`.

    Args:
        functions: of the server, as `ClipServer` has them; what needs one that is missing is not there.
        more: `scripts`, texts to read aloud, of which a clip that is recorded gets the words; `dictates`, whether
            the server can write words down; `together`, how many seconds several clips may have.
    """
    tap = _constant("TAP_SOURCE", scripts("new_voice/tap_worklet"))
    code = translations.script("clip") + tap + scripts("face/words", *_RECORDER)
    limits = {"max_mb": MAX_UPLOAD_MB, "longest": int(LONGEST), "together": int(LONGEST_TOGETHER)}
    props = {"scripts": [], "dictates": False, **limits, **more}
    return _component("new_voice/recorder", code, "rp-clip-block", server_functions=list(functions), **props)


def voice_list(translations: Translations) -> gr.HTML:
    """The voices as cards. Its value and its events: those of `web.tabs.library.handlers`."""
    code = translations.script("library") + scripts("face/words", *_LIBRARY)
    return _component("library/library", code, "rp-library", max_mb=MAX_UPLOAD_MB)


def script_desk(translations: Translations) -> gr.HTML:
    """Scripts and their cards. Its value: what `web.tabs.script.handlers` answers; event: `act`, a question."""
    code = translations.script("script") + scripts("face/words", *_SCRIPT)
    return _component("script/script", code, "rp-script-desk")


def history_list(translations: Translations) -> gr.HTML:
    """What was spoken. Its value: as `web.tabs.history.handlers` makes it; events: `star`, `withdraw`, `again`, each
    with an id, and `more`, `refresh`."""
    code = translations.script("history") + scripts("face/words", "face/format", "history/rows", "history/history")
    return _component("history/history", code, "rp-history")


def status_board(translations: Translations) -> gr.HTML:
    """What the server is doing. Its value: as `web.tabs.status.handlers` makes it; event: `look`, while it is seen."""
    code = translations.script("status") + scripts("face/words", "status/rows", "status/status")
    return _component("status/status", code, "rp-status")


def owner_key(translations: Translations) -> gr.HTML:
    """Keeps the token by which this browser is known (owners.py). Its value: the token, an input of all events."""
    return _component("face/owner", translations.script("owner") + scripts("face/words", "face/owner"), "rp-owner")


def bell() -> gr.HTML:
    """Tells the tabs, and this browser's other pages, what was changed. Its value: as `ring` makes it (wiring.py)."""
    return _component(None, scripts("face/bell"), "rp-bell")


def _constant(name: str, text: str) -> str:
    return f"const {name} = {json.dumps(text)};\n"


def _component(markup: str | None, code: str, elem_id: str, *, value: Any = None, **props: Any) -> gr.HTML:
    return gr.HTML(
        value=value,
        html_template=(STATIC / f"{markup}.html").read_text("utf-8") if markup else "",
        js_on_load=code,
        apply_default_css=False,
        elem_id=elem_id,
        **props,
    )
