"""Handlers of the History tab, without a browser."""

import io
from collections.abc import Callable
from typing import Any

import gradio as gr
import httpx
import numpy as np
import pytest
import soundfile

from engine.audio import encode_audio
from storage.repositories.takes import NewTake, TakeRecord
from tests.storage.speaking import card, spoken
from tests.support.fake_engine import SAMPLE_RATE, FakeEngine, buzz, voice
from tests.web.conftest import read_wav
from web.context import WebContext
from web.tabs.history import handlers
from web.tabs.history.handlers import MAX_SHOWN, PAGE_SIZE, HistoryHandlers, HistoryQuery
from web.ui.payloads import parse_payload

NO_REQUEST: Any = None  # a call without a request, as on a page with the local owner only


@pytest.fixture
def events(context: WebContext) -> HistoryHandlers:
    return HistoryHandlers(context)


def add_take(context: WebContext, text: str = "Hello there.", *, owner: str = "local", **how: Any) -> TakeRecord:
    flac = encode_audio(buzz(0, 2_000, 120), SAMPLE_RATE, "flac")
    how = {"voice_id": "a" * 32, "settings": {"temperature": 0.9, "top_p": 0.5, "top_k": 7}, "model": "fake"} | how
    made = context.storage.history.add(
        NewTake(text, flac, 2_000 / SAMPLE_RATE, how.pop("seed", 7), how.pop("voice_name", "Anna"), **how),
        owner=owner,
    )
    assert made is not None
    return made


def event_data(**data: Any) -> gr.EventData:
    return gr.EventData(None, data)


def list_texts(events: HistoryHandlers, search: Any = "", voice: Any = "", starred: Any = False) -> list[str]:
    found = events.refresh_list(search, voice, starred, PAGE_SIZE, None, NO_REQUEST)
    return [entry["text"] for entry in found["entries"]]


# --- the list


def test_entry_has_all_details_of_the_take(context: WebContext, events: HistoryHandlers) -> None:
    kept = add_take(context, "Say <this>.", seed=3, real_time_factor=0.5, stop_reason="length")
    entries, voices, on, days, used = events.show_tab("", None, False, PAGE_SIZE, None, NO_REQUEST)
    (entry,) = entries["entries"]
    links, facts = entry.pop("links"), entry.pop("facts")
    assert "seed=3" in facts.pop("tags")["comment"]
    assert entry == {
        "id": kept.id,
        "when": kept.created.isoformat(),
        "text": "Say <this>.",
        "voice": "Anna",
        "seed": 3,
        "settings": {"temperature": 0.9, "top_p": 0.5, "top_k": 7},
        "seconds": kept.duration,
        "factor": 0.5,
        "model": "fake",
        "ending": "length",
        "starred": False,
        "script": False,
    }
    assert set(links) == {"wav", "flac", "mp3", "opus"}
    assert facts == {
        "text": "Say <this>.",
        "voice": {"id": "a" * 32, "name": "Anna"},
        "seed": 3,
        "model": "fake",
        "settings": entry["settings"],
        "ending": "length",
        "words": [],
        "name": "Anna – Say <this>.wav",
        "links": links,
    }
    assert (entries["total"], entries["unfiltered"], entries["kept"]) == (1, True, True)
    assert (voices.choices, voices.value) == ([("All voices", ""), ("Anna", "a" * 32)], "")
    assert (on, days.value) == (True, 30)
    assert ("30 days", 30) in days.choices
    assert "In use: 0.0 MB for takes, 0.0 MB for voices." in used


def test_list_filters_by_search_voice_and_star(context: WebContext, events: HistoryHandlers) -> None:
    first = add_take(context, "The first.")
    add_take(context, "The second.", voice_id="b" * 32, voice_name="Ben")
    context.storage.history.star(first.id)
    assert list_texts(events) == ["The second.", "The first."]
    assert list_texts(events, search="ben") == ["The second."]
    assert list_texts(events, voice="b" * 32) == ["The second."]
    assert list_texts(events, starred=True) == ["The first."]
    assert list_texts(events, search="nothing like it") == []
    for search, picked, starred in (("x", "", False), ("", "c" * 32, False), ("", "", True)):
        found = events.refresh_list(search, picked, starred, PAGE_SIZE, None, NO_REQUEST)
        assert not found["unfiltered"], "the page reports that nothing matches"


