"""The events of the History tab, without a browser."""

from collections.abc import Callable
from typing import Any

import gradio as gr
import httpx
import numpy as np
import pytest

from engine.audio import encode_audio
from storage.repositories.generations import GenerationRecord, Spoken
from tests.fake_engine import SAMPLE_RATE, FakeEngine, buzz, voice
from tests.storage.speaking import card, spoken
from tests.web.conftest import read_wav
from web.context import House
from web.tabs.history.handlers import MOST, PAGE, Remembering

NOBODY: Any = None  # asks without a key, as on a page that is this machine's alone


@pytest.fixture
def events(house: House) -> Remembering:
    return Remembering(house)


def keep(house: House, text: str = "Hello there.", *, owner: str = "local", **how: Any) -> GenerationRecord:
    flac = encode_audio(buzz(0, 2_000, 120), SAMPLE_RATE, "flac")
    how = {"voice_id": "a" * 32, "settings": {"temperature": 0.9, "top_p": 0.5, "top_k": 7}, "model": "fake"} | how
    made = house.studio.history.add(
        Spoken(text, flac, 2_000 / SAMPLE_RATE, how.pop("seed", 7), how.pop("voice_name", "Anna"), **how), owner=owner
    )
    assert made is not None
    return made


def pressed(**data: Any) -> gr.EventData:
    return gr.EventData(None, data)


def listed(events: Remembering, search: Any = "", voice: Any = "", starred: Any = False) -> list[str]:
    found, shown = events.find(search, voice, starred, None, NOBODY)
    assert shown == PAGE
    return [entry["text"] for entry in found["entries"]]


# --- the list


def test_an_entry_has_all_that_was_known_of_it(house: House, events: Remembering) -> None:
    kept = keep(house, "Say <this>.", seed=3, real_time_factor=0.5, stop_reason="length")
    entries, voices, on, days, used = events.show("", None, False, PAGE, None, NOBODY)
    (entry,) = entries["entries"]
    links = entry.pop("links")
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
    assert (entries["total"], entries["found"], entries["kept"]) == (1, True, True)
    assert (voices.choices, voices.value) == ([("All voices", ""), ("Anna", "a" * 32)], "")
    assert (on, days.value) == (True, 30)
    assert ("30 days", 30) in days.choices
    assert "0.0 MB for takes" in used


def test_what_is_asked_for_is_shown(house: House, events: Remembering) -> None:
    first = keep(house, "The first.")
    keep(house, "The second.", voice_id="b" * 32, voice_name="Ben")
    house.studio.history.star(first.id)
    assert listed(events) == ["The second.", "The first."]
    assert listed(events, search="ben") == ["The second."]
    assert listed(events, voice="b" * 32) == ["The second."]
    assert listed(events, starred=True) == ["The first."]
    assert listed(events, search="nothing like it") == []
    assert not events.find("x", "", False, None, NOBODY)[0]["found"], "the page says that nothing matches"


@pytest.mark.parametrize("wrong", [None, 7, ["a"], "\0", "a" * 9_999, "%_\\"])
def test_no_search_breaks_the_list(house: House, events: Remembering, wrong: Any) -> None:
    keep(house)
    assert isinstance(listed(events, search=wrong), list)
    assert isinstance(listed(events, voice=wrong), list)
    assert events.show(wrong, wrong, wrong, wrong, None, NOBODY)[0]["total"] in (0, 1)


def test_more_is_shown_when_asked_for_up_to_a_bound(house: House, events: Remembering) -> None:
    for number in range(PAGE + 3):
        keep(house, f"Number {number}.")
    assert len(events.show("", "", False, PAGE, None, NOBODY)[0]["entries"]) == PAGE
    found, shown = events.more("", "", False, PAGE, None, NOBODY)
    assert (len(found["entries"]), found["total"], shown) == (PAGE + 3, PAGE + 3, 2 * PAGE)
    assert len(events.refresh("", "", False, shown, None, NOBODY)["entries"]) == PAGE + 3
    assert events.more("", "", False, 10**9, None, NOBODY)[1] == MOST
    assert events.more("", "", False, float("nan"), None, NOBODY)[1] == 2 * PAGE


def test_a_voice_that_is_gone_from_the_history_is_no_longer_the_filter(house: House, events: Remembering) -> None:
    kept = keep(house)
    assert events.show("", "a" * 32, False, PAGE, None, NOBODY)[1].value == "a" * 32
    house.studio.history.withdraw(kept.id)
    assert events.show("", "a" * 32, False, PAGE, None, NOBODY)[1].value == ""


