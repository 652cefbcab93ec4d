"""The events of the History tab, without a browser."""

import io
from collections.abc import Callable
from typing import Any

import gradio as gr
import httpx
import numpy as np
import pytest
import soundfile

from engine.audio import encode_audio
from storage.repositories.generations import GenerationRecord, Spoken
from tests.storage.speaking import card, spoken
from tests.support.fake_engine import SAMPLE_RATE, FakeEngine, buzz, voice
from tests.web.conftest import read_wav
from web.context import WebContext
from web.tabs.history.handlers import MOST_SHOWN, PAGE_SIZE, HistoryHandlers, HistoryQuery
from web.ui.payloads import parse_payload

NOBODY: Any = None  # asks without a key, as on a page that is this machine's alone


@pytest.fixture
def events(context: WebContext) -> HistoryHandlers:
    return HistoryHandlers(context)


def keep(context: WebContext, text: str = "Hello there.", *, owner: str = "local", **how: Any) -> GenerationRecord:
    flac = encode_audio(buzz(0, 2_000, 120), SAMPLE_RATE, "flac")
    how = {"voice_id": "a" * 32, "settings": {"temperature": 0.9, "top_p": 0.5, "top_k": 7}, "model": "fake"} | how
    made = context.storage.history.add(
        Spoken(text, flac, 2_000 / SAMPLE_RATE, how.pop("seed", 7), how.pop("voice_name", "Anna"), **how), owner=owner
    )
    assert made is not None
    return made


def pressed(**data: Any) -> gr.EventData:
    return gr.EventData(None, data)


def listed(events: HistoryHandlers, search: Any = "", voice: Any = "", starred: Any = False) -> list[str]:
    found = events.refresh_list(search, voice, starred, PAGE_SIZE, None, NOBODY)
    return [entry["text"] for entry in found["entries"]]


# --- the list


def test_an_entry_has_all_that_was_known_of_it(context: WebContext, events: HistoryHandlers) -> None:
    kept = keep(context, "Say <this>.", seed=3, real_time_factor=0.5, stop_reason="length")
    entries, voices, on, days, used = events.show_tab("", None, False, PAGE_SIZE, None, NOBODY)
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
        "words": [],
        "name": "Anna – Say <this>.wav",
        "links": links,
    }
    assert (entries["total"], entries["found"], entries["kept"]) == (1, True, True)
    assert (voices.choices, voices.value) == ([("All voices", ""), ("Anna", "a" * 32)], "")
    assert (on, days.value) == (True, 30)
    assert ("30 days", 30) in days.choices
    assert "0.0 MB for takes" in used


def test_what_is_asked_for_is_shown(context: WebContext, events: HistoryHandlers) -> None:
    first = keep(context, "The first.")
    keep(context, "The second.", voice_id="b" * 32, voice_name="Ben")
    context.storage.history.star(first.id)
    assert listed(events) == ["The second.", "The first."]
    assert listed(events, search="ben") == ["The second."]
    assert listed(events, voice="b" * 32) == ["The second."]
    assert listed(events, starred=True) == ["The first."]
    assert listed(events, search="nothing like it") == []
    assert not events.refresh_list("x", "", False, PAGE_SIZE, None, NOBODY)["found"], (
        "the page says that nothing matches"
    )


@pytest.mark.parametrize("wrong", [None, 7, ["a"], "\0", "a" * 9_999, "%_\\"])
def test_no_search_breaks_the_list(context: WebContext, events: HistoryHandlers, wrong: Any) -> None:
    keep(context)
    assert isinstance(listed(events, search=wrong), list)
    assert isinstance(listed(events, voice=wrong), list)
    assert events.show_tab(wrong, wrong, wrong, wrong, None, NOBODY)[0]["total"] in (0, 1)


def test_more_is_shown_when_asked_for_up_to_a_bound(context: WebContext, events: HistoryHandlers) -> None:
    for number in range(PAGE_SIZE + 3):
        keep(context, f"Number {number}.")
    assert len(events.show_tab("", "", False, PAGE_SIZE, None, NOBODY)[0]["entries"]) == PAGE_SIZE
    found = events.refresh_list("", "", False, 2 * PAGE_SIZE, None, NOBODY)
    assert (len(found["entries"]), found["total"]) == (PAGE_SIZE + 3, PAGE_SIZE + 3)
    for wrong, limit in ((10**9, MOST_SHOWN), (float("nan"), PAGE_SIZE), (0, PAGE_SIZE)):
        assert parse_payload(HistoryQuery, search="", voice="", starred=False, shown=wrong).limit == limit


def test_a_voice_that_is_gone_from_the_history_is_no_longer_the_filter(
    context: WebContext, events: HistoryHandlers
) -> None:
    kept = keep(context)
    assert events.show_tab("", "a" * 32, False, PAGE_SIZE, None, NOBODY)[1].value == "a" * 32
    context.storage.history.withdraw(kept.id)
    assert events.show_tab("", "a" * 32, False, PAGE_SIZE, None, NOBODY)[1].value == ""