@pytest.mark.parametrize("wrong", [None, 7, ["a"], "\0", "a" * 9_999, "%_\\"])
def test_invalid_searches_do_not_break_the_list(context: WebContext, events: HistoryHandlers, wrong: Any) -> None:
    add_take(context)
    assert isinstance(list_texts(events, search=wrong), list)
    assert isinstance(list_texts(events, voice=wrong), list)
    assert events.show_tab(wrong, wrong, wrong, wrong, None, NO_REQUEST)[0]["total"] in (0, 1)


def test_list_grows_by_pages_up_to_a_limit(
    context: WebContext, events: HistoryHandlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(PAGE_SIZE + 3):
        add_take(context, f"Number {number}.")

    def listed(shown: float) -> tuple[int, int, bool]:
        found = events.refresh_list("", "", False, shown, None, NO_REQUEST)
        return len(found["entries"]), found["total"], found["more"]

    assert len(events.show_tab("", "", False, PAGE_SIZE, None, NO_REQUEST)[0]["entries"]) == PAGE_SIZE
    assert listed(PAGE_SIZE) == (PAGE_SIZE, PAGE_SIZE + 3, True)
    assert listed(2 * PAGE_SIZE) == (PAGE_SIZE + 3, PAGE_SIZE + 3, False)
    monkeypatch.setattr(handlers, "MAX_SHOWN", PAGE_SIZE + 2)
    assert listed(2 * PAGE_SIZE) == (PAGE_SIZE + 2, PAGE_SIZE + 3, False)
    monkeypatch.undo()
    for wrong, limit in ((10**9, MAX_SHOWN), (float("nan"), PAGE_SIZE), (0, PAGE_SIZE)):
        assert parse_payload(HistoryQuery, search="", voice="", starred=False, shown=wrong).limit == limit


def test_filter_resets_when_its_voice_leaves_the_history(context: WebContext, events: HistoryHandlers) -> None:
    kept = add_take(context)
    assert events.show_tab("", "a" * 32, False, PAGE_SIZE, None, NO_REQUEST)[1].value == "a" * 32
    context.storage.history.withdraw(kept.id)
    assert events.show_tab("", "a" * 32, False, PAGE_SIZE, None, NO_REQUEST)[1].value == ""


def test_links_serve_the_sound_in_every_format(
    serve: Callable[..., str], context: WebContext, engine: FakeEngine, events: HistoryHandlers
) -> None:
    add_take(context, "The rain has stopped.")
    url = serve(engine, context.storage)
    links = events.refresh_list("", "", False, PAGE_SIZE, None, NO_REQUEST)["entries"][0]["links"]
    answers = {kind: httpx.get(url.rstrip("/") + link) for kind, link in links.items()}
    assert {answer.status_code for answer in answers.values()} == {200}
    samples, rate = read_wav(answers["wav"].content)
    np.testing.assert_allclose(samples / 32768, buzz(0, 2_000, 120), atol=2e-4)
    assert rate == SAMPLE_RATE
    take = events.refresh_list("", "", False, PAGE_SIZE, None, NO_REQUEST)["entries"][0]["id"]
    sent, kept = (
        soundfile.read(io.BytesIO(flac), dtype="int16")[0]
        for flac in (answers["flac"].content, context.storage.history.audio(take))
    )
    np.testing.assert_array_equal(sent, kept)
    assert answers["opus"].content.startswith(b"OggS")
    assert len(answers["mp3"].content) > 100
    assert "The%20rain" in answers["mp3"].headers["content-disposition"]


# --- entries


def test_entries_are_starred_and_unstarred(context: WebContext, events: HistoryHandlers) -> None:
    kept = add_take(context)
    message, broadcast = events.star_entry(None, event_data(id=kept.id, starred=True), NO_REQUEST)
    assert (message, broadcast["what"]) == ("", "history")
    assert context.storage.history.get(kept.id).starred
    events.star_entry(None, event_data(id=kept.id, starred=False), NO_REQUEST)
    assert not context.storage.history.get(kept.id).starred


def test_deleting_an_entry_keeps_the_take_of_its_script(context: WebContext, events: HistoryHandlers) -> None:
    kept = add_take(context)
    script = context.storage.scripts.create("Play", [card("One.")])
    (only,) = context.storage.scripts.cards(script.id)
    context.storage.scripts.attach(only.id, spoken("One."))
    take = context.storage.history.page(search="one").records[0]
    message, _, shown = events.delete_entry(None, event_data(id=kept.id), NO_REQUEST)
    assert "deleted" in message
    assert shown == gr.skip()
    assert events.delete_entry(None, event_data(id=kept.id), NO_REQUEST)[2]["refused"] == kept.id
    assert "its script still has the take" in events.delete_entry(None, event_data(id=take.id), NO_REQUEST)[0]
    assert list_texts(events) == []
    assert context.storage.scripts.list()[0].done == 1


@pytest.mark.parametrize("wrong", [None, 7, "x", "0" * 32, {"a": 1}])
def test_unknown_entries_are_reported(events: HistoryHandlers, wrong: Any) -> None:
    for event in (events.star_entry, events.delete_entry, events.reuse_entry):
        *_, message = (
            message
            for message in event(None, event_data(id=wrong, starred=True), NO_REQUEST)
            if isinstance(message, str)
        )
        assert 'role="alert"' in message


def test_reuse_restores_text_voice_and_settings(context: WebContext, events: HistoryHandlers) -> None:
    anna = context.storage.voices.add(voice("Anna"))
    kept = add_take(context, "Once more.", seed=42, voice_id=anna.id)
    hints, picked, seed, *settings, fold, message, tabs, own = events.reuse_entry(
        None, event_data(id=kept.id), NO_REQUEST
    )
    assert (hints, picked.value, seed) == ({"write": "Once more."}, anna.id, "42")
    assert settings == [0.9, 0.5, 7, 0, 1, "", gr.skip()]
    assert (tabs.selected, fold.open) == ("speak", True)
    assert "are restored.</p>" in message
    assert own == ""
    unknown = add_take(context, voice_id=anna.id, model="")
    assert "are restored.</p>" in events.reuse_entry(None, event_data(id=unknown.id), NO_REQUEST)[-3]


def test_reuse_reports_differences(context: WebContext, events: HistoryHandlers) -> None:
    anna = context.storage.voices.add(voice("Anna"))
    fast = add_take(context, voice_id=anna.id, settings={"speed": 1.25})
    _, _, _, *settings, _, _, _, _ = events.reuse_entry(None, event_data(id=fast.id), NO_REQUEST)
    assert settings[3:5] == [0, 1.25]
    other = add_take(context, voice_id=anna.id, model="large", settings={})
    _, _, _, *settings, _, message, _, _ = events.reuse_entry(None, event_data(id=other.id), NO_REQUEST)
    assert "large spoke this take, so it will sound different with fake" in message
    assert settings == [*[gr.skip()] * 3, 0, 1, "", gr.skip()], "unknown settings stay unchanged"
    context.storage.voices.delete(anna.id)
    hints, picked, *_, message, _, _ = events.reuse_entry(None, event_data(id=other.id), NO_REQUEST)
    assert (hints, picked) == ({"write": "Hello there."}, gr.skip())
    assert "“Anna” no longer exists" in message


# --- retention


def test_history_is_switched_off_and_on(context: WebContext, events: HistoryHandlers) -> None:
    message, broadcast = events.set_history_enabled(False, None, NO_REQUEST)
    assert "not kept" in message
    assert "deleted after 30 days;" in message  # those already here, as before
    assert broadcast["what"] == "history"
    assert not events.show_tab("", "", False, PAGE_SIZE, None, NO_REQUEST)[2]
    assert not events.refresh_list("", "", False, PAGE_SIZE, None, NO_REQUEST)["kept"]
    assert "are kept" in events.set_history_enabled(True, None, NO_REQUEST)[0]
    assert context.storage.history.settings().history


def test_retention_days_are_validated_and_saved(context: WebContext, events: HistoryHandlers) -> None:
    assert "after 1 day;" in events.set_retention(1, None, NO_REQUEST)[0]
    assert "after 7 days;" in events.set_retention(7, None, NO_REQUEST)[0]
    assert context.storage.history.settings().retention_days == 7
    for wrong in (None, "many", 0, -1, 2.5, float("nan"), float("inf"), 10**9, True):
        assert 'role="alert"' in events.set_retention(wrong, None, NO_REQUEST)[0], wrong
    assert context.storage.history.settings().retention_days == 7
    context.storage.history.change_settings(retention_days=45)
    days = events.show_tab("", "", False, PAGE_SIZE, None, NO_REQUEST)[3]
    assert ("45 days", 45) in days.choices, "a value set elsewhere is offered as well"


def test_clearing_the_history_asks_first(context: WebContext, events: HistoryHandlers) -> None:
    question, _, message, _ = events.confirm_clear(None, NO_REQUEST)
    assert not question.visible
    assert "already empty" in message
    context.storage.history.star(add_take(context).id)
    add_take(context)
    question, asked, message, other = events.confirm_clear(None, NO_REQUEST)
    assert (question.visible, other.visible, message) == (True, False, "")
    assert "Takes: 2, 1 of them starred" in asked
    assert len(list_texts(events)) == 2, "asking deletes nothing"
    message, broadcast, question = events.clear_history(None, NO_REQUEST)
    assert "Takes deleted: 2" in message
    assert (broadcast["what"], question.visible) == ("history", False)
    assert list_texts(events) == []


def test_deleting_all_data_asks_first_with_counts(
    context: WebContext, events: HistoryHandlers, engine: FakeEngine
) -> None:
    context.storage.voices.add(voice("Anna"))
    context.storage.voices.add(voice("Theirs"), owner="other")
    add_take(context)
    add_take(context, owner="other")
    context.storage.scripts.create("Play", [card("One.")])
    context.storage.history.change_settings(history=False)
    begun = context.takes.deletion_token(owner="local")
    unlisted = context.takes.save(spoken("Not in the history."), owner="local", deletion_token=begun)
    theirs = context.takes.save(spoken("Theirs."), owner="other", deletion_token=begun)
    assert unlisted
    assert theirs
    question, asked, _, other = events.confirm_delete_everything(None, NO_REQUEST)
    assert (question.visible, other.visible) == (True, False)
    assert "Voices: 1. Takes in the history: 1. Scripts: 1. Takes in scripts: 0." in asked
    assert not context.storage.owner_counts().empty, "asking deletes nothing"
    message, broadcast, question, emptied = events.delete_everything(None, NO_REQUEST)
    assert "is deleted" in message
    assert (broadcast["what"], question.visible) == ("voices history scripts words", False)
    assert emptied["entries"] == []
    assert emptied["forget"], "the browser clears its storage as well"
    assert context.storage.owner_counts().empty
    assert context.storage.history.settings().history
    with pytest.raises(LookupError):
        context.takes.get(unlisted.id, owner="local")
    assert context.takes.get(theirs.id, owner="other").id == theirs.id
    assert [record.name for record in context.storage.voices.list(owner="other")] == ["Theirs"]
    assert context.storage.owner_counts(owner="other").history == 2
    assert engine.forgotten, "the engine drops the voices"


def test_failed_deletion_is_reported_and_leaves_the_view(context: WebContext, events: HistoryHandlers) -> None:
    context.storage.close()
    message, *unchanged = events.delete_everything(None, NO_REQUEST)
    assert 'role="alert"' in message
    assert unchanged == [gr.skip()] * 3
    assert 'role="alert"' in events.clear_history(None, NO_REQUEST)[0]


# --- owners


def test_entries_of_other_owners_are_unreachable(context: WebContext, events: HistoryHandlers) -> None:
    theirs = add_take(context, "Secret.", owner="other")
    assert list_texts(events) == []
    assert events.show_tab("", "", False, PAGE_SIZE, None, NO_REQUEST)[1].choices == [("All voices", "")]
    for event in (events.star_entry, events.delete_entry, events.reuse_entry):
        event(None, event_data(id=theirs.id, starred=True), NO_REQUEST)
    events.clear_history(None, NO_REQUEST)
    events.delete_everything(None, NO_REQUEST)
    assert context.storage.history.get(theirs.id, owner="other") == theirs


def test_page_with_a_forged_key_shows_nothing(engine: FakeEngine, context: WebContext) -> None:
    from tests.web.conftest import make_context

    add_take(context)
    events = HistoryHandlers(make_context(engine, context.storage, context.folder, "browser"))
    assert events.show_tab("", "", False, PAGE_SIZE, "forged", NO_REQUEST) == (gr.skip(),) * 5
    assert events.refresh_list("", "", False, PAGE_SIZE, "forged", NO_REQUEST) == gr.skip()
    for message, *_ in (
        events.clear_history("forged", NO_REQUEST),
        events.delete_everything("forged", NO_REQUEST),
        events.set_history_enabled(False, "forged", NO_REQUEST),
    ):
        assert 'role="alert"' in message
    assert context.storage.owner_counts().history == 1
