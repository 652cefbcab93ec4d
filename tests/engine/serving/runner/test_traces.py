"""Traces: a replay computes with the current values of its inputs, like a new call."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.models.int8_linear import Int8Linear
from engine.serving.runner.traces import TorchScriptCapture
from tests.engine.serving.graph_capture import fill, inputs, mixed_operations


@pytest.mark.parametrize("inference", [False, True])
def test_trace_uses_current_input_values(inference: bool) -> None:
    with torch.inference_mode(inference):
        held = inputs(0)
        replay = TorchScriptCapture().capture(mixed_operations, *held)
        for seed in range(5):
            fill(held, inputs(seed))
            assert torch.equal(replay(), mixed_operations(*inputs(seed)))


def test_traces_do_not_affect_each_other() -> None:
    capture = TorchScriptCapture()
    held = {rows: inputs(0, rows=rows) for rows in (1, 2, 5)}
    replays = {rows: capture.capture(mixed_operations, *held[rows]) for rows in held}
    doubled = capture.capture(lambda x: 2 * x, held[5][0])
    for seed in range(4):
        for rows in held:
            fill(held[rows], inputs(seed, rows=rows))
        results = {rows: replay() for rows, replay in replays.items()}
        assert torch.equal(doubled(), 2 * inputs(seed, rows=5)[0])
        for rows, result in results.items():
            assert torch.equal(result, mixed_operations(*inputs(seed, rows=rows)))


def test_trace_runs_no_python() -> None:
    ran: list[int] = []

    def counted(x: Tensor) -> Tensor:
        ran.append(1)
        return x + 1

    x = torch.zeros(3)
    replay = TorchScriptCapture().capture(counted, x)
    before = len(ran)
    x.fill_(4)
    assert replay().tolist() == [5, 5, 5]
    assert len(ran) == before >= 1


def test_tracing_emits_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    TorchScriptCapture().capture(lambda x: x.view(x.shape[0], -1)[: int(x.shape[1])], torch.zeros(4, 2))
    assert len(recwarn) == 0


def test_failing_function_cannot_be_traced() -> None:
    def broken(x: Tensor) -> Tensor:
        raise ZeroDivisionError("in the model")

    with pytest.raises(ZeroDivisionError, match="in the model"):
        TorchScriptCapture().capture(broken, torch.zeros(2))
    with pytest.raises(RuntimeError):
        TorchScriptCapture().capture(lambda x: {"neither": 1, x: 2}, torch.zeros(2))  # type: ignore[arg-type, return-value]


def capture_layer(packed: bool) -> tuple[Callable[[], Tensor], list[weakref.ref[Any]]]:
    """Capture a layer of random weights on a random input.

    Return the replay, after checking it, and references to the tensors and packed weights that it uses.
    """
    linear = nn.Linear(64, 64).requires_grad_(False)
    layer: Any = Int8Linear(linear) if packed else linear
    added, x = [torch.ones(64)], torch.randn(1, 64)

    def function(x: Tensor) -> Tensor:
        return torch.cat((layer(x), torch.stack(added)))

    replay = TorchScriptCapture().capture(function, x)
    x.copy_(torch.randn(1, 64))
    added[0].mul_(2)  # the trace has this tensor, not a copy
    assert torch.equal(replay(), function(x))
    return replay, [weakref.ref(each) for each in (layer.packed if packed else layer.weight, layer.bias, added[0], x)]


@pytest.mark.parametrize("packed", [False, True], ids=["fp32", "int8"])
@torch.inference_mode()
def test_deleted_replay_frees_its_weights_but_not_its_trace(packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch never frees a trace."""
    traced: list[int] = []
    trace: Any = torch.jit.trace
    monkeypatch.setattr(torch.jit, "trace", lambda *given, **more: traced.append(1) or trace(*given, **more))
    replay, references = capture_layer(packed)
    other, _ = capture_layer(packed)  # while the first one is in use
    first = replay()
    assert not torch.equal(first, other())
    made = len(traced)
    del replay
    gc.collect()
    assert [reference() for reference in references] == [None] * 4
    capture_layer(packed)
    capture_layer(packed)
    assert len(traced) == made <= 2


@torch.inference_mode()
def test_trace_serves_only_equal_operations() -> None:
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda x: [x.exp(), x.sin()][0],
        lambda x: [x.exp(), x.sin()][1],
        lambda x: [x.exp(), x.cos()][1],
        lambda x: x.exp() + x.sin(),
        lambda x: x.exp() - x.sin(),
        lambda x: x.exp() + x.exp(),
        lambda x: x.sin() + x.exp(),
        lambda x: x.sum(0),
        lambda x: x.sum(1),
        lambda x: x[1:],
        lambda x: x[:1],
        lambda x: x.T,
        lambda x: x.real,
        lambda x: x * 2,
        lambda x: x * 2.0,
        lambda x: x.mul(other),
        lambda x: other.mul(x),
    ]
    other = torch.randn(2, 2)
    for _ in range(2):
        for dtype in (torch.float32, torch.float64):
            x = torch.randn(2, 2, dtype=dtype)
            for function in functions:
                assert torch.equal(TorchScriptCapture().capture(function, x)(), function(x))
