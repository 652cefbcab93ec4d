"""Library: the voices, and what can be done with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from web.tabs.library.handlers import Keeping
from web.ui.components import voice_list
from web.ui.wiring import Shared, quick, title

if TYPE_CHECKING:
    from web.context import House

PICKED = "(id) => { window.reprisePicked = id; }"  # for library.js
WRITE = "() => { document.querySelector('#rp-text textarea')?.focus(); }"


def build(house: House, shared: Shared) -> None:
    """Lays out the tab and ties its events."""
    events, token = Keeping(house), shared.token
    title(house.label("voice.title"))
    voices = voice_list()
    quick(shared.bell.voices, events.list, token, voices)
    quick(shared.bell.history, events.list, token, voices)  # how long each was used
    quick(voices.relist, events.list, token, voices)
    for event, fn in (
        (voices.revise, events.revise),
        (voices.duplicate, events.duplicate),
        (voices.let_go, events.let_go),
        (voices.take_in, events.take_in),
    ):
        quick(event, fn, token, [voices, shared.bell])
    for event, fn in ((voices.remove, events.remove), (voices.put_back, events.put_back)):
        quick(event, fn, token, [voices, shared.bell, shared.picker])
    shared.picker.change(None, shared.picker, None, js=PICKED)
    speaking = quick(voices.speak_with, events.speak_with, token, [shared.picker, shared.tabs, voices])
    speaking.success(None, js=WRITE)
