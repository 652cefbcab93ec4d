"""Many threads, and many libraries on one database as many processes would have them."""

import threading
from contextlib import closing

from engine.errors import NameTaken
from engine.voice import Voice
from storage import VoiceLibrary
from storage.database import Database
from storage.repositories.library import voices
from storage.repositories.library.voices import VoiceRecord
from tests.storage.making import at_once, count, recoded, voice


def test_many_threads_save_read_and_delete(library: VoiceLibrary) -> None:
    def live(number: int) -> VoiceRecord:
        doomed = library.add(voice(f"Doomed {number}", seed=number, references=1))
        record = library.add(voice(f"Voice {number}", seed=number))
        library.delete(doomed.id)
        assert record in library.list()
        record = library.rename(record.id, f"Renamed {number}")
        assert library.load(record.id).references == voice(f"Voice {number}", seed=number).references
        return record

    records = at_once([lambda number=number: live(number) for number in range(8)])
    assert library.list() == sorted(records, key=lambda record: record.name)


def test_of_many_that_want_a_name_one_gets_it(library: VoiceLibrary, url: str) -> None:
    def save(name: str) -> str | None:
        try:
            return library.add(voice(name)).name
        except NameTaken:
            return None

    got = at_once([lambda name=name: save(name) for name in ("Ada", "ADA", "ada", "aDa", "adA", "AdA")])
    assert [record.name for record in library.list()] == [name for name in got if name]
    assert count(url, "reference_codes") == 2


def test_threads_wait_for_the_one_that_reencodes(library: VoiceLibrary, url: str) -> None:
    record = library.add(voice())
    asked: list[Voice] = []

    def reencode(original: Voice) -> Voice:
        asked.append(original)
        return recoded(original, "codec-b", seed=len(asked))

    made = at_once([lambda: library.ready(record.id, "codec-b", reencode)] * 8)
    assert len(asked) == 1
    assert made == [made[0]] * 8
    assert count(url, "reference_codes") == 4


def test_of_processes_that_reencode_at_once_one_wins(url: str) -> None:
    """Both have made codes, different ones, before either stores them."""
    both = threading.Barrier(2)

    def serve(library: VoiceLibrary, seed: int) -> Voice:
        def reencode(original: Voice) -> Voice:
            both.wait()
            return recoded(original, "codec-b", seed=seed)

        return library.ready(record.id, "codec-b", reencode)

    with VoiceLibrary.open(url) as one, VoiceLibrary.open(url) as other:
        record = one.add(voice())
        first, second = at_once([lambda: serve(one, 1), lambda: serve(other, 2)])
        assert first == second == one.ready(record.id, "codec-b", lambda _: recoded(voice(), "codec-b", seed=3))
    assert count(url, "reference_codes") == 4


def test_a_reader_sees_one_state_of_a_voice(url: str) -> None:
    """Although another deletes it between the reader's queries."""
    database = Database.open(url, busy_timeout=1.0)
    with closing(database), VoiceLibrary.open(url, busy_timeout=0.05) as other:
        kept = other.add(voice())
        with database.read() as session:
            record = voices.record(session=session, voice_id=kept.id, owner="local")
            other.delete(kept.id)
            assert voices.load(session=session, record=record, codec_fingerprint="codec-a") == voice()
        assert other.list() == []


def test_many_open_an_empty_database_at_once(empty_url: str) -> None:
    libraries = at_once([lambda: VoiceLibrary.open(empty_url)] * 6)
    for number, library in enumerate(libraries):
        library.add(voice(f"Voice {number}"))
    assert [len(library.list()) for library in libraries] == [6] * 6
    for library in libraries:
        library.close()
