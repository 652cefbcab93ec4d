"""Layout of the History tab: entries and retention settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

from web.tabs.history.handlers import PAGE_SIZE, HistoryHandlers
from web.ui.components import history_list
from web.ui.events import REPEATED, keep_choices, listen, listen_to_latest, listen_to_marks, show
from web.ui.shared import SharedComponents, notice_line, section_title

if TYPE_CHECKING:
    from web.context import WebContext

HIDE = "() => ({ __type__: 'update', visible: false })"
_Question = tuple[gr.Column, gr.HTML, gr.Button]  # the column, its text, and the confirm button


def build(context: WebContext, shared: SharedComponents) -> None:
    """Lay out the tab and register its event listeners."""
    handlers, label, token = HistoryHandlers(context), context.label, shared.token
    section_title(label("tab.history"))
    with gr.Row(equal_height=True, elem_id="rp-history-find"):
        search = gr.Textbox(
            label=label("history.search"), placeholder=label("history.search_hint"),
            max_lines=1, scale=3, min_width=180, elem_id="rp-history-search",
        )  # fmt: skip
        voice = gr.Dropdown(
            label=label("history.voice"), choices=[], value=None, scale=2, min_width=150, elem_id="rp-history-voice"
        )
        starred = gr.Checkbox(label=label("history.starred"), scale=1, min_width=130, elem_id="rp-history-starred")
    shown = gr.Number(PAGE_SIZE, visible=False)
    entries = history_list()
    message = notice_line("rp-history-notice")
    with gr.Accordion(label("history.kept"), open=False, elem_id="rp-history-kept", elem_classes="rp-fold"):
        keep, days, used = _retention_inputs(context)
        with gr.Row(elem_id="rp-history-delete"):
            ask_clear = gr.Button(label("history.clear"), size="sm", min_width=120, elem_id="rp-clear")
            ask_forget = gr.Button(label("history.forget"), size="sm", min_width=120, elem_id="rp-forget")
        clear = _question(context, "clear", label("history.clear_sure"))
        forget = _question(context, "forget", label("history.forget_sure"))
        kept_notice = notice_line("rp-kept-notice")
    wanted = [search, voice, starred]
    query = [*wanted, shown, token]
    for event in (shared.changes.history, entries.shown):
        show(event, handlers.show_tab, query, [entries, voice, keep, days, used])
    for change in (search.change, voice.input, starred.input):  # a textbox fires no `input` on cut and dictation
        first = change(None, None, shown, js=f"() => {PAGE_SIZE}", api_visibility="private")
        show(first.then, handlers.refresh_list, query, entries, trigger_mode="always_last")
    shared.changes.forgotten(None, None, search, js="() => ''", api_visibility="private")
    more = entries.more(None, shown, shown, js=f"(shown) => shown + {PAGE_SIZE}", api_visibility="private")
    for event in (more.then, entries.refresh):
        show(event, handlers.refresh_list, query, entries)
    keep_choices(voice, keep, days)
    changed = [message, shared.changes]
    listen_to_marks(entries.star, handlers.star_entry, token, changed)
    deleted = listen(entries.withdraw, handlers.delete_entry, token, [*changed, entries], trigger_mode="multiple")
    deleted.failure(None, js="() => { reprise.deletionsFailed('rp-history'); }")
    speak = [shared.hints, shared.picker, *shared.settings, shared.notice, shared.tabs]
    listen_to_latest(entries.again, handlers.reuse_entry, token, [*speak, message])
    for choice, handler in ((keep, handlers.set_history_enabled), (days, handlers.set_retention)):
        told = [kept_notice, shared.changes]
        listen(choice.input, handler, [choice, token], told, js=REPEATED, trigger_mode="always_last")
    _listen_for_deletion(shared, ask_clear, clear, forget, handlers.confirm_clear, handlers.clear_history, kept_notice)
    _listen_for_deletion(
        shared, ask_forget, forget, clear, handlers.confirm_delete_everything, handlers.delete_everything, kept_notice,
        entries,
    )  # fmt: skip


def _retention_inputs(context: WebContext) -> tuple[gr.Checkbox, gr.Dropdown, gr.HTML]:
    """Lay out the history switch, the retention time and the storage use."""
    label = context.label
    with gr.Row():
        keep = gr.Checkbox(
            True, label=label("history.keep"), info=label("history.keep_info"), min_width=220, elem_id="rp-history-keep"
        )
        days = gr.Dropdown(
            label=label("history.keep_for"), info=label("history.keep_for_info"), choices=[], value=None,
            min_width=160, elem_id="rp-history-days",
        )  # fmt: skip
    return keep, days, gr.HTML("", elem_id="rp-history-used", apply_default_css=False)


def _question(context: WebContext, name: str, answer: str) -> _Question:
    """Lay out a question before permanent deletion."""
    with gr.Column(visible=False, elem_id=f"rp-{name}-question", elem_classes="rp-sure") as question:
        asked = gr.HTML("", apply_default_css=False)
        with gr.Row():
            sure = gr.Button(answer, size="sm", min_width=120, elem_id=f"rp-{name}-sure", elem_classes="rp-danger")
            keep = gr.Button(context.label("history.keep_it"), size="sm", min_width=90, elem_id=f"rp-{name}-keep")
    kept = keep.click(None, None, question, js=HIDE, queue=False, api_visibility="private")
    _focus(kept, f"rp-{name}")
    return question, asked, sure


def _listen_for_deletion(
    shared: SharedComponents,
    button: gr.Button,
    parts: _Question,
    other: _Question,
    ask: Any,
    do: Any,
    *more: gr.HTML,
) -> None:
    """Connect a button to its question, and the question to the deletion. more: notice, further outputs of `do`.

    other: the question that closes when this one opens.
    """
    question, asked, sure = parts
    message, *others = more
    _focus(listen(button.click, ask, shared.token, [question, asked, message, other[0]]), f"{button.elem_id}-keep")
    _focus(listen(sure.click, do, shared.token, [message, shared.changes, question, *others]), f"{button.elem_id}")


def _focus(event: Any, elem_id: str) -> None:
    """Focus a button after an event, as soon as it is shown: the focused one may be hidden or below the page."""
    event.then(None, None, None, js=f"() => {{ reprise.focusWhenShown('{elem_id}'); }}", api_visibility="private")
