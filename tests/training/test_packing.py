"""Packed speech is small, and complete with its timing when unpacked."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.evaluation_set import EvaluationSet
from engine.codec.fingerprint import codec_fingerprint
from engine.families.s2.codec import codec_files, load_codec_decoder
from tests.paths import BUNDLED
from training.packing import ForeignFolder, TooLarge, main, pack, unpack
from training.speech.corpus import SAMPLE_RATE, Corpus
from training.speech.resampling import resampled
from training.work import TrainingError

SECONDS = 4
CODEC = "fingerprint of the codec"


def write_shard(work: Path, number: int) -> np.ndarray:
    """Write a shard of one utterance, a swelling tone, with its codes."""
    time = np.arange(SECONDS * SAMPLE_RATE) / SAMPLE_RATE
    samples = (9000 * np.sin(2 * np.pi * (200 + 40 * number) * time) * np.sin(time)).astype(np.int16)
    (work / "data").mkdir(parents=True, exist_ok=True)
    (work / "codes").mkdir(exist_ok=True)
    np.save(work / "data" / f"audio-{number:03d}.npy", samples)
    line = {"text": "a", "tokens": ["a"], "times": [0.0], "speaker": 0, "shard": number, "offset": 0,
            "samples": len(samples), "test_sentence": False, "held_out_speaker": False}  # fmt: skip
    (work / "data" / f"index-{number:03d}.jsonl").write_text(json.dumps(line) + "\n")
    (work / "data" / "speakers.json").write_text(json.dumps([{"id": 0}]))
    np.savez(work / "codes" / f"codes-{number:03d}-0.npz", codes=np.full((9, 80), number))
    np.savez(work / "codes" / f"degraded-{number:03d}.npz", codes=np.full((9, 80), number + 1))
    (work / "codes" / "codec.json").write_text(json.dumps({"fingerprint": CODEC}))
    (work / "codes" / f"unfinished-codes-{number:03d}-1.npz").write_bytes(b"PK")
    return samples


def test_unpacked_speech_matches_packed_speech(tmp_path: Path) -> None:
    made = [write_shard(tmp_path / "here", number) for number in range(3)]
    assert pack(tmp_path / "here", tmp_path / "packed", 2**20) == ["000", "001", "002"]
    raw = sum(samples.nbytes for samples in made)
    assert sum(file.stat().st_size for file in (tmp_path / "packed").iterdir()) < raw / 5
    assert unpack(tmp_path / "packed", tmp_path / "there", CODEC) == ["000", "001", "002"]
    before, after = Corpus.load(tmp_path / "here" / "data"), Corpus.load(tmp_path / "there" / "data")
    assert after.speakers == before.speakers
    for own, carried in zip(before.utterances, after.utterances, strict=True):
        assert carried == own
        original, copy = own.audio().astype(np.float64), carried.audio().astype(np.float64)
        assert np.square(copy - original).mean() < 0.02 * np.square(original).mean()
    for codes in (tmp_path / "here" / "codes").glob("[cd]*.npz"):
        assert np.array_equal(np.load(codes)["codes"], np.load(tmp_path / "there" / "codes" / codes.name)["codes"])


def test_codes_of_another_codec_stay_packed(tmp_path: Path) -> None:
    write_shard(tmp_path / "here", 0)
    pack(tmp_path / "here", tmp_path / "packed", 2**20)
    for codec in (None, "another"):
        assert unpack(tmp_path / "packed", tmp_path / "there", codec) == ["000"]
        assert not (tmp_path / "there" / "codes").exists()


def test_existing_codes_are_kept(tmp_path: Path) -> None:
    for number in range(2):
        write_shard(tmp_path / "here", number)
    pack(tmp_path / "here", tmp_path / "packed", 2**20)
    write_shard(tmp_path / "there", 0)
    own = tmp_path / "there" / "codes"
    (own / "codes-000-0.npz").write_bytes(b"of a running training")
    unpack(tmp_path / "packed", tmp_path / "there", CODEC)
    assert (own / "codes-000-0.npz").read_bytes() == b"of a running training"
    assert np.load(own / "codes-001-0.npz")["codes"].shape == (9, 80)
    (own / "codec.json").write_text(json.dumps({"fingerprint": "another"}))
    with pytest.raises(TrainingError, match="are not of the codec that made those in"):
        unpack(tmp_path / "packed", tmp_path / "there", CODEC)
    assert json.loads((own / "codec.json").read_text()) == {"fingerprint": "another"}


def test_command_unpacks_the_codes_of_a_codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shard(tmp_path / "here", 0)
    fingerprint = codec_fingerprint(load_codec_decoder(*codec_files(BUNDLED)))
    (tmp_path / "here" / "codes" / "codec.json").write_text(json.dumps({"fingerprint": fingerprint}))
    pack(tmp_path / "here", tmp_path / "packed", 2**20)
    command = ["packing", "unpack", "--from", str(tmp_path / "packed"), "--work", str(tmp_path / "there")]
    monkeypatch.setattr(sys, "argv", command)
    main()
    assert not (tmp_path / "there" / "codes").exists()
    monkeypatch.setattr(sys, "argv", [*command, "--codec", str(BUNDLED)])
    main()
    names = {path.name for path in (tmp_path / "there" / "codes").iterdir()}
    assert names == {"codec.json", "codes-000-0.npz", "degraded-000.npz"}


def test_a_second_pack_holds_what_the_first_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def packed(first: int) -> None:
        options = ["--work", str(tmp_path / "here"), "--out", str(tmp_path / "rest"), "--first", str(first)]
        monkeypatch.setattr(sys, "argv", ["packing", "pack", *options])
        main()

    for number in range(3):
        write_shard(tmp_path / "here", number)
    packed(1)
    assert capsys.readouterr().out.startswith("shards 001 to 002, ")
    assert unpack(tmp_path / "rest", tmp_path / "there") == ["001", "002"]
    with pytest.raises(SystemExit, match="from number 3 on"):
        packed(3)


def test_packed_speech_keeps_its_high_frequencies(tmp_path: Path) -> None:
    """At low rates, Opus weakens what is above 4 kHz, and a codec that is trained on it would, too."""
    write_shard(tmp_path / "here", 0)
    clip, rate = EvaluationSet.load().speakers[0].reference.read()
    samples = (resampled(clip, rate, SAMPLE_RATE)[: SECONDS * SAMPLE_RATE] * 32767).astype(np.int16)
    np.save(tmp_path / "here" / "data" / "audio-000.npy", samples)
    pack(tmp_path / "here", tmp_path / "packed", 2**20)
    unpack(tmp_path / "packed", tmp_path / "there")
    copy = np.load(tmp_path / "there" / "data" / "audio-000.npy")
    for low in range(0, 7000, 1000):
        decibels = 10 * np.log10(_power(copy, low, low + 1000) / _power(samples, low, low + 1000))
        assert abs(decibels) < 1, f"{low} Hz"


def _power(samples: np.ndarray, low: int, high: int) -> float:
    spectrum = np.square(np.abs(np.fft.rfft(samples.astype(np.float64))))
    hertz = np.fft.rfftfreq(len(samples), 1 / SAMPLE_RATE)
    return float(spectrum[(hertz >= low) & (hertz < high)].sum())


def test_pack_includes_only_whole_shards_that_fit(tmp_path: Path) -> None:
    for number in range(3):
        write_shard(tmp_path / "here", number)
    pack(tmp_path / "here", tmp_path / "all", 2**20)
    whole = sum(file.stat().st_size for file in (tmp_path / "all").iterdir())
    shutil.copytree(tmp_path / "all", tmp_path / "some")
    assert pack(tmp_path / "here", tmp_path / "some", whole - 1) == ["000", "001"], "earlier speech is replaced"
    assert not list((tmp_path / "some").glob("*-002*"))
    assert sum(file.stat().st_size for file in (tmp_path / "some").iterdir()) < whole
    with pytest.raises(TooLarge, match="Shard 000 alone"):
        pack(tmp_path / "here", tmp_path / "none", 100)


def test_existing_shards_are_kept_and_invalid_folders_rejected(tmp_path: Path) -> None:
    write_shard(tmp_path / "here", 0)
    pack(tmp_path / "here", tmp_path / "packed", 2**20)
    mine = write_shard(tmp_path / "there", 0) * 0
    np.save(tmp_path / "there" / "data" / "audio-000.npy", mine)
    unpack(tmp_path / "packed", tmp_path / "there")
    assert not np.load(tmp_path / "there" / "data" / "audio-000.npy").any()
    with pytest.raises(TrainingError, match="holds no packed speech"):
        unpack(tmp_path, tmp_path / "there")
    with pytest.raises(TrainingError, match="No finished shard"):
        pack(tmp_path, tmp_path / "packed", 100)


def test_an_interrupted_unpacking_leaves_no_part_of_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise KeyboardInterrupt

    write_shard(tmp_path / "here", 0)
    pack(tmp_path / "here", tmp_path / "packed", 2**20)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", half)
        with pytest.raises(KeyboardInterrupt):
            unpack(tmp_path / "packed", tmp_path / "there")
    unpack(tmp_path / "packed", tmp_path / "there")
    assert Corpus.load(tmp_path / "there" / "data").utterances == Corpus.load(tmp_path / "here" / "data").utterances


@pytest.mark.parametrize("foreign", ["data/index-000.jsonl", "notes.txt", "folder/audio-000.opus", "degraded-000.npz"])
def test_a_folder_with_other_contents_is_refused_and_kept(
    tmp_path: Path, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shard(tmp_path / "here", 0)
    kept = tmp_path / "out" / foreign
    kept.parent.mkdir(parents=True)
    kept.write_text("kept")
    if not foreign.startswith("degraded"):
        (tmp_path / "out" / "speakers.json").write_text("[]")
    before = set((tmp_path / "out").rglob("*"))
    with pytest.raises(ForeignFolder, match=f"contains {Path(foreign).parts[0]}, which"):
        pack(tmp_path / "here", tmp_path / "out", 2**20)
    arguments = ["packing", "pack", "--work", str(tmp_path / "here"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit, match="choose an empty folder"):
        main()
    assert set((tmp_path / "out").rglob("*")) == before
    assert kept.read_text() == "kept"
