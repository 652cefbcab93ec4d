"""The plain baseline is slow but correct: its codes equal the engine's, and its chunks form one take."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.speed import plain_model
from benchmarks.speed.plain_model import PlainModel
from benchmarks.speed.reference_baseline import (
    CHUNK_FRAMES,
    Figures,
    ReferenceBaseline,
    in_turn,
    many,
    medians,
    ratios,
    speak_with_engine,
    table,
)
from engine.families.s2.codec import codec_files, load_codec_decoder
from engine.families.s2.dual_ar import DualAR
from engine.models.kv_cache import ContiguousView
from engine.models.sampling import REPETITION_TOP_P, SamplingOptions
from engine.release.profile import Profile
from tests.engine.conftest import cases, golden, miniature
from tests.paths import MINIATURE, SPEECH

__all__ = ["miniature"]  # the fixture

CLIP = SPEECH / "flite_slt.flac"
REFERENCE = (CLIP, "The words of the clip.")
GREEDY = SamplingOptions(temperature=0)
RESIDUAL_SIZE = codec_files(MINIATURE)[1].quantizer.codebook_size
SAMPLING = golden("sampling")


@pytest.fixture(scope="module")
def baseline() -> ReferenceBaseline:
    return ReferenceBaseline.load(MINIATURE)


@pytest.fixture(scope="module")
def prompt() -> Tensor:
    return golden("dual_ar")["prompt"].long()


@torch.inference_mode()
def engine_greedy_codes(model: DualAR, prompt: Tensor, frames: int) -> list[list[int]]:
    """Generate greedy codes with the engine's modules."""
    cache, start, columns, found = model.slow.new_cache(1, prompt.shape[1] + frames), 0, prompt[None], []
    while len(found) < frames:
        normed, hidden = model.slow(columns, ContiguousView(cache, start))
        start += columns.shape[2]
        semantic = model.slow.logits(normed[:, -1]).argmax(-1)
        if int(semantic) == model.config.semantic_codebook_size:
            break
        codes = model.fast.generate(hidden[:, -1], semantic, lambda logits, _codebook: logits.argmax(-1), RESIDUAL_SIZE)
        found.append(codes[0].tolist())
        columns = torch.cat((codes[:, :1] + model.config.semantic_start_id, codes), dim=1)[:, :, None]
    return found


def plain_codes(model: DualAR, prompt: Tensor, frames: int, size: int, options: SamplingOptions, seed: int = 0) -> Any:
    return list(PlainModel(model, size).frames(prompt, frames, options, torch.Generator().manual_seed(seed)))


def test_greedy_codes_equal_the_engine(miniature: DualAR, prompt: Tensor) -> None:
    ours = plain_codes(miniature, prompt, 20, RESIDUAL_SIZE, GREEDY)
    assert len(ours) > 10
    assert len({tuple(frame) for frame in ours}) > 3
    assert ours == engine_greedy_codes(miniature, prompt, 20)


def test_greedy_codes_equal_the_published_reference(miniature: DualAR, prompt: Tensor) -> None:
    expected = golden("dual_ar")["greedy_frames"]
    ours = plain_codes(miniature, prompt, len(expected), miniature.config.fast.vocab_size, GREEDY)
    assert ours == expected[:, 1:].tolist()


def test_end_token_ends_the_turn(miniature: DualAR, prompt: Tensor) -> None:
    tokens = [
        column[0] + miniature.config.semantic_start_id for column in plain_codes(miniature, prompt, 9, 64, GREEDY)
    ]
    # Let the ninth token drawn be the end token.
    tokenizer = SimpleNamespace(end_id=tokens[8])
    ending = plain_codes(replace(miniature, tokenizer=tokenizer), prompt, 9, 64, GREEDY)  # type: ignore[arg-type]
    assert len(ending) == tokens.index(tokens[8])


def test_draws_are_in_range_and_seeded(miniature: DualAR, prompt: Tensor) -> None:
    first, again, other = (plain_codes(miniature, prompt, 12, RESIDUAL_SIZE, SamplingOptions(), s) for s in (1, 1, 2))
    assert first == again
    assert first != other
    codes = torch.tensor(first)
    assert int(codes.min()) >= 0
    assert int(codes[:, 0].max()) < miniature.config.semantic_codebook_size
    assert int(codes[:, 1:].max()) < RESIDUAL_SIZE


@pytest.mark.parametrize(("index", "case"), list(enumerate(cases("sampling"))))
def test_probabilities_equal_reference(index: int, case: dict[str, Any]) -> None:
    ours = plain_model.probabilities(SAMPLING[f"logits_{index}"], SamplingOptions(**case))
    torch.testing.assert_close(ours, SAMPLING[f"probs_{index}"], rtol=0, atol=1e-6)