def test_the_links_give_the_sound_in_every_format(
    serve: Callable[..., str], context: WebContext, engine: FakeEngine, events: HistoryHandlers
) -> None:
    keep(context, "The rain has stopped.")
    url = serve(engine, context.storage)
    links = events.refresh_list("", "", False, PAGE_SIZE, None, NOBODY)["entries"][0]["links"]
    answers = {kind: httpx.get(url.rstrip("/") + link) for kind, link in links.items()}
    assert {answer.status_code for answer in answers.values()} == {200}
    samples, rate = read_wav(answers["wav"].content)
    np.testing.assert_allclose(samples / 32768, buzz(0, 2_000, 120), atol=2e-4)
    assert rate == SAMPLE_RATE
    take = events.refresh_list("", "", False, PAGE_SIZE, None, NOBODY)["entries"][0]["id"]
    sent, kept = (
        soundfile.read(io.BytesIO(flac), dtype="int16")[0]
        for flac in (answers["flac"].content, context.storage.history.audio(take))
    )
    np.testing.assert_array_equal(sent, kept)
    assert answers["opus"].content.startswith(b"OggS")
    assert len(answers["mp3"].content) > 100
    assert "The%20rain" in answers["mp3"].headers["content-disposition"]


# --- entries


def test_stars_are_set_and_taken_away(context: WebContext, events: HistoryHandlers) -> None:
    kept = keep(context)
    said, broadcast = events.star_entry(None, pressed(id=kept.id, starred=True), NOBODY)
    assert (said, broadcast["what"]) == ("", "history")
    assert context.storage.history.get(kept.id).starred
    events.star_entry(None, pressed(id=kept.id, starred=False), NOBODY)
    assert not context.storage.history.get(kept.id).starred


def test_an_entry_goes_and_a_script_keeps_its_take(context: WebContext, events: HistoryHandlers) -> None:
    kept = keep(context)
    script = context.storage.scripts.create("Play", [card("One.")])
    (only,) = context.storage.scripts.cards(script.id)
    context.storage.scripts.attach(only.id, spoken("One."))
    take = context.storage.history.page(search="one").records[0]
    assert "deleted" in events.delete_entry(None, pressed(id=kept.id), NOBODY)[0]
    assert "its script still has the take" in events.delete_entry(None, pressed(id=take.id), NOBODY)[0]
    assert listed(events) == []
    assert context.storage.scripts.list()[0].done == 1


@pytest.mark.parametrize("wrong", [None, 7, "x", "0" * 32, {"a": 1}])
def test_what_is_not_there_is_said(events: HistoryHandlers, wrong: Any) -> None:
    for event in (events.star_entry, events.delete_entry, events.reuse_entry):
        *_, said = (said for said in event(None, pressed(id=wrong, starred=True), NOBODY) if isinstance(said, str))
        assert 'role="alert"' in said


def test_an_entry_is_used_again(context: WebContext, events: HistoryHandlers) -> None:
    anna = context.storage.voices.add(voice("Anna"))
    kept = keep(context, "Once more.", seed=42, voice_id=anna.id)
    text, picked, seed, *settings, fold, said, tabs, own = events.reuse_entry(None, pressed(id=kept.id), NOBODY)
    assert (text, picked.value, seed, settings) == ("Once more.", anna.id, "42", [0.9, 0.5, 7, 0, "", gr.skip()])
    assert (tabs.selected, fold.open) == ("speak", True)
    assert "are restored" in said
    assert own == ""


def test_using_again_says_what_is_different_now(context: WebContext, events: HistoryHandlers) -> None:
    anna = context.storage.voices.add(voice("Anna"))
    other = keep(context, voice_id=anna.id, model="large", settings={})
    _, _, _, *settings, _, said, _, _ = events.reuse_entry(None, pressed(id=other.id), NOBODY)
    assert "large spoke this take, so it will sound different with fake" in said
    assert settings == [*[gr.skip()] * 3, 0, "", gr.skip()], "what is not known stays as it is"
    context.storage.voices.delete(anna.id)
    text, picked, *_, said, _, _ = events.reuse_entry(None, pressed(id=other.id), NOBODY)
    assert (text, picked) == ("Hello there.", gr.skip())
    assert "“Anna” no longer exists" in said


# --- what is kept


def test_the_history_is_switched_off_and_on(context: WebContext, events: HistoryHandlers) -> None:
    said, broadcast = events.set_history_enabled(False, None, NOBODY)
    assert "not kept" in said
    assert broadcast["what"] == "history"
    assert not events.show_tab("", "", False, PAGE_SIZE, None, NOBODY)[2]
    assert not events.refresh_list("", "", False, PAGE_SIZE, None, NOBODY)["kept"]
    assert "are kept" in events.set_history_enabled(True, None, NOBODY)[0]
    assert context.storage.history.settings().history


