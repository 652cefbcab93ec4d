"""Scripts: invariants of their cards while they are edited, spoken, locked and moved."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import Connection, Engine, event

from engine.errors import InvalidInput, InvalidName
from engine.messages import UserMessage
from storage.database import Database
from storage.errors import ClaimLost, ScriptNotFound, TakeNotFound, VoiceNotFound
from storage.repositories import takes
from storage.repositories.scripts.cards import CardRecord
from storage.repositories.scripts.hearings import Hearing
from storage.storage import Storage
from studio.script import cues, parse, progress
from tests.storage.making import count_rows, lock_awaited, voice
from tests.storage.speaking import FLAC, Clock, card, spoken

UNKNOWN_ID = "f" * 32
TEXT = "Anna: Good morning! שלום.\n\nBen: مرحبا. 👩‍🚀 Fine.\n\nAnna: Bye."


def create_cards(storage: Storage, *texts: str) -> list[CardRecord]:
    script = storage.scripts.create("Play", [card(text) for text in texts or ("One.", "Two.", "Three.")])
    return storage.scripts.cards(script.id)


def texts_in_order(storage: Storage, script_id: str) -> list[str]:
    cards = storage.scripts.cards(script_id)
    assert [each.position for each in cards] == list(range(len(cards)))
    return [each.text for each in cards]


def attach_take(storage: Storage, each: CardRecord) -> CardRecord:
    return storage.scripts.attach(each.id, spoken(each.text))


def test_paragraph_pause_leaves_individual_pauses(storage: Storage) -> None:
    new = [card("One.", ends_paragraph=True, pause=0.6), card("Two."), card("Three.", ends_paragraph=True, pause=0.6)]
    script = storage.scripts.create("Play", new).id
    assert storage.scripts.get(script).paragraph_pause == 0.6
    assert storage.scripts.set_paragraph_pause(script, 2.5).paragraph_pause == 2.5
    cards = storage.scripts.cards(script)
    assert [each.pause for each in cards] == [2.5, 0.2, 2.5]
    storage.scripts.set_pause(cards[0].id, 0.1)
    storage.scripts.split(cards[2].id, 3, pause=0.3)
    storage.scripts.set_paragraph_pause(script, 0)
    assert [each.pause for each in storage.scripts.cards(script)] == [0.1, 0.2, 0.3, 0]
    storage.scripts.merge(storage.scripts.cards(script)[2].id)
    storage.scripts.set_paragraph_pause(script, 1)
    assert [each.pause for each in storage.scripts.cards(script)] == [0.1, 0.2, 1]
    for wrong in (-1, 61, float("nan")):
        with pytest.raises(InvalidInput):
            storage.scripts.set_paragraph_pause(script, wrong)


def test_speed_of_all_cards(storage: Storage) -> None:
    cards = create_cards(storage)
    script = cards[0].script_id
    attach_take(storage, cards[0])
    storage.scripts.lock(cards[1].id, True)
    storage.scripts.set_speed(cards[2].id, 1.5)
    other = storage.scripts.create("Other", [card("One.")]).id
    storage.scripts.set_speeds(script, 0.804)
    assert [each.speed for each in storage.scripts.cards(script)] == [0.8] * 3
    assert storage.scripts.cards(script)[0].take_id is not None
    assert storage.scripts.cards(other)[0].speed == 1
    with pytest.raises(InvalidInput):
        storage.scripts.set_speeds(script, 2.1)
    with pytest.raises(ScriptNotFound):
        storage.scripts.set_speeds(script, 1, owner="user:eve")


def test_speed_and_chapter_changes_keep_the_take(storage: Storage) -> None:
    one, two, _ = create_cards(storage)
    attach_take(storage, one)
    quick = storage.scripts.set_speed(one.id, 1.254)
    assert (quick.speed, quick.state, quick.duration, quick.seconds) == (1.25, "spoken", 1.5, 1.5 / 1.25)
    assert storage.scripts.get(one.script_id).spoken == pytest.approx(1.5 / 1.25)
    assert storage.scripts.set_chapter(one.id, "  The\tfirst ").chapter == "The first"
    assert storage.scripts.set_chapter(two.id, " ").chapter is None
    first, second = storage.scripts.split(one.id, 2)
    assert [(each.speed, each.chapter) for each in (first, second)] == [(1.25, "The first"), (1.25, None)]
    for wrong in (0.49, 2.01, float("nan")):
        with pytest.raises(InvalidInput):
            storage.scripts.set_speed(one.id, wrong)
    with pytest.raises(InvalidInput):
        storage.scripts.set_chapter(one.id, "x" * 201)


def test_parsed_script_survives_reopening(url: str) -> None:
    parsed = parse(TEXT)
    with Storage.open(url) as storage:
        script = storage.scripts.create("  A\tplay 🎭 ", parsed.cards)
        first, *_ = storage.scripts.cards(script.id)
        attach_take(storage, first)
        storage.scripts.queue(script.id)
    with Storage.open(url) as storage:
        cards = storage.scripts.cards(script.id)
        assert [(each.text, each.speaker, each.pause) for each in cards] == [
            (each.text, each.speaker, each.pause) for each in parsed.cards
        ]
        assert [each.state for each in cards] == ["spoken", "queued", "queued"]
        assert [each.id for each in storage.scripts.queued(script.id, 1)] == [cards[1].id]
        (record,) = storage.scripts.list()
        assert (record.name, record.cards, record.done, record.spoken) == ("A play 🎭", 3, 1, 1.5)
        report = progress(cards, 0.5)
        assert (report.cards, report.done, report.spoken) == (3, 1, 1.5)
        assert report.wait > 0
        assert [cue.lines for cue in cues(cards)] == [("Good morning! שלום.",)]


def test_list_is_by_last_change_and_names_may_repeat(storage: Storage) -> None:
    first, second = (storage.scripts.create("Same", [card("One.")]) for _ in range(2))
    storage.scripts.edit(storage.scripts.cards(first.id)[0].id, "Changed.")
    assert [record.id for record in storage.scripts.list()] == [first.id, second.id]
    assert storage.scripts.rename(second.id, " Other ").name == "Other"
    assert [record.name for record in storage.scripts.list()] == ["Other", "Same"]
    for name in ("", " \n", "a" * 121, "\0"):
        with pytest.raises(InvalidName):
            storage.scripts.rename(second.id, name)
    assert storage.scripts.create("Empty", []).cards == 0


def test_move_insert_and_delete_leave_no_gaps(storage: Storage) -> None:
    one, two, three = create_cards(storage)
    script_id = one.script_id
    storage.scripts.move(one.id, 2)
    assert texts_in_order(storage, script_id) == ["Two.", "Three.", "One."]
    storage.scripts.move(one.id, 0)
    storage.scripts.move(two.id, 1)
    assert texts_in_order(storage, script_id) == ["One.", "Two.", "Three."]
    storage.scripts.insert(script_id, 1, card("New.", "Ann"))
    storage.scripts.insert(script_id, 4, card("Last."))
    storage.scripts.delete_card(two.id)
    assert texts_in_order(storage, script_id) == ["One.", "New.", "Three.", "Last."]
    for wrong in (-1, 4):
        with pytest.raises(InvalidInput, match="position"):
            storage.scripts.move(three.id, wrong)
    with pytest.raises(InvalidInput, match="something to say"):
        storage.scripts.insert(script_id, 0, card(" \n"))


def test_newest_take_with_a_cards_text_and_voice_is_chosen(storage: Storage, clock: Clock) -> None:
    ada, ben = (storage.voices.add(voice(name)) for name in ("Ada", "Ben"))
    each, *_ = create_cards(storage)
    each = attach_take(storage, each)
    assert (each.state, each.duration) == ("spoken", 1.5)
    first = each.take_id
    assert storage.scripts.edit(each.id, " One. ").take_id == first, "nothing has changed"
    assert storage.scripts.edit(each.id, "Else.").state == "new"
    with pytest.raises(InvalidInput, match="other words"):
        storage.scripts.choose(each.id, str(first))
    assert storage.scripts.edit(each.id, "One.").take_id == first
    assert storage.scripts.set_voice(each.id, ada.id).state == "new"
    for _ in range(2):
        clock.pass_time(seconds=1)
        second = storage.scripts.attach(each.id, spoken("One.", voice_id=ada.id)).take_id
    assert storage.scripts.cast(each.script_id, None, ben.id) == 3
    assert storage.scripts.card(each.id).state == "new"
    storage.scripts.cast(each.script_id, None, ada.id)
    assert storage.scripts.card(each.id).take_id == second
    assert storage.scripts.choose(each.id, str(first)).voice_id == ada.id
    assert storage.scripts.set_voice(each.id, None).take_id == first, "it still fits"
    assert len(storage.scripts.takes(each.id)) == 3


def test_late_take_is_kept_but_not_chosen(storage: Storage) -> None:
    ada = storage.voices.add(voice("Ada"))
    one, two, _ = create_cards(storage)
    storage.scripts.queue(one.script_id)
    storage.scripts.edit(one.id, "Other words.")
    late = storage.scripts.attach(one.id, spoken("One."))
    assert (late.take_id, late.state) == (None, "queued")
    storage.scripts.lock(one.id)
    assert storage.scripts.attach(one.id, spoken("Other words.")).take_id is not None, "it was locked without a take"
    storage.scripts.set_voice(two.id, ada.id)
    assert storage.scripts.attach(two.id, spoken("Two.")).take_id is None
    assert storage.scripts.attach(two.id, spoken("Two.", voice_id=ada.id)).state == "spoken"
    assert len(storage.scripts.takes(two.id)) == 2


def test_redone_card_keeps_both_takes(storage: Storage, clock: Clock) -> None:
    one, *_ = create_cards(storage)
    first = attach_take(storage, one).take_id
    clock.pass_time(seconds=1)
    assert storage.scripts.queue(one.script_id, [one.id]) == 1
    queued = storage.scripts.card(one.id)
    assert (queued.state, queued.take_id) == ("queued", first)
    second = attach_take(storage, one).take_id
    assert [record.id for record in storage.scripts.takes(one.id)] == [second, first]
    assert storage.scripts.choose(one.id, str(first)).take_id == first
    with pytest.raises(InvalidInput, match="not one of"):
        storage.scripts.choose(one.id, UNKNOWN_ID)


def test_card_states_through_queue_take_and_failure(storage: Storage) -> None:
    one, two, three = create_cards(storage)
    storage.scripts.lock(three.id)
    assert storage.scripts.queue(one.script_id) == 2
    attach_take(storage, one)
    why = UserMessage("voicefile.unusable", {"why": UserMessage("codes.range", {"most": 65535})})
    failed = storage.scripts.fail(two.id, why)
    assert (failed.state, failed.failure) == ("failed", why)
    assert storage.scripts.queued(one.script_id) == []
    assert storage.scripts.queue(one.script_id) == 1
    assert storage.scripts.card(two.id).failure is None
    assert storage.scripts.unqueue(one.script_id) == 1
    assert [each.state for each in storage.scripts.cards(one.script_id)] == ["spoken", "new", "new"]


def test_queueing_looks_only_at_the_takes_of_the_script(sqlite: str) -> None:
    plans: list[str] = []

    def explain(connection: Connection, _: object, statement: str, values: tuple[object, ...], *_rest: object) -> None:
        if statement.startswith("UPDATE script_cards"):
            plan = connection.connection.cursor().execute(f"EXPLAIN QUERY PLAN {statement}", values)
            plans.extend(detail for *_, detail in plan.fetchall())

    with Storage.open(sqlite) as storage:
        one, *_ = create_cards(storage)
        event.listen(Engine, "before_cursor_execute", explain)
        try:
            storage.scripts.queue(one.script_id)
        finally:
            event.remove(Engine, "before_cursor_execute", explain)
    (takes,) = (plan for plan in plans if "card_takes" in plan)
    assert "card_id=?" in takes, "all takes are read"


def test_only_a_scripts_own_record_adds_up_its_cards(sqlite: str) -> None:
    """A long script has thousands: what looks for its cards or takes does not read all of them for the sums."""
    sums: list[str] = []

    def note(_: object, __: object, statement: str, *_rest: object) -> None:
        if "sum(" in statement:
            sums.append(statement)

    with Storage.open(sqlite) as storage:
        script = create_cards(storage)[0].script_id
        event.listen(Engine, "before_cursor_execute", note)
        try:
            storage.scripts.cards(script)
            storage.scripts.queued(script)
            storage.scripts.others_speak(script, "0" * 32)
            storage.hearings.of_script(script)
            assert sums == []
            storage.scripts.spoken(script)
            assert len(sums) == 1
        finally:
            event.remove(Engine, "before_cursor_execute", note)


def test_split_and_merge_keep_every_word(storage: Storage) -> None:
    (whole,) = create_cards(storage, "One two. Three four.")
    attach_take(storage, whole)
    storage.scripts.set_pause(whole.id, 3.0)
    first, second = storage.scripts.split(whole.id, 9, pause=0.5)
    assert (first.text, first.pause, first.take_id) == ("One two.", 0.5, None)
    assert (second.text, second.pause, second.state) == ("Three four.", 3.0, "new")
    merged = storage.scripts.merge(first.id)
    assert (merged.text, merged.pause) == ("One two. Three four.", 3.0)
    assert texts_in_order(storage, whole.script_id) == ["One two. Three four."]
    for wrong in (0, -1, 20, 99):
        with pytest.raises(InvalidInput):
            storage.scripts.split(whole.id, wrong)
    with pytest.raises(InvalidInput, match="no card after"):
        storage.scripts.merge(whole.id)
    other = storage.scripts.insert(whole.script_id, 1, card("Mine.", "Ann"))
    with pytest.raises(InvalidInput, match="different speakers"):
        storage.scripts.merge(whole.id)
    storage.scripts.set_speaker(other.id, None)
    storage.scripts.set_chapter(other.id, "Two")
    with pytest.raises(InvalidInput, match="begins a chapter"):
        storage.scripts.merge(whole.id)
    storage.scripts.set_chapter(other.id, None)
    storage.scripts.lock(other.id)
    with pytest.raises(InvalidInput, match="locked"):
        storage.scripts.merge(whole.id)


@pytest.mark.parametrize("queued", [0, 1])
def test_merged_card_is_queued_if_either_was(storage: Storage, queued: int) -> None:
    cards = create_cards(storage)
    storage.scripts.queue(cards[0].script_id, [cards[queued].id])
    assert storage.scripts.merge(cards[0].id).state == "queued"
    assert [each.text for each in storage.scripts.queued(cards[0].script_id)] == ["One. Two."]


def test_locked_card_keeps_its_text_and_take(storage: Storage) -> None:
    ada = storage.voices.add(voice("Ada"))
    one, *_ = create_cards(storage)
    kept = attach_take(storage, one)
    storage.scripts.lock(one.id)
    for change in (
        lambda: storage.scripts.edit(one.id, "Else."),
        lambda: storage.scripts.split(one.id, 1),
        lambda: storage.scripts.merge(one.id),
        lambda: storage.scripts.set_voice(one.id, ada.id),
        lambda: storage.scripts.set_speaker(one.id, "Ann"),
        lambda: storage.scripts.choose(one.id, str(kept.take_id)),
        lambda: storage.scripts.delete_card(one.id),
    ):
        with pytest.raises(InvalidInput, match="locked"):
            change()
    assert storage.scripts.queue(one.script_id, [one.id]) == 0
    assert storage.scripts.cast(one.script_id, None, ada.id) == 2
    assert attach_take(storage, one).take_id == kept.take_id, "another take does not replace it"
    moved = storage.scripts.move(storage.scripts.set_pause(one.id, 1.0).id, 2)
    assert (moved.take_id, moved.pause, moved.position) == (kept.take_id, 1.0, 2)
    assert storage.scripts.edit(storage.scripts.lock(one.id, False).id, "Else.").text == "Else."


def test_cast_sets_the_voice_of_a_speaker(storage: Storage) -> None:
    ada = storage.voices.add(voice("Ada"))
    script = storage.scripts.create("Play", parse(TEXT).cards)
    assert storage.scripts.cast(script.id, "Anna", ada.id) == 2
    assert [each.voice_id for each in storage.scripts.cards(script.id)] == [ada.id, None, ada.id]
    assert storage.scripts.cast(script.id, "Nobody", ada.id) == 0
    for stranger in (UNKNOWN_ID, "x", storage.voices.add(voice("Bob"), owner="other").id):
        with pytest.raises(VoiceNotFound):
            storage.scripts.cast(script.id, "Ben", stranger)
    for wrong in ("\0", "a" * 81):
        with pytest.raises(InvalidInput, match="speaker"):
            storage.scripts.cast(script.id, wrong, ada.id)
    storage.voices.delete(ada.id)
    assert storage.scripts.cards(script.id)[0].voice_id == ada.id, "a deleted voice must stay visible"


def test_new_script_and_new_card_have_the_given_voice(storage: Storage) -> None:
    ada = storage.voices.add(voice("Ada"))
    script = storage.scripts.create("Play", parse(TEXT).cards, voice_id=ada.id)
    assert {each.voice_id for each in storage.scripts.cards(script.id)} == {ada.id}
    assert storage.scripts.insert(script.id, 0, card("New.", "Ann"), voice_id=ada.id).voice_id == ada.id
    bob = storage.voices.add(voice("Bob"), owner="other").id
    with pytest.raises(VoiceNotFound):
        storage.scripts.create("Mine", [card("One.")], voice_id=bob)
    with pytest.raises(VoiceNotFound):
        storage.scripts.insert(script.id, 0, card("One."), voice_id=bob)
    assert [record.name for record in storage.scripts.list()] == ["Play"]


def test_card_has_take_count_and_stop_reason(storage: Storage) -> None:
    one, *_ = create_cards(storage)
    assert (one.takes, one.stop_reason) == (0, None)
    assert (attach_take(storage, one).takes, attach_take(storage, one).stop_reason) == (1, "end")
    cut = storage.scripts.attach(one.id, replace(spoken("One."), stop_reason="length"))
    assert (cut.takes, cut.stop_reason) == (3, "length")
    outdated = storage.scripts.edit(one.id, "Else.")
    assert (outdated.takes, outdated.stop_reason) == (3, None)


def test_card_pause(storage: Storage) -> None:
    one, *_ = create_cards(storage)
    for wrong in (-0.1, 61.0, float("nan")):
        with pytest.raises(InvalidInput, match="pause"):
            storage.scripts.set_pause(one.id, wrong)


def test_takes_are_listed_in_the_history(storage: Storage, url: str, clock: Clock) -> None:
    one, two, _ = create_cards(storage)
    first = attach_take(storage, one)
    storage.history.change_settings(history=False)
    second = attach_take(storage, two)
    (listed,) = storage.history.page().records
    assert (listed.id, listed.script_id) == (first.take_id, one.script_id)
    assert storage.history.get(str(second.take_id)).listed is False
    assert count_rows(url, "generation_audio") == 2
    spoken_script = storage.scripts.spoken(one.script_id)
    assert [take.id for take in spoken_script.takes] == [first.take_id, second.take_id]
    assert [(each.id, sound) for each, sound in storage.scripts.sounds(spoken_script.cards)] == [
        (one.id, FLAC),
        (two.id, FLAC),
    ]
    clock.pass_time(days=400)
    assert storage.history.expire() == 0, "takes stay with their script"
    assert storage.history.page().total == 0
    assert [take.id for take in storage.scripts.spoken(one.script_id).takes] == [first.take_id, second.take_id]
    storage.history.delete(str(first.take_id))
    assert storage.scripts.card(one.id).state == "new"


def test_discarded_script_leaves_listed_takes_in_the_history(storage: Storage, url: str, clock: Clock) -> None:
    one, two, three = create_cards(storage)
    listed = attach_take(storage, one).take_id
    storage.history.change_settings(history=False)
    hidden, starred = attach_take(storage, two).take_id, attach_take(storage, three).take_id
    storage.history.star(str(starred))
    storage.scripts.discard(one.script_id)
    assert {record.id for record in storage.history.page().records} == {listed, starred}
    with pytest.raises(TakeNotFound):
        storage.history.get(str(hidden))
    assert count_rows(url, "script_cards") == count_rows(url, "card_takes") == 0
    clock.pass_time(days=31)
    assert storage.history.expire() == 1
    assert [record.id for record in storage.history.page().records] == [starred]


@pytest.mark.parametrize("wrong", [UNKNOWN_ID, "", "x", "\0", "A" * 32])
def test_unknown_script_or_card_raises(storage: Storage, wrong: str) -> None:
    scripts = storage.scripts
    for call in (
        lambda: scripts.get(wrong),
        lambda: scripts.rename(wrong, "Name"),
        lambda: scripts.discard(wrong),
        lambda: scripts.cards(wrong),
        lambda: scripts.card(wrong),
        lambda: scripts.insert(wrong, 0, card("One.")),
        lambda: scripts.queue(wrong),
        lambda: scripts.queued(wrong),
        lambda: scripts.attach(wrong, spoken()),
        lambda: scripts.takes(wrong),
        lambda: scripts.spoken(wrong),
    ):
        with pytest.raises(ScriptNotFound):
            call()


def test_concurrent_changes_to_a_script(storage: Storage) -> None:
    cards = create_cards(storage, *(f"Card {number}." for number in range(8)))
    script_id = cards[0].script_id

    def work(number: int) -> None:
        for step in range(4):
            storage.scripts.move(cards[number].id, (number * 3 + step) % 8)
            extra = storage.scripts.insert(script_id, 0, card("Extra."))
            attach_take(storage, extra)
            storage.scripts.delete_card(extra.id)
        attach_take(storage, cards[number])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert sorted(texts_in_order(storage, script_id)) == sorted(each.text for each in cards)
    assert storage.scripts.get(script_id).done == 2
    assert storage.history.page().total == 10
    assert storage.uses.all()["e" * 32].times == 10


def test_concurrent_runs_claim_different_cards(storage: Storage) -> None:
    cards = create_cards(storage, *(f"Card {number}." for number in range(8)))
    script_id = cards[0].script_id
    storage.scripts.queue(script_id)
    runs = [character * 32 for character in "ab"]

    def work(run: str) -> list[str]:
        claimed = [storage.scripts.claim(script_id, run) for _ in range(4)]
        assert storage.scripts.renew(run)
        return [each.id for each in claimed if each]

    with ThreadPoolExecutor(2) as pool:
        hers, his = pool.map(work, runs)
    assert sorted(hers + his) == sorted(each.id for each in cards)
    assert storage.scripts.claim(script_id, runs[0]) is None
    assert {script: sorted(spoken) for script, spoken in storage.scripts.speaking().items()} == {
        script_id: sorted(hers + his)
    }
    storage.scripts.attach(hers[0], spoken(storage.scripts.card(hers[0]).text), run_id=runs[0])
    storage.scripts.release(hers[1], runs[0])
    with pytest.raises(ClaimLost):
        storage.scripts.release(his[0], runs[0])
    with pytest.raises(ClaimLost):
        storage.scripts.fail(his[0], UserMessage("cards.nothing_spoken"), run_id=runs[0])
    storage.scripts.end_run(script_id, runs[1])
    following = storage.scripts.claim(script_id, runs[0])
    assert following
    assert following.id in (hers[1], *his)
    storage.scripts.unqueue(script_id)
    assert [storage.scripts.renew(run) for run in runs] == [False, False]
    assert storage.scripts.speaking() == {}


@pytest.mark.parametrize("change", ["choose", "keep a hearing"])
def test_take_that_is_being_deleted_is_not_one_of_the_cards(
    postgresql: str, postgresql_database: Database, change: str
) -> None:
    storage = Storage(postgresql_database)
    one, *_ = create_cards(storage)
    take = str(attach_take(storage, one).take_id)
    work: Callable[[], object] = {
        "choose": lambda: storage.scripts.choose(one.id, take),
        "keep a hearing": lambda: storage.hearings.keep(one.id, take, Hearing("one", 0.5, (), "fake")),
    }[change]
    with ThreadPoolExecutor(1) as pool:
        with postgresql_database.write() as session:
            takes.remove(session=session, take_id=take, owner="local")
            working = pool.submit(work)
            assert lock_awaited(postgresql, working)
        with pytest.raises(InvalidInput, match="not one of"):
            working.result()
    assert storage.scripts.card(one.id).state == "new"


def test_failed_change_is_rolled_back(storage: Storage, url: str) -> None:
    one, two, _ = create_cards(storage)
    attach_take(storage, one)
    with pytest.raises(InvalidInput):
        storage.scripts.split(one.id, 2, pause=-1.0)
    with pytest.raises(InvalidInput):
        storage.scripts.merge(storage.scripts.edit(two.id, "b" * 4_999).id)
    assert [each.position for each in storage.scripts.cards(one.script_id)] == [0, 1, 2]
    assert storage.scripts.card(one.id).state == "spoken"
    with pytest.raises(InvalidInput):
        storage.scripts.create("Play", [card("One."), card("")])
    assert count_rows(url, "scripts") == 1


def interrupted(work: Callable[[], object], statement: int) -> bool:
    """Run `work` with the n-th statement failing; returns False if it completed with fewer statements."""
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
def test_interrupted_change_is_atomic(sqlite: str, sqlite_database: Database, change: str) -> None:
    storage = Storage(sqlite_database)
    one, two, three = (attach_take(storage, each) for each in create_cards(storage))
    script_id = one.script_id
    work: Callable[[], object] = {
        "merge": lambda: storage.scripts.merge(one.id),
        "split": lambda: storage.scripts.split(two.id, 2),
        "move": lambda: storage.scripts.move(three.id, 0),
        "attach": lambda: attach_take(storage, two),
        "discard": lambda: storage.scripts.discard(script_id),
    }[change]

    def state() -> object:
        if not storage.scripts.list():
            return "discarded"
        cards = storage.scripts.cards(script_id)
        return cards, storage.history.page(), [storage.scripts.takes(each.id) for each in cards]

    before, statement = state(), 1
    while interrupted(work, statement) and state() == before:
        statement += 1
    # After the change is committed, only the overwriting of deleted bytes can be interrupted.
    assert state() == "discarded" or len(storage.scripts.cards(script_id)) == {"merge": 2, "split": 4}.get(change, 3)
    assert state() != before
    assert statement > 4


def test_chapters_are_deleted_with_their_takes(storage: Storage, url: str) -> None:
    chapters = [None, None, "One", None, "Two", "Three", None, "Four"]
    storage.history.change_settings(history=False)
    new = [card(f"{number}.", chapter=chapter) for number, chapter in enumerate(chapters)]
    script = storage.scripts.create("Book", new).id
    cards = storage.scripts.cards(script)
    for each in cards:
        attach_take(storage, each)
    storage.scripts.delete_chapters(script, [cards[0].id, cards[3].id, cards[4].id, cards[5].id, UNKNOWN_ID])
    assert texts_in_order(storage, script) == ["2.", "3.", "7."], "the fourth card begins no chapter"
    assert [each.id for each in storage.scripts.cards(script)] == [cards[2].id, cards[3].id, cards[7].id]
    assert count_rows(url, "card_takes") == count_rows(url, "generations") == 3
    with pytest.raises(ScriptNotFound):
        storage.scripts.delete_chapters(script, [cards[2].id], owner="user:eve")
    storage.scripts.lock(cards[3].id)
    with pytest.raises(InvalidInput, match="Card 2 is locked"):
        storage.scripts.delete_chapters(script, [cards[2].id, cards[7].id])
    assert texts_in_order(storage, script) == ["2.", "3.", "7."]


def test_author_and_cover(storage: Storage, url: str) -> None:
    made = storage.scripts.create("Book", [card("One.")], author=" Jane  Austen ", cover=b"one")
    assert made.author == "Jane Austen"
    assert storage.scripts.cover(made.id) == b"one"
    changed = storage.scripts.set_cover(made.id, b"two")
    assert changed.cover not in (None, made.cover)
    assert (storage.scripts.cover(made.id), storage.scripts.list()) == (b"two", [changed])
    assert storage.scripts.set_author(made.id, "").author == ""
    assert storage.scripts.set_cover(made.id, b"").cover is None
    assert storage.scripts.cover(made.id) == b""
    refusals: list[Callable[[], object]] = [
        lambda: storage.scripts.set_author(made.id, "x" * 201),
        lambda: storage.scripts.set_cover(made.id, bytes(700_001)),
    ]
    for refused in refusals:
        with pytest.raises(InvalidInput):
            refused()
    for unknown in (
        lambda: storage.scripts.cover(made.id, owner="user:eve"),
        lambda: storage.scripts.set_cover(made.id, b"x", owner="user:eve"),
    ):
        with pytest.raises(ScriptNotFound):
            unknown()
    storage.scripts.set_cover(made.id, b"three")
    storage.scripts.discard(made.id)
    assert count_rows(url, "script_covers") == 0