def test_the_links_give_the_sound_in_every_format(
    serve: Callable[..., str], house: House, engine: FakeEngine, events: Remembering
) -> None:
    keep(house, "The rain has stopped.")
    url = serve(engine, house.studio)
    links = events.find("", "", False, None, NOBODY)[0]["entries"][0]["links"]
    answers = {kind: httpx.get(url.rstrip("/") + link) for kind, link in links.items()}
    assert {answer.status_code for answer in answers.values()} == {200}
    samples, rate = read_wav(answers["wav"].content)
    np.testing.assert_allclose(samples / 32768, buzz(0, 2_000, 120), atol=2e-4)
    assert rate == SAMPLE_RATE
    assert answers["flac"].content == house.studio.history.audio(
        events.find("", "", False, None, NOBODY)[0]["entries"][0]["id"]
    )
    assert answers["opus"].content.startswith(b"OggS")
    assert len(answers["mp3"].content) > 100
    assert "The%20rain" in answers["mp3"].headers["content-disposition"]


# --- entries


def test_stars_are_set_and_taken_away(house: House, events: Remembering) -> None:
    kept = keep(house)
    said, bell = events.star(None, pressed(id=kept.id, starred=True), NOBODY)
    assert (said, bell["what"]) == ("", "history")
    assert house.studio.history.get(kept.id).starred
    events.star(None, pressed(id=kept.id, starred=False), NOBODY)
    assert not house.studio.history.get(kept.id).starred


def test_an_entry_goes_and_a_script_keeps_its_take(house: House, events: Remembering) -> None:
    kept = keep(house)
    script = house.studio.scripts.create("Play", [card("One.")])
    (only,) = house.studio.scripts.cards(script.id)
    house.studio.scripts.attach(only.id, spoken("One."))
    take = house.studio.history.page(search="one").records[0]
    assert "deleted" in events.withdraw(None, pressed(id=kept.id), NOBODY)[0]
    assert "its script still has the take" in events.withdraw(None, pressed(id=take.id), NOBODY)[0]
    assert listed(events) == []
    assert house.studio.scripts.list()[0].done == 1


@pytest.mark.parametrize("wrong", [None, 7, "x", "0" * 32, {"a": 1}])
def test_what_is_not_there_is_said(events: Remembering, wrong: Any) -> None:
    for event in (events.star, events.withdraw, events.use_again):
        *_, said = (said for said in event(None, pressed(id=wrong, starred=True), NOBODY) if isinstance(said, str))
        assert 'role="alert"' in said


def test_an_entry_is_used_again(house: House, events: Remembering) -> None:
    anna = house.studio.voices.add(voice("Anna"))
    kept = keep(house, "Once more.", seed=42, voice_id=anna.id)
    text, picked, seed, *settings, fold, said, tabs, own = events.use_again(None, pressed(id=kept.id), NOBODY)
    assert (text, picked.value, seed, settings) == ("Once more.", anna.id, "42", [0.9, 0.5, 7])
    assert (tabs.selected, fold.open) == ("speak", True)
    assert "are restored" in said
    assert own == ""


def test_using_again_says_what_is_different_now(house: House, events: Remembering) -> None:
    anna = house.studio.voices.add(voice("Anna"))
    other = keep(house, voice_id=anna.id, model="large", settings={})
    _, _, _, *settings, _, said, _, _ = events.use_again(None, pressed(id=other.id), NOBODY)
    assert "large spoke this take, so it will sound different with fake" in said
    assert settings == [gr.skip()] * 3, "what is not known stays as it is"
    house.studio.voices.delete(anna.id)
    text, picked, *_, said, _, _ = events.use_again(None, pressed(id=other.id), NOBODY)
    assert (text, picked) == ("Hello there.", gr.skip())
    assert "“Anna” no longer exists" in said


# --- what is kept


def test_the_history_is_switched_off_and_on(house: House, events: Remembering) -> None:
    said, bell = events.keep(False, None, NOBODY)
    assert "not kept" in said
    assert bell["what"] == "history"
    assert not events.show("", "", False, PAGE, None, NOBODY)[2]
    assert not events.find("", "", False, None, NOBODY)[0]["kept"]
    assert "are kept" in events.keep(True, None, NOBODY)[0]
    assert house.studio.history.settings().history


