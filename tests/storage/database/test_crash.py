"""Killed at any moment, a process loses no saved voice and leaves no half of one."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from storage import VoiceLibrary
from tests.paths import ROOT
from tests.storage.saver import ROUNDS, digest, left_at_statements
from tests.storage.scratch import scratch


def saver(*arguments: str) -> None:
    command = [sys.executable, "-m", "tests.storage.saver", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def check(path: Path) -> int:
    """Open what was left and compare it with what was said; returns how many voices are in it, all of them whole."""
    lines = [line.split() for line in path.with_suffix(".said").read_text().splitlines()]
    said = {
        word: {voice_id for what, voice_id in lines if what == word}
        for word in ("saved", "ready", "deleting", "deleted")
    }
    with VoiceLibrary.open(path) as library:
        records = library.list()
        ids = {record.id for record in records}
        assert said["saved"] - said["deleting"] <= ids
        assert not said["deleted"] & ids
        for record in records:
            assert digest(library.load(record.id)) == record.description
        for voice_id in said["ready"]:
            assert library.ready(voice_id, "codec-b", pytest.fail).codec_fingerprint == "codec-b"
    check_rows(path, ids)
    return len(ids)


def check_rows(path: Path, ids: set[str]) -> None:
    """The file is sound, every voice has its two references, and of each codec's codes all or none."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert ids == {voice_id for (voice_id,) in connection.execute("SELECT id FROM voices")}
        references = connection.execute("SELECT voice_id, count(*) FROM voice_references GROUP BY 1")
        assert dict(references) == dict.fromkeys(ids, 2)
        codes = connection.execute("SELECT voice_id, count(*) FROM reference_codes GROUP BY 1, codec_fingerprint")
        assert set(codes) == {(voice_id, 2) for voice_id in ids}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_killed_at_random_moments() -> None:
    with scratch() as folder:
        path = folder / "voices.sqlite"
        saver(str(path), "20")
        assert check(path) >= ROUNDS


def test_killed_before_every_statement() -> None:
    """From an empty database on: while it is made, a voice saved, recoded, renamed, and another deleted."""
    with scratch() as folder:
        left = [check(path) for path in left_at_statements(folder)]
    assert len(left) > 50
    assert set(left) == {0, 1, 2}  # none yet, one, and one that was to be deleted
    assert left[-1] == 1
