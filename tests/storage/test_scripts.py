"""Scripts: what their cards promise while they are edited, spoken, locked and moved."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine, event

from engine.errors import GenerationNotFound, InvalidInput, InvalidName, ScriptNotFound, VoiceNotFound
from storage.repositories.cards import CardRecord
from storage.storage import Studio
from studio.script import cues, parse, progress
from tests.storage.making import count, voice
from tests.storage.speaking import FLAC, Clock, card, spoken

NOBODY = "0" * 32
TEXT = "Anna: Good morning! שלום.\n\nBen: مرحبا. 👩‍🚀 Fine.\n\nAnna: Bye."


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 21, 8, 0, tzinfo=UTC))


@pytest.fixture
def studio(url: str, clock: Clock) -> Iterator[Studio]:
    with Studio.open(url, clock=clock) as opened:
        yield opened


def made(studio: Studio, *texts: str) -> list[CardRecord]:
    script = studio.scripts.create("Play", [card(text) for text in texts or ("One.", "Two.", "Three.")])
    return studio.scripts.cards(script.id)


def said(studio: Studio, script_id: str) -> list[str]:
    cards = studio.scripts.cards(script_id)
    assert [each.position for each in cards] == list(range(len(cards)))
    return [each.text for each in cards]


def take(studio: Studio, each: CardRecord) -> CardRecord:
    return studio.scripts.attach(each.id, spoken(each.text))


def test_a_parsed_text_is_kept_and_outlives_reopening(url: str) -> None:
    parsed = parse(TEXT)
    with Studio.open(url) as studio:
        script = studio.scripts.create("  A\tplay 🎭 ", parsed.cards)
        first, *_ = studio.scripts.cards(script.id)
        take(studio, first)
        studio.scripts.queue(script.id)
    with Studio.open(url) as studio:
        cards = studio.scripts.cards(script.id)
        assert [(each.text, each.speaker, each.pause) for each in cards] == [
            (each.text, each.speaker, each.pause) for each in parsed.cards
        ]
        assert [each.state for each in cards] == ["spoken", "queued", "queued"]
        assert [each.id for each in studio.scripts.waiting(script.id, 1)] == [cards[1].id]
        (record,) = studio.scripts.list()
        assert (record.name, record.cards, record.done, record.spoken) == ("A play 🎭", 3, 1, 1.5)
        told = progress(cards, 0.5)
        assert (told.cards, told.done, told.spoken) == (3, 1, 1.5)
        assert told.wait > 0
        assert [cue.lines for cue in cues(cards)] == [("Good morning! שלום.",)]


def test_the_list_is_by_change_and_names_can_be_the_same(studio: Studio) -> None:
    first, second = (studio.scripts.create("Same", [card("One.")]) for _ in range(2))
    studio.scripts.edit(studio.scripts.cards(first.id)[0].id, "Changed.")
    assert [record.id for record in studio.scripts.list()] == [first.id, second.id]
    assert studio.scripts.rename(second.id, " Other ").name == "Other"
    assert [record.name for record in studio.scripts.list()] == ["Other", "Same"]
    for name in ("", " \n", "a" * 121, "\0"):
        with pytest.raises(InvalidName):
            studio.scripts.rename(second.id, name)
    assert studio.scripts.create("Empty", []).cards == 0


def test_moving_inserting_and_deleting_leave_no_gaps(studio: Studio) -> None:
    one, two, three = made(studio)
    script_id = one.script_id
    studio.scripts.move(one.id, 2)
    assert said(studio, script_id) == ["Two.", "Three.", "One."]
    studio.scripts.move(one.id, 0)
    studio.scripts.move(two.id, 1)
    assert said(studio, script_id) == ["One.", "Two.", "Three."]
    studio.scripts.insert(script_id, 1, card("New.", "Ann"))
    studio.scripts.insert(script_id, 4, card("Last."))
    studio.scripts.delete_card(two.id)
    assert said(studio, script_id) == ["One.", "New.", "Three.", "Last."]
    for wrong in (-1, 4):
        with pytest.raises(InvalidInput, match="position"):
            studio.scripts.move(three.id, wrong)
    with pytest.raises(InvalidInput, match="something to say"):
        studio.scripts.insert(script_id, 0, card(" \n"))


def test_a_take_counts_while_the_card_says_the_same_in_the_same_voice(studio: Studio) -> None:
    ada = studio.voices.add(voice("Ada"))
    each, *_ = made(studio)
    each = take(studio, each)
    assert (each.state, each.duration) == ("spoken", 1.5)
    first = each.take_id
    assert studio.scripts.edit(each.id, " One. ").take_id == first, "nothing has changed"
    assert studio.scripts.edit(each.id, "Else.").state == "new"
    with pytest.raises(InvalidInput, match="other words"):
        studio.scripts.choose(each.id, str(first))
    each = studio.scripts.edit(each.id, "One.")
    assert studio.scripts.choose(each.id, str(first)).take_id == first
    assert studio.scripts.set_voice(each.id, ada.id).state == "new"
    assert [record.id for record in studio.scripts.takes(each.id)] == [first]


def test_a_take_that_comes_too_late_is_kept_and_does_not_count(studio: Studio) -> None:
    ada = studio.voices.add(voice("Ada"))
    one, two, _ = made(studio)
    studio.scripts.queue(one.script_id)
    studio.scripts.edit(one.id, "Other words.")
    late = studio.scripts.attach(one.id, spoken("One."))
    assert (late.take_id, late.state) == (None, "queued")
    studio.scripts.set_voice(two.id, ada.id)
    assert studio.scripts.attach(two.id, spoken("Two.")).take_id is None
    assert studio.scripts.attach(two.id, spoken("Two.", voice_id=ada.id)).state == "spoken"
    assert len(studio.scripts.takes(two.id)) == 2


def test_a_redone_card_keeps_both_takes(studio: Studio, clock: Clock) -> None:
    one, *_ = made(studio)
    first = take(studio, one).take_id
    clock.pass_time(seconds=1)
    assert studio.scripts.queue(one.script_id, [one.id]) == 1
    queued = studio.scripts.card(one.id)
    assert (queued.state, queued.take_id) == ("queued", first)
    second = take(studio, one).take_id
    assert [record.id for record in studio.scripts.takes(one.id)] == [second, first]
    assert studio.scripts.choose(one.id, str(first)).take_id == first
    with pytest.raises(InvalidInput, match="not one of"):
        studio.scripts.choose(one.id, NOBODY)


def test_queueing_speaking_and_failing(studio: Studio) -> None:
    one, two, three = made(studio)
    studio.scripts.lock(three.id)
    assert studio.scripts.queue(one.script_id) == 2
    take(studio, one)
    failed = studio.scripts.fail(two.id, "There are too many at once; try again.")
    assert (failed.state, failed.failure) == ("failed", "There are too many at once; try again.")
    assert studio.scripts.waiting(one.script_id) == []
    assert studio.scripts.queue(one.script_id) == 1
    assert studio.scripts.card(two.id).failure is None
    assert studio.scripts.unqueue(one.script_id) == 1
    assert [each.state for each in studio.scripts.cards(one.script_id)] == ["spoken", "new", "new"]


def test_splitting_and_merging_keep_every_word(studio: Studio) -> None:
    (whole,) = made(studio, "One two. Three four.")
    take(studio, whole)
    studio.scripts.set_pause(whole.id, 3.0)
    first, second = studio.scripts.split(whole.id, 9, pause=0.5)
    assert (first.text, first.pause, first.take_id) == ("One two.", 0.5, None)
    assert (second.text, second.pause, second.state) == ("Three four.", 3.0, "new")
    merged = studio.scripts.merge(first.id)
    assert (merged.text, merged.pause) == ("One two. Three four.", 3.0)
    assert said(studio, whole.script_id) == ["One two. Three four."]
    for wrong in (0, -1, 20, 99):
        with pytest.raises(InvalidInput):
            studio.scripts.split(whole.id, wrong)
    with pytest.raises(InvalidInput, match="no card after"):
        studio.scripts.merge(whole.id)
    other = studio.scripts.insert(whole.script_id, 1, card("Mine.", "Ann"))
    with pytest.raises(InvalidInput, match="different speakers"):
        studio.scripts.merge(whole.id)
    studio.scripts.set_speaker(other.id, None)
    studio.scripts.lock(other.id)
    with pytest.raises(InvalidInput, match="locked"):
        studio.scripts.merge(whole.id)


def test_a_locked_card_keeps_its_words_and_its_take(studio: Studio) -> None:
    ada = studio.voices.add(voice("Ada"))
    one, *_ = made(studio)
    kept = take(studio, one)
    studio.scripts.lock(one.id)
    for change in (
        lambda: studio.scripts.edit(one.id, "Else."),
        lambda: studio.scripts.split(one.id, 1),
        lambda: studio.scripts.merge(one.id),
        lambda: studio.scripts.set_voice(one.id, ada.id),
        lambda: studio.scripts.set_speaker(one.id, "Ann"),
        lambda: studio.scripts.choose(one.id, str(kept.take_id)),
        lambda: studio.scripts.delete_card(one.id),
    ):
        with pytest.raises(InvalidInput, match="locked"):
            change()
    assert studio.scripts.queue(one.script_id, [one.id]) == 0
    assert studio.scripts.cast(one.script_id, None, ada.id) == 2
    assert take(studio, one).take_id == kept.take_id, "another take does not replace it"
    moved = studio.scripts.move(studio.scripts.set_pause(one.id, 1.0).id, 2)
    assert (moved.take_id, moved.pause, moved.position) == (kept.take_id, 1.0, 2)
    assert studio.scripts.edit(studio.scripts.lock(one.id, False).id, "Else.").text == "Else."


def test_speakers_are_cast(studio: Studio) -> None:
    ada = studio.voices.add(voice("Ada"))
    script = studio.scripts.create("Play", parse(TEXT).cards)
    assert studio.scripts.cast(script.id, "Anna", ada.id) == 2
    assert [each.voice_id for each in studio.scripts.cards(script.id)] == [ada.id, None, ada.id]
    assert studio.scripts.cast(script.id, "Nobody", ada.id) == 0
    for stranger in (NOBODY, "x", studio.voices.add(voice("Bob"), owner="other").id):
        with pytest.raises(VoiceNotFound):
            studio.scripts.cast(script.id, "Ben", stranger)
    studio.voices.delete(ada.id)
    assert studio.scripts.cards(script.id)[0].voice_id == ada.id, "that it is gone must show"


def test_a_script_begins_in_one_voice_and_so_does_a_card(studio: Studio) -> None:
    ada = studio.voices.add(voice("Ada"))
    script = studio.scripts.create("Play", parse(TEXT).cards, voice_id=ada.id)
    assert {each.voice_id for each in studio.scripts.cards(script.id)} == {ada.id}
    assert studio.scripts.insert(script.id, 0, card("New.", "Ann"), voice_id=ada.id).voice_id == ada.id
    bob = studio.voices.add(voice("Bob"), owner="other").id
    with pytest.raises(VoiceNotFound):
        studio.scripts.create("Mine", [card("One.")], voice_id=bob)
    with pytest.raises(VoiceNotFound):
        studio.scripts.insert(script.id, 0, card("One."), voice_id=bob)
    assert [record.name for record in studio.scripts.list()] == ["Play"]


def test_a_card_tells_of_its_takes(studio: Studio) -> None:
    one, *_ = made(studio)
    assert (one.takes, one.cut) == (0, False)
    assert (take(studio, one).takes, take(studio, one).cut) == (1, False)
    cut = studio.scripts.attach(one.id, replace(spoken("One."), stop_reason="length"))
    assert (cut.takes, cut.cut) == (3, True)
    outdated = studio.scripts.edit(one.id, "Else.")
    assert (outdated.takes, outdated.cut) == (3, False)


def test_how_a_card_is_spoken(studio: Studio) -> None:
    one, *_ = made(studio)
    told = studio.scripts.configure(one.id, seed=5, settings={"temperature": 0.5})
    assert (told.seed, told.settings) == (5, {"temperature": 0.5})
    told = studio.scripts.configure(one.id)
    assert (told.seed, told.settings) == (None, {})
    with pytest.raises(InvalidInput, match="seed"):
        studio.scripts.configure(one.id, seed=-1)
    for wrong in (-0.1, 61.0, float("nan")):
        with pytest.raises(InvalidInput, match="pause"):
            studio.scripts.set_pause(one.id, wrong)


def test_takes_are_generations(studio: Studio, url: str, clock: Clock) -> None:
    one, two, _ = made(studio)
    first = take(studio, one)
    studio.history.change_settings(history=False)
    second = take(studio, two)
    (listed,) = studio.history.page().records
    assert (listed.id, listed.script_id) == (first.take_id, one.script_id)
    assert studio.history.get(str(second.take_id)).listed is False
    assert count(url, "generation_audio") == 2
    assert [(each.id, sound) for each, sound in studio.scripts.sounds(one.script_id)] == [
        (one.id, FLAC),
        (two.id, FLAC),
    ]
    clock.pass_time(days=400)
    assert studio.history.expire() == 0, "takes stay with their script"
    studio.history.delete(str(first.take_id))
    assert studio.scripts.card(one.id).state == "new"


def test_discarding_a_script_leaves_what_the_history_has(studio: Studio, url: str, clock: Clock) -> None:
    one, two, three = made(studio)
    listed = take(studio, one).take_id
    studio.history.change_settings(history=False)
    hidden, starred = take(studio, two).take_id, take(studio, three).take_id
    studio.history.star(str(starred))
    studio.scripts.discard(one.script_id)
    assert {record.id for record in studio.history.page().records} == {listed, starred}
    with pytest.raises(GenerationNotFound):
        studio.history.get(str(hidden))
    assert count(url, "script_cards") == count(url, "card_takes") == 0
    clock.pass_time(days=31)
    assert studio.history.expire() == 1
    assert [record.id for record in studio.history.page().records] == [starred]


@pytest.mark.parametrize("wrong", [NOBODY, "", "x", "\0", "A" * 32])
def test_what_is_not_there(studio: Studio, wrong: str) -> None:
    scripts = studio.scripts
    for call in (
        lambda: scripts.get(wrong),
        lambda: scripts.rename(wrong, "Name"),
        lambda: scripts.discard(wrong),
        lambda: scripts.cards(wrong),
        lambda: scripts.card(wrong),
        lambda: scripts.insert(wrong, 0, card("One.")),
        lambda: scripts.queue(wrong),
        lambda: scripts.waiting(wrong),
        lambda: scripts.attach(wrong, spoken()),
        lambda: scripts.takes(wrong),
        lambda: list(scripts.sounds(wrong)),
    ):
        with pytest.raises(ScriptNotFound):
            call()


def test_threads_that_change_a_script_at_once(studio: Studio) -> None:
    cards = made(studio, *(f"Card {number}." for number in range(8)))
    script_id = cards[0].script_id

    def work(number: int) -> None:
        for step in range(4):
            studio.scripts.move(cards[number].id, (number * 3 + step) % 8)
            extra = studio.scripts.insert(script_id, 0, card("Extra."))
            take(studio, extra)
            studio.scripts.delete_card(extra.id)
        take(studio, cards[number])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert sorted(said(studio, script_id)) == sorted(each.text for each in cards)
    assert studio.scripts.get(script_id).done == 2
    assert studio.history.page().total == 10
    assert studio.history.voice_uses()["e" * 32].times == 10


def test_a_change_that_fails_in_the_middle_changes_nothing(studio: Studio, url: str) -> None:
    one, two, _ = made(studio)
    take(studio, one)
    with pytest.raises(InvalidInput):
        studio.scripts.split(one.id, 2, pause=-1.0)
    with pytest.raises(InvalidInput):
        studio.scripts.merge(studio.scripts.edit(two.id, "b" * 4_999).id)
    assert [each.position for each in studio.scripts.cards(one.script_id)] == [0, 1, 2]
    assert studio.scripts.card(one.id).state == "spoken"
    with pytest.raises(InvalidInput):
        studio.scripts.create("Play", [card("One."), card("")])
    assert count(url, "scripts") == 1


def interrupted(work: Callable[[], object], statement: int) -> bool:
    """Do it, but have the n-th statement fail; False: there were fewer, and it is done."""
    left = statement

    def fail(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    event.listen(Engine, "before_cursor_execute", fail)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        event.remove(Engine, "before_cursor_execute", fail)
    return False


@pytest.mark.parametrize("change", ["merge", "split", "move", "attach", "discard"])
def test_a_change_happens_as_a_whole_wherever_it_is_interrupted(sqlite: str, change: str) -> None:
    with Studio.open(sqlite) as studio:
        one, two, three = (take(studio, each) for each in made(studio))
        script_id = one.script_id
        work: Callable[[], object] = {
            "merge": lambda: studio.scripts.merge(one.id),
            "split": lambda: studio.scripts.split(two.id, 2),
            "move": lambda: studio.scripts.move(three.id, 0),
            "attach": lambda: take(studio, two),
            "discard": lambda: studio.scripts.discard(script_id),
        }[change]

        def state() -> object:
            if not studio.scripts.list():
                return "discarded"
            cards = studio.scripts.cards(script_id)
            return cards, studio.history.page(), [studio.scripts.takes(each.id) for each in cards]

        before, statement = state(), 1
        while interrupted(work, statement) and state() == before:
            statement += 1
        # Once it is done, only the overwriting of what is gone can be interrupted.
        assert state() == "discarded" or len(studio.scripts.cards(script_id)) == {"merge": 2, "split": 4}.get(change, 3)
        assert state() != before
        assert statement > 4