def test_recently_repeated_semantic_token_is_redrawn(
    miniature: DualAR, prompt: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, seen = miniature.config.semantic_start_id, list[float]()

    def drawing(logits: Tensor, options: SamplingOptions, _generator: torch.Generator) -> int:
        if len(logits) != miniature.config.slow.vocab_size:
            return 0
        seen.append(options.top_p)
        return start + (options.top_p == REPETITION_TOP_P)

    monkeypatch.setattr(plain_model, "draw", drawing)
    ours = plain_codes(miniature, prompt, 3, RESIDUAL_SIZE, SamplingOptions(top_p=0.5))
    assert [frame[0] for frame in ours] == [0, 1, 1]
    assert seen == [0.5, 0.5, 0.9, 0.5, 0.9]


def test_chunks_equal_one_decode_of_the_take(baseline: ReferenceBaseline, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Tensor] = []
    decoder = load_codec_decoder(*codec_files(MINIATURE))

    def recording_decode(codes: Tensor) -> Tensor:
        decoded.append(codes)
        return decoder.decode(codes)

    monkeypatch.setattr(baseline, "_decoder", SimpleNamespace(decode=recording_decode))
    chunks = list(baseline.speak("A sentence to say.", REFERENCE, seed=1, max_frames=25))
    length = decoder.config.frame_length
    assert [len(chunk) for chunk in chunks] == [CHUNK_FRAMES * length, 5 * length]
    assert [codes.shape[2] for codes in decoded] == [20, 25]  # all codes from the start each time
    whole = decoder.decode(decoded[-1])[0, 0].numpy()
    np.testing.assert_allclose(np.concatenate(chunks), whole, atol=1e-5)
    last = baseline.last
    assert last is not None
    assert (last.frames, last.first_frames) == (25, CHUNK_FRAMES)
    assert last.seconds == pytest.approx(25 * length / decoder.config.sample_rate)
    assert 0 < last.encoding < last.first_audio < last.elapsed


def test_segment_prompt_includes_previous_segments(
    baseline: ReferenceBaseline, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[Tensor] = []

    class FakeModel:
        device, positions = torch.device("cpu"), 512

        def frames(self, prompt: Tensor, budget: int, *_: object) -> Any:
            prompts.append(prompt)
            return iter([[len(prompts)] * 10] * min(budget, 7))

    monkeypatch.setattr(baseline, "_model", FakeModel())
    monkeypatch.setattr(baseline, "_profile", Profile(max_segment_bytes=30))
    chunks = list(baseline.speak("This is the first of two. And this comes after.", REFERENCE, seed=1))
    first, second = prompts
    assert torch.equal(second[:, : first.shape[1]], first)
    assert second[1, first.shape[1] : first.shape[1] + 7].tolist() == [1] * 7
    assert sum(map(len, chunks)) == 14 * 2048
    monkeypatch.setattr(FakeModel, "positions", first.shape[1])
    with pytest.raises(ValueError, match="positions"):
        list(baseline.speak("This is the first of two.", REFERENCE, seed=1))


@dataclass
class Chunk:
    frames: int


class FakeSpeech:
    def __init__(self) -> None:
        self.result: Any = None

    def __iter__(self) -> Any:
        yield from (Chunk(3), Chunk(5))
        self.result = SimpleNamespace(frames=8, seconds=0.4)


def test_engine_timing_is_measured_from_its_chunks() -> None:
    engine = SimpleNamespace(speak=lambda *_: FakeSpeech())
    found = speak_with_engine(engine, "Hi.", None, None)
    assert (found.frames, found.first_frames, found.seconds) == (8, 3, 0.4)
    assert 0 < found.first_audio <= found.elapsed


def test_ratios_compare_engine_with_baseline() -> None:
    slow = Figures(frames=120, seconds=6.0, first_frames=20, first_audio=2.0, elapsed=12.0, encoding=0.5)
    quick = Figures(frames=120, seconds=6.0, first_frames=3, first_audio=0.25, elapsed=3.0)
    assert slow.frames_per_second == pytest.approx(10)
    assert slow.frames_per_second_after == pytest.approx(10)
    assert slow.real_time_factor == pytest.approx(2)
    found = ratios(medians([slow]), medians([quick]))
    assert found == {
        "frames_per_second": pytest.approx(4),
        "frames_per_second_after": pytest.approx(117 / 2.75 / 10),
        "real_time_factor": pytest.approx(4),
        "first_audio_s": pytest.approx(8),
    }


def test_in_turn_alternates_with_equal_seeds() -> None:
    order: list[tuple[str, int]] = []

    def way(name: str) -> Any:
        return lambda seed: order.append((name, seed)) or Figures(seed, 1.0, 1, 1.0, 1.0)

    found = in_turn(2, way("a"), way("b"))
    assert order == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert [[run.frames for run in runs] for runs in found] == [[1, 2], [1, 2]]


def test_many_requests_alternate_between_both_programs() -> None:
    order: list[tuple[str, int]] = []

    def way(name: str) -> Any:
        return lambda seed: order.append((name, seed)) or Figures(seed, 1.0, 1, 1.0, 1.0)

    found = many(way("a"), way("b"), runs=2)
    assert [name for name, _ in order] == ["a"] * 4 + ["b"] * 4 + ["a"] * 4 + ["b"] * 4
    seeds = [sorted(seed for _, seed in order[at : at + 4]) for at in range(0, 16, 4)]
    assert seeds == [[4, 5, 6, 7], [4, 5, 6, 7], [8, 9, 10, 11], [8, 9, 10, 11]]
    assert (found["requests"], found["runs"]) == (4, 2)
    assert found["ratio"] == pytest.approx(found["engine"] / found["baseline"])


def test_table_shows_what_encoding_takes() -> None:
    plain = medians([Figures(120, 6.0, 20, 2.0, 12.0, encoding=0.5)])
    ours = medians([Figures(120, 6.0, 3, 0.25, 3.0)])
    texts = {"a sentence": {"baseline": plain, "engine": ours, "ratios": ratios(plain, ours)}}
    listeners = {"requests": 4, "runs": 5, "baseline": 10.0, "engine": 30.0, "ratio": 3.0}
    about = {"model": "m", "device": "cpu", "runs": 5, "threads": 2, "engine_threads": 1}
    shown = table({**about, "texts": texts, "listeners": listeners})
    assert shown.columns[-2:] == ["first audio", "of it encoding the clip"]
    assert [row[-2:] for row in shown.rows[:2]] == [["2000 ms", "500 ms"], ["250 ms", None]]
    assert shown.notes[1:] == [
        "4 requests: medians of 5 runs.",
        "Threads of torch: 2 in the plain port, 1 in the engine.",
    ]
