"""Codes do not depend on the caller's torch modes; with `deterministic`, they do not depend on other requests where
products of one row and of several differ."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.engine import Engine
from engine.models.kv_cache import KVView
from engine.models.transformer import Transformer
from engine.options import SpeakOptions
from engine.request import turns
from engine.serving.runner.step_runners import GraphMode
from engine.text import Segment
from tests.engine.test_engine import CLIP, TRANSCRIPT
from tests.paths import MINIATURE

TEXTS = (("One.", "Two, in a longer sentence."), ("A sentence.",), ("Another.", "The last one."))
FRAMES = 4


@pytest.fixture(params=["cpu", *(pytest.param(f"cuda:0 {each}", marks=pytest.mark.gpu) for each in ("bf16", "fp16"))])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """On a CPU, several rows have other outputs than one, as by a GPU's rounding, but quite others."""
    device, _, precision = request.param.partition(" ")
    usual = Transformer.run_plain

    def run(stack: Transformer, x: Tensor, view: KVView | None = None) -> Tensor:
        out = usual(stack, x, view)
        return out if len(x) == 1 else out.flip(-1)

    if device == "cpu":
        monkeypatch.setattr(Transformer, "run_plain", run)
        monkeypatch.setattr(Transformer, "is_batch_invariant", False)
    monkeypatch.setattr(turns, "frame_budget", lambda _text, _rate: FRAMES)
    graphs: GraphMode = "off" if device == "cpu" else "frame"
    with closing(
        Engine.load(MINIATURE, device, precision=precision or None, deterministic=True, graphs=graphs, slots=2)
    ) as loaded:
        yield loaded


def test_requests_alone_and_in_company_have_equal_codes(engine: Engine) -> None:
    """Three requests share two slots, so that some lose their slot between two segments."""

    def spoken_codes(index: int) -> list[np.ndarray]:
        segments = [Segment(text) for text in TEXTS[index]]
        speech = engine.speak(segments, None, SpeakOptions(temperature=1, top_p=1, seed=index))
        for _ in speech:
            pass
        return [segment.codes for segment in speech.spoken]

    with ThreadPoolExecutor(len(TEXTS)) as threads:
        together = list(threads.map(spoken_codes, range(len(TEXTS))))
    for i, drawn in enumerate(together):
        alone = spoken_codes(i)
        assert len(alone) == len(drawn) == len(TEXTS[i])
        for one, other in zip(alone, drawn, strict=True):
            np.testing.assert_array_equal(one, other)


@contextmanager
def torch_modes() -> Iterator[None]:
    """Other modes of a caller's thread, and another default dtype, which the whole process has."""
    usual = torch.get_default_dtype()
    with ExitStack() as modes:
        for mode in (torch.autocast("cpu", torch.bfloat16), torch.device("meta"), torch.inference_mode()):
            modes.enter_context(mode)
        modes.callback(torch.set_default_dtype, usual)
        torch.set_default_dtype(torch.float64)
        yield


def encoded_and_spoken(engine: Engine) -> list[NDArray[np.generic]]:
    """Encode a clip and speak in its voice. Returns the codes."""
    voice = engine.encode_voice("Slt", [(CLIP, TRANSCRIPT)]).voice
    speech = engine.speak("Hi.", voice, SpeakOptions(seed=1, word_times=True))
    for _ in speech:
        pass
    return [voice.references[0].codes, speech.spoken[0].codes]


def test_codes_do_not_depend_on_modes_of_the_caller(bundled_engine: Engine) -> None:
    usual = encoded_and_spoken(bundled_engine)
    with torch_modes():
        used = encoded_and_spoken(bundled_engine)
        with Engine.load("bundled", "cpu", slots=1) as loaded:
            assert loaded.status().graphs == bundled_engine.status().graphs  # no native code is off
            found = encoded_and_spoken(loaded)
    for one, other in zip(usual + usual, used + found, strict=True):
        np.testing.assert_array_equal(one, other)
