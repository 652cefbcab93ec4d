"""Handlers of the History tab: search the history, reuse entries, and change retention."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from pydantic import BeforeValidator, Field

from engine.errors import InvalidInput
from storage.validation import MAX_SEARCH
from studio.provenance.provenance import public_name
from studio.takes.settings import LANGUAGE, PARAGRAPH_PAUSE, SAMPLING_SETTINGS, SPEED
from web.tabs.history.views import (
    entry_view,
    megabytes,
    question_html,
    retention_choices,
    retention_time,
    storage_use_html,
)
from web.ui.events import broadcast_change, skip_on_error, with_nonce
from web.ui.messages import error_message, notice
from web.ui.payloads import Item, Payload, SelectedId, affected_id, default_if_invalid, parse_payload
from web.ui.voice_picker import select_voice

if TYPE_CHECKING:
    from storage.repositories.takes import TakeRecord
    from web.context import WebContext
    from web.identity.owners import Owner
    from web.ui.i18n import Texts

PAGE_SIZE = 20  # entries; "Show more" adds as many again
MAX_SHOWN = 400  # entries

Updates = tuple[Any, ...]


def _clean_search(search: Any) -> str:
    return search[:MAX_SEARCH].replace("\0", " ") if isinstance(search, str) else ""


class HistoryQuery(Payload):
    """The entries to show. An invalid field counts as empty."""

    search: Annotated[str, BeforeValidator(_clean_search), default_if_invalid("")]
    voice: SelectedId
    starred: Annotated[bool, default_if_invalid(False)]
    shown: Annotated[float, Field(allow_inf_nan=False), default_if_invalid(PAGE_SIZE)] = PAGE_SIZE

    @property
    def limit(self) -> int:
        """The number of entries."""
        return int(max(PAGE_SIZE, min(MAX_SHOWN, self.shown)))


class EntryStar(Item):
    """An entry and its new star state."""

    starred: bool


class HistorySwitch(Payload):
    """The history switch. wanted: add new takes to the history."""

    wanted: bool


class RetentionTime(Payload):
    """The retention time in days, 0 for an invalid number."""

    days: Annotated[int, Field(ge=1, le=100_000), default_if_invalid(0)]


class HistoryHandlers:
    """Event handlers of the History tab. Ids are untrusted: the history looks them up under the owner."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._history = context.storage.history

    @skip_on_error(5)
    def show_tab(self, search: Any, voice: Any, starred: Any, shown: Any, token: Any, request: gr.Request) -> Updates:
        """Outputs: list, voices to choose from, history switch, retention time, storage use."""
        texts = self._context.texts(request)
        owner = self._context.owner(token, request)
        settings = self._history.settings(owner=owner.key)
        voices = [("", texts("history.all_voices"))]
        voices += [(spoken.id, spoken.name) for spoken in self._history.voices(owner=owner.key)]
        query = parse_payload(HistoryQuery, search=search, voice=voice, starred=starred, shown=shown)
        if query.voice not in [id for id, _ in voices]:
            query = query.model_copy(update={"voice": ""})
        days = settings.retention_days
        return (
            self._list(owner, query),
            gr.Dropdown(choices=[(name, id) for id, name in voices], value=query.voice),
            settings.history,
            gr.Dropdown(choices=retention_choices(days, texts), value=days),
            storage_use_html(self._context.storage.storage_use(owner=owner.key), texts),
        )

    @skip_on_error(1)
    def refresh_list(self, search: Any, voice: Any, starred: Any, shown: Any, token: Any, request: gr.Request) -> Any:
        """Output: list, with new links."""
        owner = self._context.owner(token, request)
        return self._list(owner, parse_payload(HistoryQuery, search=search, voice=voice, starred=starred, shown=shown))

    def star_entry(self, token: Any, event: gr.EventData, request: gr.Request) -> Updates:
        """Outputs: notice, change broadcast."""

        def star(owner: str, _texts: Texts) -> str:
            entry = parse_payload(EntryStar, event)
            self._history.star(entry.id, entry.starred, owner=owner)
            return ""

        return self._change(star, token, request)

    def delete_entry(self, token: Any, event: gr.EventData, request: gr.Request) -> Updates:
        """Outputs: notice, change broadcast, list (`refused`: an entry that is not deleted).

        A take of a script stays in the script.
        """
        refused: Any = with_nonce({"refused": affected_id(event)})

        def delete(owner: str, texts: Texts) -> str:
            nonlocal refused
            entry = parse_payload(Item, event).id
            of_script = self._history.get(entry, owner=owner).script_id
            self._history.withdraw(entry, owner=owner)
            refused = gr.skip()
            return texts("history.left_to_script") if of_script else texts("history.deleted")

        return *self._change(delete, token, request), refused

    def reuse_entry(self, token: Any, event: gr.EventData, request: gr.Request) -> Updates:
        """Outputs: Speak's hints, which write its text, voice, seed, settings, accordion, notice; tab; own notice."""
        texts = self._context.texts(request)
        try:
            owner = self._context.owner(token, request).key
            record = self._history.get(parse_payload(Item, event).id, owner=owner)
            voices = self._context.voices.list(owner=owner)
        except Exception as error:
            return *(gr.skip(),) * 13, notice(error_message(error, texts), "bad")
        exists = any(voice.id == record.voice_id for voice in voices)
        picker = select_voice(voices, record.voice_id, texts) if exists else gr.skip()
        settings = [record.settings.get(name, gr.skip()) for name in SAMPLING_SETTINGS]
        settings += [record.settings.get(PARAGRAPH_PAUSE, 0), record.settings.get(SPEED, 1)]
        settings += [record.settings.get(LANGUAGE, ""), gr.skip()]
        remark = notice(self._reuse_remark(record, exists, texts), "good" if exists else "bad")
        accordion = gr.Accordion(open=True)  # shows the seed
        text = {"write": record.text}
        return text, picker, str(record.seed), *settings, accordion, remark, gr.Tabs(selected="speak"), ""

    def set_history_enabled(self, wanted: Any, token: Any, request: gr.Request) -> Updates:
        """Outputs: notice, change broadcast."""

        def switch(owner: str, texts: Texts) -> str:
            enabled = parse_payload(HistorySwitch, wanted=wanted).wanted
            settings = self._history.change_settings(history=enabled, owner=owner)
            if settings.history:
                return texts("history.kept_on")
            return texts("history.kept_off", time=retention_time(settings.retention_days, texts))

        return self._change(switch, token, request)

    def set_retention(self, days: Any, token: Any, request: gr.Request) -> Updates:
        """Outputs: notice, change broadcast."""

        def change(owner: str, texts: Texts) -> str:
            wanted = parse_payload(RetentionTime, days=days).days
            if not wanted:
                raise InvalidInput(texts("history.no_days"))
            kept = self._history.change_settings(retention_days=wanted, owner=owner).retention_days
            return texts("history.days_set", time=retention_time(kept, texts))

        return self._change(change, token, request)

    def confirm_clear(self, token: Any, request: gr.Request) -> Updates:
        """Outputs: question (column), its text, notice, the other question (hidden)."""

        def question(owner: str, texts: Texts) -> str:
            counts = self._context.storage.owner_counts(owner=owner)
            if not counts.history:
                raise InvalidInput(texts("history.nothing"))
            return texts("history.clear_question", count=counts.history, starred=counts.starred)

        return self._confirm(question, token, request)

    def clear_history(self, token: Any, request: gr.Request) -> Updates:
        """Outputs: notice, change broadcast, question (hidden)."""

        def clear(owner: str, texts: Texts) -> str:
            return texts("history.cleared", count=self._history.clear(owner=owner))

        return *self._change(clear, token, request), gr.Column(visible=False)

    def confirm_delete_everything(self, token: Any, request: gr.Request) -> Updates:
        """Outputs: question (column), its text, notice, the other question (hidden)."""

        def question(owner: str, texts: Texts) -> str:
            counts = self._context.storage.owner_counts(owner=owner)
            return texts(
                "history.forget_question",
                voices=counts.voices,
                history=counts.history,
                scripts=counts.scripts,
                takes=counts.takes,
                size=megabytes(counts.storage.total, texts),
            )

        return self._confirm(question, token, request)

    def delete_everything(self, token: Any, request: gr.Request) -> Updates:
        """Outputs: notice, change broadcast, question (hidden), list (`forget` also clears the browser's storage)."""
        texts = self._context.texts(request)
        try:
            self._context.delete_owner(self._context.owner(token, request).key)
        except Exception as error:
            return notice(error_message(error, texts), "bad"), gr.skip(), gr.skip(), gr.skip()
        emptied = {"entries": [], "total": 0, "unfiltered": True, "kept": True, "forget": True}
        everywhere = broadcast_change("voices", "history", "scripts", "words")
        return notice(texts("history.forgotten")), everywhere, gr.Column(visible=False), emptied

    def _list(self, owner: Owner, query: HistoryQuery) -> dict[str, Any]:
        """Return the list's value. total: of the entries that match. more: whether a longer list would have more of
        them. unfiltered: whether all entries match. kept: whether new takes are added.
        """
        page = self._history.page(
            owner=owner.key,
            search=query.search,
            starred=query.starred,
            voice_id=query.voice or None,
            limit=query.limit,
        )
        filtered = bool(query.search.strip() or query.starred or query.voice)
        return {
            "entries": [entry_view(record, owner, self._context.links) for record in page.records],
            "total": page.total,
            "more": len(page.records) < min(page.total, MAX_SHOWN),
            "unfiltered": not filtered,
            "kept": self._history.settings(owner=owner.key).history,
        }

    def _reuse_remark(self, record: TakeRecord, voice_exists: bool, texts: Texts) -> str:
        if not voice_exists:
            return texts("history.voice_gone", name=record.voice_name)
        current = self._context.engine.info.name
        if record.model and record.model != current:
            return texts("history.other_model", model=public_name(record.model), current=public_name(current))
        return texts("history.used_again")

    def _change(self, change: Callable[[str, Texts], str], token: Any, request: gr.Request) -> Updates:
        """Run a change. change: takes the owner's key and the texts, and returns the text to show."""
        texts = self._context.texts(request)
        try:
            text = change(self._context.owner(token, request).key, texts)
        except Exception as error:
            return notice(error_message(error, texts), "bad"), broadcast_change("history")
        return notice(text) if text else "", broadcast_change("history")

    def _confirm(self, question: Callable[[str, Texts], str], token: Any, request: gr.Request) -> Updates:
        texts = self._context.texts(request)
        try:
            text = question(self._context.owner(token, request).key, texts)
        except Exception as error:
            return gr.Column(visible=False), "", notice(error_message(error, texts), "bad"), gr.Column(visible=False)
        return gr.Column(visible=True), question_html(text), "", gr.Column(visible=False)
