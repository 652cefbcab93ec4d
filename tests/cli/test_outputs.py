"""The option `-o` writes new files and replaces only files of the same kind."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cli.outputs import AUDIO, VOICE, Kind, check_output, write
from engine.audio import encode_audio
from engine.errors import InvalidInput
from tests.support.fake_engine import voice

SAMPLES = np.sin(np.arange(12_000) / 20) / 2


@pytest.mark.parametrize("kind", [AUDIO, VOICE])
def test_new_and_empty_files_are_written(tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "empty").touch()
    for name in ("new", "empty"):
        write(tmp_path / name, b"data", kind)
        assert (tmp_path / name).read_bytes() == b"data"


@pytest.mark.parametrize("format", ["wav", "flac", "mp3", "opus"])
def test_audio_is_replaced_regardless_of_its_name(tmp_path: Path, format: str) -> None:
    for name in ("out.wav", "out.raw", "out"):
        (tmp_path / name).write_bytes(encode_audio(SAMPLES, 24_000, format))  # type: ignore[arg-type]
        write(tmp_path / name, b"new", AUDIO)
        assert (tmp_path / name).read_bytes() == b"new"


def test_voice_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.voice"
    path.write_bytes(voice("Anna").to_bytes())
    write(path, b"new", VOICE)
    assert path.read_bytes() == b"new"


def _other_files(folder: Path) -> dict[str, bytes]:
    soundfile.write(folder / "x.aiff", SAMPLES, 24_000)
    flac = encode_audio(SAMPLES, 24_000, "flac")
    return {
        "text": b"Dear diary,\n" * 100,
        "tags": b"ID3 is how mp3 files begin\n" * 100,
        "header": b"RIFF and WAVE",
        "aiff": (folder / "x.aiff").read_bytes(),
        "zeros": bytes(5_000),
        "damaged": flac[:3_000] + b"text " * 1_000,
        "sqlite": b"SQLite format 3\0" + bytes(4_080),
    }


def test_other_files_are_not_replaced(tmp_path: Path) -> None:
    for name, data in _other_files(tmp_path).items():
        path = tmp_path / f"{name}.wav"
        path.write_bytes(data)
        for kind in (AUDIO, VOICE):
            with pytest.raises(InvalidInput, match="not replaced"):
                write(path, b"new", kind)
            assert path.read_bytes() == data, name


def test_file_that_is_too_large_or_changes_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def change(_: object) -> None:
        path.write_bytes(b"of another program")

    with pytest.raises(InvalidInput, match="changed by another program"):
        write(path, b"new", Kind("ours", change))
    monkeypatch.setattr("cli.outputs.LARGEST", 1)
    with pytest.raises(InvalidInput, match="is not ours"):
        write(path, b"new", Kind("ours", lambda _: None))
    assert path.read_bytes() == b"of another program"


def test_audio_and_voices_do_not_replace_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for data, kind in ((encode_audio(SAMPLES, 24_000, "wav"), VOICE), (voice("Anna").to_bytes(), AUDIO)):
        path.write_bytes(data)
        with pytest.raises(InvalidInput, match=f"is not {kind.name}"):
            check_output(path, kind)
    path.write_bytes(voice("Anna").to_bytes()[:-1])
    with pytest.raises(InvalidInput, match="is not a voice file"):
        check_output(path, VOICE)


def test_links_are_kept_and_pipes_rejected(tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "a.wav", tmp_path / "link.wav", tmp_path / "pipe.wav"
    file.write_bytes(encode_audio(SAMPLES, 24_000, "wav"))
    link.symlink_to(file)
    write(link, b"new", AUDIO)
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    os.mkfifo(pipe)
    with pytest.raises(InvalidInput, match="a pipe"):
        write(pipe, b"new", AUDIO)


def test_failed_write_raises_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInput, match=r"cannot be written: No space left on device\."):
        write(tmp_path / "a.wav", b"new", AUDIO)
    assert list(tmp_path.iterdir()) == []
