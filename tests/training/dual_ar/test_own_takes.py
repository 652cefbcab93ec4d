"""A model's own takes: whose voices and which texts are drawn."""

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from engine.engine import Engine
from tests.training.dual_ar.test_train import CODEBOOKS, utterance, write_codes
from training.dual_ar.own_takes import TakeSampler
from training.work import TrainingError

TALKATIVE, QUIET, TERSE, HELD_OUT, UNKNOWN = range(5)
UTTERANCES = {TALKATIVE: 60, QUIET: 6, TERSE: 5, HELD_OUT: 6, UNKNOWN: 6}
SPEAKERS = [TALKATIVE, QUIET, TERSE, HELD_OUT]
DIVIDED = "Hello there. Good morning."


class FakeEngine:
    """An engine whose takes have four frames, two of them for `DIVIDED`."""

    info = SimpleNamespace(slots=2, sample_rate=22050, frame_rate=21.5, codec_fingerprint="codec")

    def __init__(self) -> None:
        self.seeds: list[int | None] = []

    def speak(self, text: str, voice: object, options: Any) -> Any:
        self.seeds.append(options.seed)
        part = SimpleNamespace(codes=np.ones((CODEBOOKS, 4), np.int64))

        class Speech(list[object]):
            spoken = [part, part] if text == DIVIDED else [part]

        return Speech()


def write_work(work: Path, text: str) -> None:
    """Write speech and codes of all speakers, who say the same text."""
    said = [utterance(speaker, i) for speaker, count in UTTERANCES.items() for i in range(count)]
    write_codes(work, said, held_out=HELD_OUT)
    (work / "data").mkdir()
    np.save(work / "data" / "audio-000.npy", np.zeros(10, np.int16))
    (work / "data" / "speakers.json").write_text(json.dumps([{"id": speaker} for speaker in UTTERANCES]))
    about = {"text": text, "tokens": [], "times": [], "shard": 0, "offset": 0, "samples": 10}
    lines = [
        about | {"speaker": each.speaker, "test_sentence": False, "held_out_speaker": each.speaker == HELD_OUT}
        for each in said
    ]
    (work / "data" / "index-000.jsonl").write_text("\n".join(map(json.dumps, lines)))


def test_speakers_are_drawn_equally_however_much_they_speak(tmp_path: Path) -> None:
    write_work(tmp_path, "Good morning.")
    engine = FakeEngine()
    takes = list(TakeSampler(tmp_path, SPEAKERS).sample(cast(Engine, engine), 300, seed=1))
    drawn = Counter(take.reference.speaker for take in takes)
    assert drawn.keys() == {TALKATIVE, QUIET}  # the others speak too little, are held out, or have no embedding
    assert 110 < drawn[QUIET] < 190
    assert len(set(engine.seeds)) == 300
    assert takes[0].utterance.codes.tolist() == np.ones((CODEBOOKS, 4)).tolist()
    assert takes[0].phones == "g uh d m ao r n ih ng".split()


def test_takes_of_divided_texts_are_left_out(tmp_path: Path) -> None:
    write_work(tmp_path, DIVIDED)
    assert list(TakeSampler(tmp_path, SPEAKERS).sample(cast(Engine, FakeEngine()), 4, seed=1)) == []


def test_speech_of_no_speaker_is_refused(tmp_path: Path) -> None:
    write_work(tmp_path, "Good morning.")
    with pytest.raises(TrainingError, match="No speaker has 6 encoded utterances"):
        TakeSampler(tmp_path, [UNKNOWN + 1])
