"""A process killed before any statement loses no saved voice and leaves no partial one.

Kills at random moments are in `tests/attack/storage/kills.py`.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.storage.making import not_reencoded, open_voices
from tests.storage.saver import copies_before_each_statement, digest
from tests.storage.scratch import scratch


def content_of(path: Path) -> tuple[tuple[str, bytes], ...]:
    """Return the names and the content of a library's files."""
    files = sorted(path.parent.glob(f"{path.stem}.*"))
    return tuple((file.name.removeprefix(path.stem), file.read_bytes()) for file in files)


def check(path: Path) -> int:
    """Open the remaining library, compare it with the log of the child, and return its number of voices."""
    lines = [line.split() for line in path.with_suffix(".said").read_text().splitlines()]
    said = {
        word: {voice_id for what, voice_id in lines if what == word}
        for word in ("saved", "ready", "deleting", "deleted")
    }
    with open_voices(path) as library:
        records = library.list()
        ids = {record.id for record in records}
        assert said["saved"] - said["deleting"] <= ids
        assert not said["deleted"] & ids
        for record in records:
            assert digest(library.load(record.id)) == record.description
        for voice_id in said["ready"]:
            assert library.ready(voice_id, "codec-b", not_reencoded).codec_fingerprint == "codec-b"
    check_rows(path, ids)
    return len(ids)


def check_rows(path: Path, ids: set[str]) -> None:
    """Check that the file is sound, and that every voice has two references and, for each codec, all codes or none."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert ids == {voice_id for (voice_id,) in connection.execute("SELECT id FROM voices")}
        references = connection.execute("SELECT voice_id, count(*) FROM voice_references GROUP BY 1")
        assert dict(references) == dict.fromkeys(ids, 2)
        codes = connection.execute("SELECT voice_id, count(*) FROM reference_codes GROUP BY 1, codec_fingerprint")
        assert set(codes) == {(voice_id, 2) for voice_id in ids}


def test_library_survives_a_kill_before_every_statement() -> None:
    """While the database is created, one voice saved, reencoded and renamed, and another one deleted.

    Statements within a transaction change no file, so that many copies are equal; one of them is checked.
    """
    with scratch() as folder:
        copies = copies_before_each_statement(folder)
        distinct = {content_of(path): path for path in copies}
        left = [check(path) for path in distinct.values()]
    assert len(copies) > 50
    assert len(left) > 5
    assert set(left) == {0, 1, 2}  # before the first, with the first, and before the second is deleted
    assert left[-1] == 1
