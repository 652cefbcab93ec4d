"""History: what was spoken, and what is kept of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

from web.tabs.history.handlers import PAGE, Remembering
from web.ui.components import history_list
from web.ui.wiring import Shared, line, quick, title

if TYPE_CHECKING:
    from web.context import House


def build(house: House, shared: Shared) -> None:
    """Lays out the tab and ties its events."""
    events, label, token = Remembering(house), house.label, shared.token
    title(label("tab.history"))
    with gr.Accordion(label("history.kept"), open=False, elem_id="rp-history-kept", elem_classes="rp-fold"):
        keep, days, used = _kept(house)
        with gr.Row(elem_id="rp-history-delete"):
            ask_clear = gr.Button(label("history.clear"), size="sm", min_width=120, elem_id="rp-clear")
            ask_forget = gr.Button(label("history.forget"), size="sm", min_width=120, elem_id="rp-forget")
        clear = _question(house, "clear", label("history.clear_sure"))
        forget = _question(house, "forget", label("history.forget_sure"))
        about = line("rp-kept-notice")
    with gr.Row(equal_height=True, elem_id="rp-history-find"):
        search = gr.Textbox(
            label=label("history.search"), placeholder=label("history.search_hint"),
            max_lines=1, scale=3, min_width=180, elem_id="rp-history-search",
        )  # fmt: skip
        voice = gr.Dropdown(
            label=label("history.voice"), choices=[], value=None, scale=2, min_width=150, elem_id="rp-history-voice"
        )
        starred = gr.Checkbox(label=label("history.starred"), scale=1, min_width=130, elem_id="rp-history-starred")
    shown = gr.Number(PAGE, visible=False)
    entries = history_list()
    said = line("rp-history-notice")
    wanted = [search, voice, starred]
    quick(shared.bell.history, events.show, [*wanted, shown, token], [entries, voice, keep, days, used])
    for change in (search.change, voice.input, starred.input):  # a text's `input` is silent when it is cut or dictated
        quick(change, events.find, [*wanted, token], [entries, shown], trigger_mode="always_last")
    quick(entries.more, events.more, [*wanted, shown, token], [entries, shown])
    quick(entries.refresh, events.refresh, [*wanted, shown, token], entries)
    quick(entries.star, events.star, token, [said, shared.bell])
    quick(entries.withdraw, events.withdraw, token, [said, shared.bell])
    speak = [shared.text, shared.picker, *shared.settings, shared.notice, shared.tabs]
    quick(entries.again, events.use_again, token, [*speak, said])
    quick(keep.input, events.keep, [keep, token], [about, shared.bell])
    quick(days.input, events.keep_for, [days, token], [about, shared.bell])
    _deletes(shared, ask_clear, clear, events.ask_clear, events.clear, about)
    _deletes(shared, ask_forget, forget, events.ask_forget, events.forget, about, entries)


def _kept(house: House) -> tuple[gr.Checkbox, gr.Dropdown, gr.HTML]:
    """The switch, the days, and what things take."""
    label = house.label
    with gr.Row():
        keep = gr.Checkbox(
            True, label=label("history.keep"), info=label("history.keep_info"), min_width=220, elem_id="rp-history-keep"
        )
        days = gr.Dropdown(
            label=label("history.keep_for"), info=label("history.keep_for_info"), choices=[], value=None,
            min_width=160, elem_id="rp-history-days",
        )  # fmt: skip
    return keep, days, gr.HTML("", elem_id="rp-history-used", apply_default_css=False)


def _question(house: House, name: str, answer: str) -> tuple[gr.Column, gr.HTML, gr.Button]:
    """What is asked before something is deleted for good: the column, its sentence, and the button that says yes."""
    with gr.Column(visible=False, elem_id=f"rp-{name}-question", elem_classes="rp-sure") as question:
        asked = gr.HTML("", apply_default_css=False)
        with gr.Row():
            sure = gr.Button(answer, size="sm", min_width=120, elem_id=f"rp-{name}-sure", elem_classes="rp-danger")
            keep = gr.Button(house.label("history.keep_it"), size="sm", min_width=90)
    keep.click(lambda: gr.Column(visible=False), None, question, queue=False, api_visibility="private")
    return question, asked, sure


def _deletes(
    shared: Shared, button: gr.Button, parts: tuple[gr.Column, gr.HTML, gr.Button], ask: Any, do: Any, *more: gr.HTML
) -> None:
    """Ties a button to its question, and the question to what is done. more: notice, and what `do` fills besides."""
    question, asked, sure = parts
    said, *others = more
    quick(button.click, ask, shared.token, [question, asked, said])
    quick(sure.click, do, shared.token, [said, shared.bell, question, *others])
