"""The voice rail, without a page."""

from typing import Any

import gradio as gr
import pytest

from storage import Storage, VoiceLibrary
from tests.support.fake_engine import voice
from web.context import WebContext
from web.tabs.speak.rail import RailHandlers
from web.ui.events import answer_time


def test_a_mark_of_a_voice_that_was_deleted_meanwhile_only_updates_the_rail(
    context: WebContext, library: VoiceLibrary, storage: Storage
) -> None:
    ben, anna = library.add(voice("Ben")), library.add(voice("Anna"))
    library.trash(ben.id)
    events = RailHandlers(context)
    for marked, favourites in ((ben.id, set()), (anna.id, {anna.id})):
        rail = events.mark_voice(None, None, gr.EventData(None, {"id": marked, "marked": True}))  # type: ignore[arg-type]
        assert [(each["name"], each["favourite"]) for each in rail["voices"]] == [("Anna", bool(favourites))]
        assert rail["voices"][0]["made"] == anna.created.isoformat()
        assert storage.favourites.ids() == favourites
    assert events.mark_voice(None, None, gr.EventData(None, {"id": "nonsense"})) == gr.skip()  # type: ignore[arg-type]


def test_the_time_of_a_list_is_before_it_is_read(
    context: WebContext, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, began = storage.favourites.ids, []

    def note(**owner: Any) -> set[str]:
        began.append(answer_time())
        return read(**owner)

    monkeypatch.setattr(storage.favourites, "ids", note)
    assert RailHandlers(context).list_voices(None, None)["at"] <= began[0]  # type: ignore[arg-type]
