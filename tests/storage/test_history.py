"""What was spoken is kept, found and deleted, and no list ever reads its sound."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from engine.errors import GenerationNotFound, InvalidInput
from storage.repositories.generations import GenerationRecord, Spoken
from storage.repositories.owner_settings import OwnerSettings
from storage.repositories.usage import VoiceUse
from storage.storage import Studio
from tests.storage.making import clip, count, voice
from tests.storage.speaking import FLAC, Clock, card, spoken

NOBODY = "0" * 32


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 21, 8, 0, tzinfo=UTC))


@pytest.fixture
def studio(url: str, clock: Clock) -> Iterator[Studio]:
    with Studio.open(url, clock=clock) as opened:
        yield opened


def add(studio: Studio, text: str = "Hello.", *, owner: str = "local", **how: object) -> GenerationRecord:
    made = studio.history.add(replace(spoken(text), **how), owner=owner)  # type: ignore[arg-type]
    assert made is not None
    return made


def texts(studio: Studio, **which: object) -> list[str]:
    return [record.text for record in studio.history.page(**which).records]  # type: ignore[arg-type]


def test_a_generation_comes_back_as_it_was_after_reopening(url: str, clock: Clock) -> None:
    kept = Spoken(
        text="Grüße, שלום 👩‍🚀 [laugh]!",
        audio=clip(3),
        duration=2.5,
        seed=2**31 - 1,
        voice_name="Ада",
        voice_id="a" * 32,
        settings={"temperature": 0.7, "top_k": 30, "note": "ü", "fast": True, "none": None},
        model="s2-pro",
        stop_reason="length",
        real_time_factor=0.5,
        first_audio=0.04,
    )
    with Studio.open(url, clock=clock) as studio:
        made = studio.history.add(kept)
        assert made is not None
    with Studio.open(url) as studio:
        read = studio.history.get(made.id)
        assert read == made
        assert studio.history.audio(made.id) == kept.audio
    for name in ("text", "duration", "seed", "voice_name", "voice_id", "settings", "model", "stop_reason"):
        assert getattr(read, name) == getattr(kept, name)
    assert (read.created, read.size, read.listed, read.starred) == (clock(), len(kept.audio), True, False)


def test_pages_are_newest_first(studio: Studio, clock: Clock) -> None:
    for number in range(7):
        add(studio, f"Number {number}.")
        clock.pass_time(seconds=1)
    page = studio.history.page(skip=2, limit=3)
    assert [record.text for record in page.records] == ["Number 4.", "Number 3.", "Number 2."]
    assert page.total == 7
    assert studio.history.page(skip=99).records == ()
    for wrong in ({"limit": 0}, {"limit": 10_000}, {"skip": -1}, {"search": "a" * 201}):
        with pytest.raises(InvalidInput):
            studio.history.page(**wrong)  # type: ignore[arg-type]


def test_search_ignores_case_and_accents_and_looks_at_the_voice(studio: Studio) -> None:
    add(studio, "Über den Wolken 100%", voice_name="José")
    add(studio, "Under the clouds", voice_name="Ann")
    for words in ("WOLKEN uber", "jose", "100%", "den josé"):
        assert texts(studio, search=words) == ["Über den Wolken 100%"], words
    assert texts(studio, search="%") == ["Über den Wolken 100%"]
    assert texts(studio, search="wolken ann") == []


def test_only_starred_or_of_one_voice(studio: Studio) -> None:
    first = add(studio, "First.", voice_id="a" * 32)
    add(studio, "Second.", voice_id="b" * 32)
    assert studio.history.star(first.id).starred
    assert texts(studio, starred=True) == ["First."]
    assert texts(studio, voice_id="b" * 32) == ["Second."]
    assert texts(studio, voice_id="'; --") == []
    assert not studio.history.star(first.id, False).starred
    assert texts(studio, starred=True) == []


def test_deleting(studio: Studio, url: str) -> None:
    first, second = add(studio, "First."), add(studio, "Second.", owner="other")
    studio.history.delete(first.id)
    with pytest.raises(GenerationNotFound):
        studio.history.get(first.id)
    assert count(url, "generation_audio") == 1
    with pytest.raises(GenerationNotFound):
        studio.history.delete(second.id)
    studio.history.delete(second.id, owner="other")
    assert count(url, "generation_audio") == 0


def test_what_a_script_has_leaves_the_history_only(studio: Studio, url: str) -> None:
    script = studio.scripts.create("Play", [card("One."), card("Two.")])
    for each in studio.scripts.cards(script.id):
        studio.scripts.attach(each.id, spoken(each.text))
    plain, take = add(studio, "Plain."), studio.history.page(search="one").records[0]
    studio.history.star(take.id)
    studio.history.withdraw(plain.id)
    studio.history.withdraw(take.id)
    assert texts(studio) == ["Two."]
    assert texts(studio, starred=True) == []
    left = studio.history.get(take.id)
    assert (left.listed, left.starred, left.script_id) == (False, False, script.id)
    with pytest.raises(GenerationNotFound):
        studio.history.get(plain.id)
    add(studio, "Theirs.", owner="other")
    add(studio, "Another.")
    assert studio.history.clear() == 2
    assert studio.history.clear() == 0
    assert texts(studio) == []
    assert texts(studio, owner="other") == ["Theirs."]
    assert studio.scripts.list()[0].done == 2
    assert count(url, "generation_audio") == 3


def test_the_voices_of_the_history_with_the_names_they_had_last(studio: Studio, clock: Clock) -> None:
    for voice_id, name in (("a", "Ann"), ("b", "Ben"), ("a", "Anna"), ("c", "Gone"), ("b", "Ben")):
        add(studio, voice_id=voice_id * 32, voice_name=name)
        clock.pass_time(seconds=1)
    add(studio, voice_id=None, voice_name="Passing")
    add(studio, voice_id="d" * 32, voice_name="Theirs", owner="other")
    assert [(voice.id[0], voice.name, voice.entries) for voice in studio.history.voices()] == [
        ("b", "Ben", 2),
        ("c", "Gone", 1),
        ("a", "Anna", 2),
    ]


def test_what_there_is_in_numbers(studio: Studio) -> None:
    assert studio.holdings().empty
    script = studio.scripts.create("Play", [card("One.")])
    assert not studio.holdings().empty
    (first,) = studio.scripts.cards(script.id)
    studio.scripts.attach(first.id, spoken("One."))
    studio.history.star(add(studio).id)
    add(studio)
    add(studio, owner="other")
    studio.voices.add(voice())
    found = studio.holdings()
    numbers = (found.voices, found.history, found.starred, found.scripts, found.takes)
    assert numbers == (1, 3, 1, 1, 1)
    assert found.storage == studio.storage_use()
    studio.forget("local")
    assert studio.holdings().empty


@pytest.mark.parametrize("generation_id", [NOBODY, "", "x", "a" * 33, "\0", "%"])
def test_what_is_not_there(studio: Studio, generation_id: str) -> None:
    for call in (
        studio.history.get,
        studio.history.audio,
        studio.history.star,
        studio.history.delete,
        studio.history.withdraw,
    ):
        with pytest.raises(GenerationNotFound):
            call(generation_id)


def test_history_can_be_switched_off(studio: Studio, url: str) -> None:
    kept = add(studio)
    assert studio.history.change_settings(history=False) == OwnerSettings(False, 30)
    assert studio.history.add(spoken("Secret.")) is None
    assert studio.history.voice_uses()["e" * 32].times == 1
    assert count(url, "generations") == count(url, "generation_audio") == 1
    assert studio.history.get(kept.id) == kept
    assert add(studio, "Theirs.", owner="other").listed
    studio.history.change_settings(history=True)
    assert add(studio, "Again.").text == "Again."


def test_what_is_old_goes_and_what_is_starred_stays(studio: Studio, clock: Clock) -> None:
    starred = add(studio, "Starred.")
    studio.history.star(starred.id)
    add(studio, "Old.")
    add(studio, "Kept longer.", owner="patient")
    add(studio, "Kept briefly.", owner="hasty")
    studio.history.change_settings(retention_days=60, owner="patient")
    studio.history.change_settings(retention_days=1, owner="hasty")
    clock.pass_time(days=1)
    assert studio.history.expire() == 0, "exactly as old as it may be"
    clock.pass_time(seconds=1)
    assert studio.history.expire() == 1
    assert texts(studio, owner="hasty") == []
    clock.pass_time(days=15)
    add(studio, "New.")
    clock.pass_time(days=15)
    assert studio.history.expire() == 1
    assert texts(studio) == ["New.", "Starred."]
    assert texts(studio, owner="patient") == ["Kept longer."]
    clock.pass_time(days=31)
    assert studio.history.expire() == 2
    assert texts(studio) == ["Starred."]


@pytest.mark.parametrize("days", [0, -1, 3651])
def test_retention_has_bounds(studio: Studio, days: int) -> None:
    with pytest.raises(InvalidInput):
        studio.history.change_settings(retention_days=days)
    assert studio.history.settings() == OwnerSettings(True, 30)


def test_a_deleted_voice_leaves_its_history_readable(studio: Studio) -> None:
    record = studio.voices.add(voice("Ada"))
    made = add(studio, voice_id=record.id, voice_name=record.name)
    studio.voices.delete(record.id)
    assert studio.history.get(made.id).voice_name == "Ada"
    assert studio.history.audio(made.id) == FLAC


def test_uses_of_voices_are_counted_and_outlive_the_history(studio: Studio) -> None:
    for duration in (1.0, 2.5):
        add(studio, voice_id="a" * 32, duration=duration)
    add(studio, voice_id=None)
    add(studio, owner="other", voice_id="a" * 32)
    assert studio.history.clear() == 3
    assert studio.history.voice_uses() == {"a" * 32: VoiceUse(2, 3.5)}


def test_storage_is_told_in_bytes(studio: Studio) -> None:
    assert studio.storage_use().total == 0
    add(studio)
    add(studio, owner="other")
    studio.voices.add(voice(references=2))
    use = studio.storage_use()
    assert use.generations == len(FLAC)
    assert use.voices > len(clip(0)) + len(clip(1))
    assert use.total == use.voices + use.generations


def test_forgetting_an_owner_leaves_nothing_of_theirs_and_all_of_others(studio: Studio, url: str) -> None:
    for owner in ("gone", "stays"):
        add(studio, owner=owner)
        studio.voices.add(voice(), owner=owner)
        script = studio.scripts.create("Play", [card("One.")], owner=owner)
        (first,) = studio.scripts.cards(script.id, owner=owner)
        studio.scripts.attach(first.id, spoken("One."), owner=owner)
        studio.history.change_settings(history=False, owner=owner)
    studio.forget("gone")
    assert studio.storage_use(owner="gone").total == 0
    assert studio.history.settings(owner="gone") == OwnerSettings()
    assert studio.history.voice_uses(owner="gone") == {}
    for table, rows in (("voices", 1), ("generations", 2), ("generation_audio", 2), ("scripts", 1), ("card_takes", 1)):
        assert count(url, table) == rows, table
    assert not studio.history.settings(owner="stays").history


def test_a_deleted_sound_is_not_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "voices.sqlite"
    secret = b"fLaC" + b"what-was-whispered" * 500
    with Studio.open(path) as studio:
        made = studio.history.add(replace(spoken("x"), audio=secret))
        assert made is not None
        studio.history.delete(made.id)
        found = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"whispered" not in found


@pytest.mark.parametrize(
    "wrong",
    [
        {"audio": b""},
        {"audio": b"RIFF"},
        {"duration": 0.0},
        {"duration": float("nan")},
        {"seed": -1},
        {"seed": 2**31},
        {"text": "a\0b"},
        {"text": "\ud800"},
        {"voice_name": "a" * 81},
        {"voice_id": "no id"},
        {"real_time_factor": float("inf")},
        {"first_audio": -1.0},
    ],
)
def test_what_cannot_be_kept(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        replace(spoken(), **wrong)  # type: ignore[arg-type]
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize("settings", [{"a": float("nan")}, {"a": object()}, {"a": "b" * 5_000}])
def test_settings_that_cannot_be_kept(studio: Studio, settings: dict[str, object], url: str) -> None:
    with pytest.raises(InvalidInput):
        add(studio, settings=settings)
    assert count(url, "generations") == 0


def test_lists_never_touch_the_sound(sqlite: str) -> None:
    """SQLite itself refuses to read the column while everything but the sound is asked for."""
    touched: list[tuple[str, str]] = []

    def authorize(action: int, table: str | None, column: str | None, *_: object) -> int:
        refused = action == sqlite3.SQLITE_READ and (table, column) == ("generation_audio", "audio")
        if refused:
            touched.append((str(table), str(column)))
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK

    def watch(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_authorizer(authorize)

    with Studio.open(sqlite) as studio:
        script = studio.scripts.create("Play", [card(f"Card {number}.") for number in range(20)])
        for each in studio.scripts.cards(script.id):
            studio.scripts.attach(each.id, spoken(each.text))
        for number in range(200):
            add(studio, f"Number {number}.")
    event.listen(Engine, "connect", watch)
    try:
        with Studio.open(sqlite) as studio:
            page = studio.history.page(limit=500, search="number")
            assert page.total == len(page.records) == 200
            assert studio.history.star(page.records[0].id).starred
            assert studio.storage_use().generations == 220 * len(FLAC)
            assert studio.scripts.list()[0].done == 20
            cards = studio.scripts.cards(script.id)
            assert [len(studio.scripts.takes(each.id)) for each in cards] == [1] * 20
            assert touched == []
            with pytest.raises(Exception, match="reports an error"):
                studio.history.audio(page.records[0].id)
    finally:
        event.remove(Engine, "connect", watch)


def test_expiring_uses_the_given_time_only(sqlite: str) -> None:
    clock = Clock(datetime(1999, 12, 31, 23, 59, tzinfo=UTC))
    with Studio.open(sqlite, clock=clock) as studio:
        made = add(studio)
        assert made.created == clock()
        assert studio.history.expire() == 0
        clock.now += timedelta(days=31)
        assert studio.history.expire() == 1
    with closing(sqlite3.connect(sqlite.removeprefix("sqlite:///"))) as connection:
        assert connection.execute("SELECT count(*) FROM generation_audio").fetchone() == (0,)
