"""With `deterministic`, codes do not depend on other requests where products of one row and of several differ."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from torch import Tensor

from engine import request as speech_module
from engine.engine import Engine, SpeakOptions
from engine.models.kv_cache import KVView
from engine.models.layers import Transformer
from engine.serving.runner.step_runners import GraphMode
from engine.text import Segment
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
    monkeypatch.setattr(speech_module, "frame_budget", lambda _text, _rate: FRAMES)
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
