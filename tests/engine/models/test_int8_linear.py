"""Int8 layers on a CPU: error, batch invariance, traces and copies, with both libraries."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from engine.models import int8_linear
from engine.models.int8_linear import Int8Linear
from engine.serving.runner.traces import TorchScriptCapture

LIBRARIES = [name for name in int8_linear._STEPS if int8_linear._is_supported(name)]


@pytest.fixture(params=LIBRARIES, autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    monkeypatch.setattr(int8_linear, "_STEPS", {name: int8_linear._STEPS[name]})
    return name


def linear(columns: int, rows: int, *, bias: bool = False) -> nn.Linear:
    torch.manual_seed(columns * rows)
    return nn.Linear(columns, rows, bias=bias).requires_grad_(False)


def dequantized(layer: nn.Linear) -> Tensor:
    """Return the weights after a round trip through int8."""
    scales = layer.weight.abs().amax(dim=1, keepdim=True) / 127
    return (layer.weight / scales).round() * scales


def error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize(("columns", "rows"), [(1024, 3072), (37, 5), (64, 1), (2, 3), (513, 129)])
@torch.inference_mode()
def test_error_is_that_of_weight_rounding(columns: int, rows: int) -> None:
    layer = linear(columns, rows, bias=True)
    x = torch.randn(7, 1, columns) * torch.logspace(-4, 4, 7)[:, None, None]
    x[3, 0, -1] = 40 * x[3].abs().max()  # one activation far above the others
    found, exact = Int8Linear(layer)(x), x @ dequantized(layer).T + layer.bias
    assert found.shape == (7, 1, rows)
    for row in range(7):
        assert error(found[row], exact[row]) < 2e-3
        assert error(found[row], layer(x)[row]) < 2e-2


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@torch.inference_mode()
def test_row_that_is_not_finite_spoils_no_other(value: float) -> None:
    layer = Int8Linear(linear(64, 16, bias=True))
    x = torch.randn(3, 64)
    expected = layer(x)
    x[1, 5] = value
    found = layer(x)
    assert torch.equal(found[[0, 2]], expected[[0, 2]])
    assert found[1].isnan().all()


@torch.inference_mode()
def test_error_is_far_below_that_of_seven_bit_activations() -> None:
    """This requires the second, residual half of the activations."""
    layer = linear(1024, 64)
    x = torch.randn(1, 1024)
    whole = x / (x.abs().max() / 63)
    coarse = whole.round() @ dequantized(layer).T * (x.abs().max() / 63)
    exact = x @ dequantized(layer).T
    assert error(Int8Linear(layer)(x), exact) < 0.05 * error(coarse, exact)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(2, 200), st.integers(1, 70), st.integers(0, 2**31))
def test_rows_are_equal_in_any_batch(batch: int, columns: int, rows: int, seed: int) -> None:
    with torch.inference_mode():
        layer = Int8Linear(linear(columns, rows))
        x = torch.randn(batch, 1, columns, generator=torch.Generator().manual_seed(seed))
        x *= torch.logspace(-3, 3, batch)[:, None, None]
        alone = torch.cat([layer(x[i : i + 1]) for i in range(batch)])
        assert torch.equal(layer(x), alone)
        assert torch.equal(layer(x.flatten(0, 1)), alone.flatten(0, 1))


@torch.inference_mode()
def test_zero_row_gives_zeros_and_does_not_affect_others() -> None:
    layer = Int8Linear(linear(32, 8))
    x = torch.randn(3, 32)
    x[1] = 0
    found = layer(x)
    assert torch.equal(found[1], torch.zeros(8))
    assert torch.equal(found[2], layer(x[2:])[0])


@torch.inference_mode()
def test_trace_equals_the_layer() -> None:
    layers = nn.Sequential(Int8Linear(linear(64, 64)), nn.SiLU(), Int8Linear(linear(64, 32, bias=True)))
    x = torch.randn(2, 1, 64)
    replay = TorchScriptCapture().capture(layers, x)
    for _ in range(3):
        x.copy_(torch.randn(2, 1, 64))
        assert torch.equal(replay(), layers(x))


@torch.inference_mode()
def test_copied_layer_gives_equal_outputs(library: str) -> None:
    chosen = torch.backends.quantized.engine
    layer = Int8Linear(linear(64, 16))
    assert torch.backends.quantized.engine == chosen  # the setting of the process is unchanged
    x = torch.randn(4, 64)
    if library == chosen:
        assert torch.equal(copy.deepcopy(layer)(x), layer(x))
    assert layer.nbytes == 64 * 16 + 12 * 16


def test_int8_layer_emits_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    with torch.inference_mode():
        Int8Linear(linear(16, 16))(torch.randn(2, 16))
    assert len(recwarn) == 0


def test_library_that_cannot_pack_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch 2.11 for Arm lists such a library."""
    pack = int8_linear._pack

    def refuse(weight: torch.Tensor, library: str) -> torch.ScriptObject:
        if library == "fbgemm":
            raise RuntimeError("unknown architecture")
        return pack(weight, library)

    monkeypatch.setattr(int8_linear, "_pack", refuse)
    supported = int8_linear._is_supported.__wrapped__
    assert not supported("fbgemm")
    monkeypatch.setattr(int8_linear, "_pack", pack)
    assert supported(LIBRARIES[0])
