"""Speak: a voice, a text, and the takes that are spoken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

from web.tabs.speak.choosing import Choosing
from web.tabs.speak.handlers import FIRST_TEXT, Speaking
from web.tabs.speak.streaming import Streams
from web.tabs.speak.taking import Taking
from web.ui.components import take_list, voice_card, writing
from web.ui.wiring import Shared, quick, ring

if TYPE_CHECKING:
    from web.context import House

REMEMBER = "(id) => { try { if (id) localStorage.setItem('reprise.voice', id); } catch {} }"
# The player makes the ticket in the click itself, because browsers let sound start only then.
BEGIN = "(...values) => [...values.slice(0, -1), window.reprisePlayer.begin()]"


def build(house: House, shared: Shared) -> None:
    """Lays out the tab and ties its events."""
    label = house.label
    with gr.Row(equal_height=True, elem_classes="rp-inline"):
        shared.picker.render()
        new = gr.Button(label("tab.new"), scale=0, min_width=120, size="md", elem_id="rp-to-new")
    card = voice_card()
    shared.notice.render()
    shared.text.render()
    helpers = writing(FIRST_TEXT)
    with gr.Row(elem_id="rp-buttons"):
        speak = gr.Button(label("speech.speak"), variant="primary", scale=3, min_width=140, elem_id="rp-speak")
        stop = gr.Button(label("speech.stop"), scale=1, min_width=90, elem_id="rp-stop")
    with gr.Accordion(label("speech.advanced"), open=False, elem_id="rp-advanced", elem_classes="rp-fold") as fold:
        settings = _settings(house)
    shared.settings[:] = [*settings, fold]
    takes = take_list()
    new.click(lambda: gr.Tabs(selected="new"), None, shared.tabs, queue=False, api_visibility="private")
    _tie_voice(house, shared, card, helpers)
    _tie_speech(house, shared, speak, stop, settings, takes)
    _tie_takes(house, shared, takes, settings[0], fold)


def _settings(house: House) -> list[Any]:
    label = house.label
    seed, temperature, top_p, top_k = _usual(house)
    with gr.Row():
        parts: list[Any] = [
            gr.Textbox(  # not a Number: that makes 0 of an empty field
                seed, label=label("speech.seed"), info=label("speech.seed_info"),
                placeholder=label("speech.seed_hint"), max_lines=1, min_width=140, elem_id="rp-seed",
            ),
            gr.Slider(
                0.1, 1.5, temperature, step=0.05, elem_id="rp-temperature",
                label=label("speech.temperature"), info=label("speech.temperature_info"), min_width=140,
            ),
        ]  # fmt: skip
    with gr.Row():
        parts += [
            gr.Slider(
                0.1, 1, top_p, step=0.05, elem_id="rp-top-p",
                label=label("speech.top_p"), info=label("speech.top_p_info"), min_width=140,
            ),
            gr.Slider(
                1, 100, top_k, step=1, elem_id="rp-top-k",
                label=label("speech.top_k"), info=label("speech.top_k_info"), min_width=140,
            ),
        ]  # fmt: skip
    usual = gr.Button(label("speech.usual"), size="sm", elem_id="rp-usual")
    usual.click(lambda: _usual(house), None, parts, queue=False, api_visibility="private")
    return parts


def _usual(house: House) -> list[Any]:
    """Seed, temperature, top-p and top-k as they are for the model of now."""
    usual = house.engine.usual
    return ["", usual.temperature, usual.top_p, usual.top_k]


def _tie_voice(house: House, shared: Shared, card: gr.HTML, helpers: gr.HTML) -> None:
    events, picker, token = Choosing(house), shared.picker, shared.token
    picker.change(None, picker, None, js=REMEMBER)
    for event in (picker.change, card.fresh, shared.bell.voices):
        quick(event, events.look, [picker, token], [card, helpers])
    shared.text.change(None, shared.text, helpers, js="(text) => ({ text })")


def _tie_speech(
    house: House, shared: Shared, speak: gr.Button, stop: gr.Button, settings: list[Any], takes: gr.HTML
) -> None:
    events, stage, streams = Speaking(house), shared.stage, Streams(house, shared.demo)
    # Takes wait in the engine's line, which is fair; Gradio's would be full with what one visitor sends.
    engine: dict[str, Any] = {"concurrency_id": "speech", "concurrency_limit": None}
    asked: list[Any] = [
        event(
            streams.of(fn), inputs, stage, js=js,
            show_progress="minimal", preprocess=False, api_visibility="private", **engine,
        )
        for event, fn, inputs, js in (
            (speak.click, events.speak, [shared.text, shared.picker, *settings, shared.token, stage], BEGIN),
            (takes.again, events.again, [shared.token], None),
        )
    ]  # fmt: skip
    for speaking in asked:
        speaking.failure(None, js="() => { window.reprisePlayer.refused(); }")
        quick(speaking.then, lambda: ring("history"), None, shared.bell)
    for told in (speak.click, shared.picker.input, shared.text.input):  # what was said has been read
        told(None, None, shared.notice, js="() => ''")
    stop.click(None, js="() => { window.reprisePlayer.stop(); }")
    for mended in (shared.text, settings[0]):
        mended.change(None, js="() => { window.reprisePlayer?.calm(); }")
    stage.halt(events.stop, None, None, queue=False, api_visibility="private")
    stage.abandon(None, None, None, cancels=asked)


def _tie_takes(house: House, shared: Shared, takes: gr.HTML, seed: gr.Textbox, fold: gr.Accordion) -> None:
    events, changed = Taking(house), [takes, shared.notice, shared.bell]
    quick(takes.fresh, events.list, [shared.token], takes)
    quick(takes.star, events.star, [shared.token], changed)
    quick(takes.erase, events.delete, [shared.token], changed)
    quick(takes.seed, events.seed, None, [seed, fold])
    shared.bell.history(None, None, None, js="() => { window.repriseTakes?.refresh(); }")