def test_the_days_are_chosen(house: House, events: Remembering) -> None:
    assert "after 7 days" in events.keep_for(7, None, NOBODY)[0]
    assert house.studio.history.settings().retention_days == 7
    for wrong in (None, "many", 0, -1, 2.5, float("nan"), float("inf"), 10**9, True):
        assert 'role="alert"' in events.keep_for(wrong, None, NOBODY)[0], wrong
    assert house.studio.history.settings().retention_days == 7
    house.studio.history.change_settings(retention_days=45)
    days = events.show("", "", False, PAGE, None, NOBODY)[3]
    assert ("45 days", 45) in days.choices, "also what was set elsewhere"


def test_the_whole_history_goes_after_a_question(house: House, events: Remembering) -> None:
    question, _, said = events.ask_clear(None, NOBODY)
    assert not question.visible
    assert "empty already" in said
    house.studio.history.star(keep(house).id)
    keep(house)
    question, asked, said = events.ask_clear(None, NOBODY)
    assert (question.visible, said) == (True, "")
    assert "Takes: 2, 1 of them starred" in asked
    assert len(listed(events)) == 2, "asking deletes nothing"
    said, bell, question = events.clear(None, NOBODY)
    assert "Takes deleted: 2" in said
    assert (bell["what"], question.visible) == ("history", False)
    assert listed(events) == []


def test_everything_goes_after_a_question_with_numbers(house: House, events: Remembering, engine: FakeEngine) -> None:
    house.studio.voices.add(voice("Anna"))
    house.studio.voices.add(voice("Theirs"), owner="other")
    keep(house)
    keep(house, owner="other")
    house.studio.scripts.create("Play", [card("One.")])
    house.studio.history.change_settings(history=False)
    begun = house.takes.begin()
    shelved = house.takes.keep(spoken("On the shelf."), owner="local", begun=begun)
    theirs = house.takes.keep(spoken("Theirs."), owner="other", begun=begun)
    assert shelved
    assert theirs
    question, asked, _ = events.ask_forget(None, NOBODY)
    assert question.visible
    assert "Voices: 1. Takes in the history: 1. Scripts: 1, with 0 takes." in asked
    assert not house.studio.holdings().empty, "asking deletes nothing"
    said, bell, question, emptied = events.forget(None, NOBODY)
    assert "is deleted" in said
    assert (bell["what"], question.visible) == ("voices history scripts", False)
    assert emptied["entries"] == []
    assert emptied["forget"], "the browser forgets, too"
    assert house.studio.holdings().empty
    assert house.studio.history.settings().history
    with pytest.raises(LookupError):
        house.takes.get(shelved.id, owner="local")
    assert house.takes.get(theirs.id, owner="other")
    assert [record.name for record in house.studio.voices.list(owner="other")] == ["Theirs"]
    assert house.studio.holdings(owner="other").history == 2
    assert engine.forgotten, "and nothing of the voices is left in the engine"


def test_what_fails_is_said_and_nothing_is_shown_as_gone(house: House, events: Remembering) -> None:
    house.studio.close()
    said, *unchanged = events.forget(None, NOBODY)
    assert 'role="alert"' in said
    assert unchanged == [gr.skip()] * 3
    assert 'role="alert"' in events.clear(None, NOBODY)[0]


# --- whose


def test_others_see_and_touch_nothing(house: House, events: Remembering) -> None:
    theirs = keep(house, "Secret.", owner="other")
    assert listed(events) == []
    assert events.show("", "", False, PAGE, None, NOBODY)[1].choices == [("All voices", "")]
    for event in (events.star, events.withdraw, events.use_again):
        event(None, pressed(id=theirs.id, starred=True), NOBODY)
    events.clear(None, NOBODY)
    events.forget(None, NOBODY)
    assert house.studio.history.get(theirs.id, owner="other") == theirs


def test_a_page_with_a_strange_key_shows_nothing(engine: FakeEngine, house: House) -> None:
    from tests.web.conftest import furnished

    keep(house)
    events = Remembering(furnished(engine, house.studio, house.folder, "browser"))
    assert events.show("", "", False, PAGE, "forged", NOBODY) == (gr.skip(),) * 5
    assert events.find("", "", False, "forged", NOBODY) == (gr.skip(), gr.skip())
    assert events.more("", "", False, PAGE, "forged", NOBODY) == (gr.skip(), gr.skip())
    assert events.refresh("", "", False, PAGE, "forged", NOBODY) == gr.skip()
    for said, *_ in (
        events.clear("forged", NOBODY),
        events.forget("forged", NOBODY),
        events.keep(False, "forged", NOBODY),
    ):
        assert 'role="alert"' in said
    assert house.studio.holdings().history == 1
