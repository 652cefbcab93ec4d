"""A random release of the miniature's sizes loads, encodes a voice and speaks for as long as an ordinary reader."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from benchmarks import random_release
from benchmarks.engines import loaded, wait_until_ready
from benchmarks.memory.sizes import Sizes, s2_pro
from benchmarks.random_release import (
    COMPLETE,
    is_random,
    natural_budget,
    natural_turns,
    random_weights,
    tokenizer,
    write_release,
)
from engine.engine import Engine
from engine.families.s2.codec import codec_files
from engine.families.s2.dual_ar import load_dual_ar, read_config
from engine.options import SpeakOptions
from engine.text import Segment
from engine.voice import Voice
from tests.paths import CLIP, MINIATURE

_CONFIG = read_config(MINIATURE)
_LONGER = replace(_CONFIG, slow=replace(_CONFIG.slow, max_seq_len=2048))
SIZES = Sizes("miniature", _LONGER, codec_files(MINIATURE)[1])
TEXTS = ("The rain has stopped now.", "We can go out for a walk.")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random") / "release"
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(random_release, "SHARD_BYTES", 100_000)
        write_release(folder, SIZES)
    return folder


@pytest.fixture(scope="module")
def engine(release: Path) -> Iterator[Engine]:
    with random_weights(release):
        loaded = Engine.load(release, "cpu", slots=1, graphs="off")
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def voice(engine: Engine) -> Voice:
    return engine.encode_voice("Slt", [(CLIP, "The words of the clip.")]).voice


def test_release_has_the_given_sizes_in_bf16_shards(release: Path) -> None:
    assert read_config(release) == SIZES.dual_ar
    assert codec_files(release)[1] == SIZES.codec
    shards = sorted(release.glob("model-*.safetensors"))
    assert len(shards) > 3
    for shard in shards:
        with safe_open(shard, framework="pt") as file:
            weights = [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118  # not a dictionary
        assert {weight.dtype for weight in weights} == {torch.bfloat16}
        assert len(weights) == 1 or sum(weight.nbytes for weight in weights) <= 100_000


def test_weights_are_random_and_the_end_is_never_likely(release: Path) -> None:
    with random_weights(release):
        model = load_dual_ar(release, dtype=torch.float32, device="cpu")
    head = model.slow.embeddings.weight
    assert model.slow.end_id == SIZES.dual_ar.semantic_start_id - 1
    assert not head[model.slow.end_id].any()
    assert head.std() == pytest.approx(0.02, rel=0.05)
    assert model.slow.norm.weight.eq(1).all()
    blocks = [stack.layers[0].get_parameter("attention.wqkv.weight") for stack in (model.slow, model.fast)]
    assert not torch.equal(*blocks)


def test_a_turn_ends_after_an_ordinary_readers_frames(engine: Engine, voice: Voice, release: Path) -> None:
    with natural_turns(release):
        speech = engine.speak([Segment(text) for text in TEXTS], voice, SpeakOptions(seed=1))
        frames = sum(chunk.frames for chunk in speech)
    assert speech.result is not None
    segments = speech.result.segments
    assert len(segments) == len(TEXTS)
    assert {(segment.stop_reason, segment.attempts) for segment in segments} == {("end", 1)}
    assert [segment.frames for segment in segments] == [
        natural_budget(segment.text, engine.info.frame_rate) - 1 for segment in segments
    ]
    assert frames == sum(segment.frames for segment in segments)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_a_ready_engine_speaks_from_graphs(release: Path, device: str) -> None:
    """On a GPU with fused kernels: the state tells why, if they are not used."""
    with loaded(release, device, slots=2) as engine:
        wait_until_ready(engine)
        assert engine.status().graphs == "frame"
        speech = engine.speak("Hi.", options=SpeakOptions(seed=1))
        assert all(np.isfinite(chunk.samples).all() for chunk in speech)
    assert speech.result is not None
    assert speech.result.stop_reason == "end"


def test_turns_of_other_models_are_left_alone(engine: Engine, voice: Voice, short_turns: None) -> None:
    assert not is_random("bundled")
    assert not is_random(MINIATURE)
    with natural_turns(MINIATURE):
        speech = engine.speak("Hi.", voice, SpeakOptions(seed=1))
        list(speech)
    assert speech.result is not None
    assert speech.result.stop_reason == "length"


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.request.turns.frame_budget", lambda *_: 12)


def test_a_complete_release_is_reused(release: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in release.iterdir()}
    write_release(release, SIZES)
    assert {path: path.stat().st_mtime_ns for path in release.iterdir()} == before
    slow = replace(SIZES.dual_ar.slow, n_layer=1)
    with pytest.raises(ValueError, match="other sizes"):
        write_release(release, replace(SIZES, dual_ar=replace(SIZES.dual_ar, slow=slow)))


def test_an_interrupted_release_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(random_release, "write_holes", fails)
    with pytest.raises(OSError, match="no space"):
        write_release(tmp_path, SIZES)
    assert not is_random(tmp_path)
    monkeypatch.undo()
    write_release(tmp_path, SIZES)
    assert json.loads((tmp_path / COMPLETE).read_text("utf-8"))["name"] == "miniature"


def test_tokens_are_words_and_special_tokens_have_their_ids() -> None:
    config = s2_pro().dual_ar
    made = tokenizer(config)
    assert made.token_to_id("<|semantic:0|>") == config.semantic_start_id
    assert made.token_to_id(f"<|semantic:{config.semantic_codebook_size - 1}|>") == config.semantic_end_id
    text = "The children are playing in the garden."
    assert len(made.encode(text).ids) <= 2 * len(text.split())
    assert made.decode(made.encode("naïve · 词").ids) == "naïve · 词"
