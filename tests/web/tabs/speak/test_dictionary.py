"""Handlers of the pronunciation dictionary."""

from typing import Any

import gradio as gr

from web.context import WebContext
from web.tabs.speak.dictionary import DictionaryHandlers

NO_REQUEST: Any = None  # a call without a request, as on a page with the local owner only
ENTRY = {"word": " SQL ", "spoken": "sequel", "match_case": False, "language": ""}


def test_each_change_is_broadcast_to_other_pages_and_a_refused_one_is_not(context: WebContext) -> None:
    events = DictionaryHandlers(context)
    for change, data, words in (
        (events.save_entry, ENTRY, ["SQL"]),
        (events.import_entries, {"text": "GIF,jif\n"}, ["GIF", "SQL"]),
        (events.erase, ENTRY | {"word": "SQL"}, ["GIF"]),
    ):
        answer, broadcast = change(None, NO_REQUEST, gr.EventData(None, data))
        assert (answer["kind"], [entry["word"] for entry in answer["entries"]]) == ("good", words)
        assert broadcast["what"] == "words"
        assert events.list_entries(None, NO_REQUEST)["entries"] == answer["entries"]
    answer, broadcast = events.save_entry(None, NO_REQUEST, gr.EventData(None, {**ENTRY, "word": ""}))
    assert (answer["kind"], broadcast) == ("bad", gr.skip())
