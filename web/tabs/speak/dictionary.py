"""Handlers of the pronunciation dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.voice import MAX_LANGUAGE
from storage.pronunciations import Pronunciation
from studio.pronunciation import MAX_FILE, checked, from_csv, to_csv
from web.ui.events import broadcast_change, skip_on_error, with_nonce
from web.ui.messages import error_message
from web.ui.payloads import Payload, ShortText, parse_payload

if TYPE_CHECKING:
    from web.context import WebContext

Updates = tuple[Any, ...]
Answer = dict[str, Any]


class DictionaryEntry(Payload):
    """An entry of the dictionary."""

    word: ShortText
    language: ShortText
    spoken: ShortText
    match_case: bool


class WordFile(Payload):
    """The text of a CSV file."""

    text: str


class DictionaryHandlers:
    """Event handlers of the dictionary. Their first output is its value, for dictionary.js."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    @skip_on_error(1)
    def list_entries(self, token: Any, request: gr.Request) -> Any:
        """Output: dictionary."""
        return self._value(self._context.owner(token, request).key)

    def save_entry(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """Outputs: dictionary, change broadcast."""

        def change(owner: str) -> Answer:
            entry = parse_payload(DictionaryEntry, event)
            given = Pronunciation(
                entry.word.strip(), entry.spoken.strip(), entry.match_case, entry.language[:MAX_LANGUAGE]
            )
            new = checked(given)
            self._context.storage.pronunciations.put([new], owner=owner)
            message = self._context.texts(request)("words.saved", word=new.word)
            return {"message": message, "saved": entry.model_dump()}

        return self._changed(change, token, request)

    def erase(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """Outputs: dictionary, change broadcast."""

        def change(owner: str) -> Answer:
            entry = parse_payload(DictionaryEntry, event)
            self._context.storage.pronunciations.delete(entry.word, entry.language, owner=owner)
            message = self._context.texts(request)("words.deleted", word=entry.word)
            return {"message": message, "erased": entry.model_dump()}

        return self._changed(change, token, request)

    def import_entries(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """Outputs: dictionary, change broadcast."""

        def change(owner: str) -> Answer:
            entries = from_csv(parse_payload(WordFile, event).text[: MAX_FILE + 1])
            self._context.storage.pronunciations.put(entries, owner=owner)
            return {"message": self._context.texts(request)("words.imported", count=len(entries))}

        return self._changed(change, token, request)

    def _changed(self, change: Callable[[str], Answer], token: Any, request: gr.Request) -> Updates:
        value: Answer = {}
        try:
            owner = self._context.owner(token, request).key
            value = self._value(owner)
            answer = {"kind": "good", **change(owner)}
            value = self._value(owner)
        except Exception as error:
            answer = {"kind": "bad", "message": error_message(error, self._context.texts(request))}
        answer = with_nonce({**value, **answer})
        return answer, broadcast_change("words") if answer["kind"] == "good" else gr.skip()

    def _value(self, owner: str) -> Answer:
        entries = self._context.storage.pronunciations.list(owner=owner)
        views = [
            {"word": each.word, "spoken": each.spoken, "match_case": each.match_case, "language": each.language}
            for each in entries
        ]
        return {"entries": views, "csv": to_csv(entries), "phones": self._context.engine.info.capabilities.phones}
