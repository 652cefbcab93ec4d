"""Provenance tags of files: writing, reading, and checking of untrusted tags."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.audio.output.encode import encode_audio
from engine.errors import UnusableReference
from engine.messages import english
from storage import Storage
from studio.provenance import provenance
from studio.provenance.provenance import MAX_VALUES, FileCheck, Provenance, check_file, voice_names
from tests.support.fake_engine import voice

RATE = 22_050
SAMPLES = (np.sin(np.arange(RATE) / 20) * 0.3).astype(np.float32)
TAKE = Provenance.from_take("/models/a; model=b, ü", "8" * 32, 7, datetime(2026, 1, 31, 23, 59, tzinfo=UTC))


@pytest.fixture
def no_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate an installation without the watermark's packages."""
    monkeypatch.setattr(provenance, "watermark_installed", lambda: False)


def test_origin_of_a_take_round_trips() -> None:
    assert Provenance(("a; model=b, ü",), ("8" * 32,), (7,), date(2026, 1, 31)) == TAKE  # without the server's folder
    comment = TAKE.tags()["comment"]
    assert comment.startswith("synthetic speech; made-by=Reprise; model=a%3B")
    assert comment.isascii()
    assert Provenance.read(comment) == TAKE


def test_joined_provenance_is_bounded() -> None:
    days = [datetime(2026, 1, day + 1, tzinfo=UTC) for day in range(31)]
    many = Provenance.joined(
        Provenance.from_take("m", f"{number % 2:032}", number, day) for number, day in enumerate(days)
    )
    assert many == Provenance(("m",), ("0" * 32, f"{1:032}"), tuple(range(MAX_VALUES)), date(2026, 1, 31))
    assert Provenance.read(many.tags()["comment"]) == many
    assert Provenance.read(Provenance.joined([]).tags()["comment"]) == Provenance()


@pytest.mark.parametrize(
    "comment", ["", "synthetic speech", "made-by=Reprise", "Synthetic speech by Another", ";" * 999]
)
def test_foreign_comments_are_not_read(comment: str) -> None:
    assert Provenance.read(comment) is None


def test_invalid_fields_are_omitted() -> None:
    damaged = "synthetic speech; made-by=Reprise; model; seed=1,x,-2,³,9e9; date=tomorrow; voice=" + ",".join("v" * 99)
    assert Provenance.read(damaged) == Provenance((), ("v",) * MAX_VALUES, (1,), None)


def test_voice_names_are_resolved_for_the_owner(storage: Storage) -> None:
    known = storage.voices.add(voice("Ada"), owner="ada").id
    of = Provenance(voices=(known, "model:Vivian", "f" * 32))
    assert voice_names(of, storage.voices, "ada") == ("Ada", "Vivian", "f" * 32)
    assert voice_names(of, storage.voices, "ben")[0] == known


@pytest.mark.parametrize("format", ["wav", "flac", "mp3", "opus"])
def test_tagged_file_is_recognised(format: Any, no_watermark: None, tmp_path: Path) -> None:
    file = tmp_path / "take"
    file.write_bytes(encode_audio(SAMPLES, RATE, format, TAKE.tags()))
    checked = check_file(file)
    assert checked == FileCheck(TAKE, "unknown")
    assert checked.ours
    messages = " ".join(map(str, checked.messages(["Ada"])))
    assert "Voice: Ada. Seed: 7. Made on 2026-01-31." in messages
    assert english()["provenance.watermark_unknown"] in messages


def test_untagged_file_is_not_recognised(no_watermark: None) -> None:
    checked = check_file(encode_audio(SAMPLES, RATE, "mp3"))
    assert checked == FileCheck(None, "unknown")
    assert not checked.ours
    assert str(checked.messages()[0]) == english()["provenance.untagged"]
    with pytest.raises(UnusableReference):
        check_file(b"no audio")