def test_the_days_are_chosen(context: WebContext, events: HistoryHandlers) -> None:
    assert "after 7 days" in events.set_retention(7, None, NOBODY)[0]
    assert context.storage.history.settings().retention_days == 7
    for wrong in (None, "many", 0, -1, 2.5, float("nan"), float("inf"), 10**9, True):
        assert 'role="alert"' in events.set_retention(wrong, None, NOBODY)[0], wrong
    assert context.storage.history.settings().retention_days == 7
    context.storage.history.change_settings(retention_days=45)
    days = events.show_tab("", "", False, PAGE_SIZE, None, NOBODY)[3]
    assert ("45 days", 45) in days.choices, "also what was set elsewhere"


def test_the_whole_history_goes_after_a_question(context: WebContext, events: HistoryHandlers) -> None:
    question, _, said = events.confirm_clear(None, NOBODY)
    assert not question.visible
    assert "empty already" in said
    context.storage.history.star(keep(context).id)
    keep(context)
    question, asked, said = events.confirm_clear(None, NOBODY)
    assert (question.visible, said) == (True, "")
    assert "Takes: 2, 1 of them starred" in asked
    assert len(listed(events)) == 2, "asking deletes nothing"
    said, broadcast, question = events.clear_history(None, NOBODY)
    assert "Takes deleted: 2" in said
    assert (broadcast["what"], question.visible) == ("history", False)
    assert listed(events) == []


def test_everything_goes_after_a_question_with_numbers(
    context: WebContext, events: HistoryHandlers, engine: FakeEngine
) -> None:
    context.storage.voices.add(voice("Anna"))
    context.storage.voices.add(voice("Theirs"), owner="other")
    keep(context)
    keep(context, owner="other")
    context.storage.scripts.create("Play", [card("One.")])
    context.storage.history.change_settings(history=False)
    begun = context.takes.begin()
    shelved = context.takes.save(spoken("On the shelf."), owner="local", started=begun)
    theirs = context.takes.save(spoken("Theirs."), owner="other", started=begun)
    assert shelved
    assert theirs
    question, asked, _ = events.confirm_delete_everything(None, NOBODY)
    assert question.visible
    assert "Voices: 1. Takes in the history: 1. Scripts: 1, with 0 takes." in asked
    assert not context.storage.holdings().empty, "asking deletes nothing"
    said, broadcast, question, emptied = events.delete_everything(None, NOBODY)
    assert "is deleted" in said
    assert (broadcast["what"], question.visible) == ("voices history scripts", False)
    assert emptied["entries"] == []
    assert emptied["forget"], "the browser forgets, too"
    assert context.storage.holdings().empty
    assert context.storage.history.settings().history
    with pytest.raises(LookupError):
        context.takes.get(shelved.id, owner="local")
    assert context.takes.get(theirs.id, owner="other")
    assert [record.name for record in context.storage.voices.list(owner="other")] == ["Theirs"]
    assert context.storage.holdings(owner="other").history == 2
    assert engine.forgotten, "and nothing of the voices is left in the engine"


def test_what_fails_is_said_and_nothing_is_shown_as_gone(context: WebContext, events: HistoryHandlers) -> None:
    context.storage.close()
    said, *unchanged = events.delete_everything(None, NOBODY)
    assert 'role="alert"' in said
    assert unchanged == [gr.skip()] * 3
    assert 'role="alert"' in events.clear_history(None, NOBODY)[0]


# --- whose


def test_others_see_and_touch_nothing(context: WebContext, events: HistoryHandlers) -> None:
    theirs = keep(context, "Secret.", owner="other")
    assert listed(events) == []
    assert events.show_tab("", "", False, PAGE_SIZE, None, NOBODY)[1].choices == [("All voices", "")]
    for event in (events.star_entry, events.delete_entry, events.reuse_entry):
        event(None, pressed(id=theirs.id, starred=True), NOBODY)
    events.clear_history(None, NOBODY)
    events.delete_everything(None, NOBODY)
    assert context.storage.history.get(theirs.id, owner="other") == theirs


def test_a_page_with_a_strange_key_shows_nothing(engine: FakeEngine, context: WebContext) -> None:
    from tests.web.conftest import make_context

    keep(context)
    events = HistoryHandlers(make_context(engine, context.storage, context.folder, "browser"))
    assert events.show_tab("", "", False, PAGE_SIZE, "forged", NOBODY) == (gr.skip(),) * 5
    assert events.refresh_list("", "", False, PAGE_SIZE, "forged", NOBODY) == gr.skip()
    for said, *_ in (
        events.clear_history("forged", NOBODY),
        events.delete_everything("forged", NOBODY),
        events.set_history_enabled(False, "forged", NOBODY),
    ):
        assert 'role="alert"' in said
    assert context.storage.holdings().history == 1
