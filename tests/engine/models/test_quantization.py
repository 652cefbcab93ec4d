"""Weight quantization: quantized layers, memory size, and accuracy of the greedy codes."""

import copy
import re
import sys
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from engine.errors import DeviceUnavailable, InvalidOption
from engine.families.s2.dual_ar import DualAR, load_dual_ar
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.slow_ar import SlowAR
from engine.models.quantization import QUANTIZED, Layout, Precision, check_precision, layouts, quantize_block
from engine.serving.memory import held_bytes
from tests.engine.conftest import golden
from tests.engine.serving.test_memory import S2_PRO
from tests.paths import MINIATURE

GOLDEN = golden("dual_ar")
COLUMNS = torch.cat((GOLDEN["prompt"].long(), GOLDEN["greedy_frames"].long().T), dim=1)[None]


@pytest.fixture(scope="module")
def s2_pro() -> tuple[SlowAR, FastAR]:
    with torch.device("meta"):
        return SlowAR(S2_PRO, end_id=0), FastAR(S2_PRO)


def kinds(found: dict[str, Layout]) -> set[str]:
    return {layout.kind for layout in found.values()}


def test_only_transformer_blocks_are_quantized(s2_pro: tuple[SlowAR, FastAR]) -> None:
    slow, fast = s2_pro
    found = layouts(slow, "int8", stack="slow", activations=torch.bfloat16)
    per_block = ("attention.wqkv", "attention.wo", "feed_forward.w1", "feed_forward.w2", "feed_forward.w3")
    assert set(found) == {f"layers.{i}.{name}.weight" for i in range(36) for name in per_block}
    heads = layouts(fast, "int8", stack="fast", activations=torch.bfloat16)
    assert set(heads) == {f"layers.{i}.{name}.weight" for i in range(4) for name in per_block}


def test_fast_ar_uses_int8_under_int4(s2_pro: tuple[SlowAR, FastAR]) -> None:
    slow, fast = s2_pro
    assert kinds(layouts(slow, "int4", stack="slow", activations=torch.bfloat16)) == {"int4"}
    assert kinds(layouts(fast, "int4", stack="fast", activations=torch.bfloat16)) == {"int8"}


@pytest.mark.parametrize(
    ("rows", "columns", "kind"),
    [
        (1024, 1024, "int4"),
        (1024, 1024 + 32, "int8"),  # incomplete group
        (1024 + 4, 1024, "int8"),  # incomplete tile
        (1024, 256, "int8"),  # padding would make it four times as wide
        (1024, 640, "int4"),
    ],
)
def test_layers_unsuitable_for_int4_use_int8(rows: int, columns: int, kind: str) -> None:
    layer = nn.Sequential(nn.Linear(columns, rows, device="meta"))
    assert kinds(layouts(layer, "int4", stack="slow", activations=torch.bfloat16)) == {kind}


def test_fp16_activations_need_grouped_scales() -> None:
    fits, ragged = (nn.Sequential(nn.Linear(columns, 8, device="meta")) for columns in (256, 200))
    assert layouts(fits, "int8", stack="slow", activations=torch.float16) == {"0.weight": Layout("int8", 128)}
    assert layouts(ragged, "int8", stack="slow", activations=torch.float16) == {}


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_floating_point_precisions_leave_weights_unchanged(miniature: DualAR, precision: Precision) -> None:
    model = copy.deepcopy(miniature.slow)
    quantize_block(model, precision, stack="slow")
    assert held_bytes(model) == held_bytes(miniature.slow)


@pytest.mark.parametrize("precision", ["int4", "fp8"])
def test_gpu_only_precisions_are_rejected_on_cpu(miniature: DualAR, precision: Precision) -> None:
    with pytest.raises(DeviceUnavailable, match="choose int8"):
        quantize_block(miniature.slow, precision, stack="slow")


@pytest.mark.parametrize(
    ("precision", "capability", "dtype", "allowed"),
    [
        ("fp8", (8, 9), torch.bfloat16, False),
        ("fp8", (9, 0), torch.bfloat16, True),
        ("int4", (8, 0), torch.bfloat16, True),
        ("int4", (8, 0), torch.float16, False),
        ("int4", (7, 5), torch.bfloat16, False),
        ("int8", (7, 5), torch.float16, True),
    ],
)
def test_precisions_require_gpu_capability(
    monkeypatch: pytest.MonkeyPatch,
    precision: Precision,
    capability: tuple[int, int],
    dtype: torch.dtype,
    allowed: bool,
) -> None:
    pytest.importorskip("torchao", reason="torchao is an optional package")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    if allowed:
        check_precision(precision, "cuda", dtype)
    else:
        with pytest.raises(DeviceUnavailable):
            check_precision(precision, "cuda", dtype)


def test_missing_torchao_raises_with_install_hint(monkeypatch: pytest.MonkeyPatch, miniature: DualAR) -> None:
    monkeypatch.setitem(sys.modules, "torchao", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: (9, 0))
    with pytest.raises(InvalidOption, match="pip install torchao"):
        check_precision("int8", "cuda", torch.bfloat16)
    with pytest.raises(InvalidOption, match="pip install torchao"):
        quantize_block(copy.deepcopy(miniature.slow).bfloat16(), "int8", stack="slow")
    quantize_block(copy.deepcopy(miniature.fast), "int8", stack="fast")  # the CPU has its own int8 layers


@dataclass
class Pair:
    """The miniature, plain and with int8 weights: in our layers for fp32 activations, else in torchao's."""

    plain: DualAR
    int8: DualAR


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["ours", "torchao"])
def pair(request: pytest.FixtureRequest) -> Pair:
    if request.param == torch.bfloat16:
        pytest.importorskip("torchao", reason="torchao is an optional package")
    found = Pair(*(load_dual_ar(MINIATURE, dtype=request.param, device="cpu") for _ in range(2)))
    quantize_block(found.int8.slow, "int8", stack="slow")
    quantize_block(found.int8.fast, "int8", stack="fast")
    return found


def test_int8_shrinks_only_the_blocks(pair: Pair) -> None:
    for plain, quantized in ((pair.plain.slow, pair.int8.slow), (pair.plain.fast, pair.int8.fast)):
        values = sum(weight.numel() for weight in plain.layers.parameters())
        assert held_bytes(quantized.layers) < 1.25 * values
        changed = re.compile(r"layers\.\d+\.(attention\.(wqkv|wo)|feed_forward\.(w13|w2)|(attention|ffn)_norm)\.weight")
        kept = {name: weight for name, weight in quantized.named_parameters() if not changed.fullmatch(name)}
        assert {"embeddings.weight", "norm.weight"} < set(kept)
        for name, p in kept.items():
            assert type(p) is nn.Parameter
            assert torch.equal(p, plain.get_parameter(name))
    assert pair.int8.fast.output.weight[:7].shape == (7, 64)


@torch.inference_mode()
def predict_greedy(slow: SlowAR, fast: FastAR) -> Tensor:
    """Return the greedy codes of all codebooks after each column of the golden frames."""
    normed, hidden = slow(COLUMNS)
    first = GOLDEN["prompt"].shape[1] - 1
    semantic = slow.logits(normed[0, first:-1]).argmax(-1)
    residual = fast.logits(hidden[0, first:-1], GOLDEN["greedy_frames"].long()[:, 1:]).argmax(-1)
    return torch.cat((semantic[:, None], residual), dim=1)


def test_int8_keeps_most_greedy_codes(pair: Pair) -> None:
    plain = predict_greedy(pair.plain.slow, pair.plain.fast)
    equal = (predict_greedy(pair.int8.slow, pair.int8.fast) == plain).float().mean()
    assert float(equal) >= 0.9  # random weights: the best logits are close to each other
    assert len(plain) > 4


@torch.inference_mode()
def test_fp16_products_stay_in_range() -> None:
    pytest.importorskip("torchao", reason="torchao is an optional package")
    linear = nn.Linear(1024, 8, bias=False, dtype=torch.float16)
    linear.weight.data.fill_(0.01)
    layer = nn.Sequential(linear)
    quantize_block(layer, "int8", stack="slow")
    found = layer(torch.ones(1, 1024, dtype=torch.float16))  # 1,024 × 127 would be infinite
    torch.testing.assert_close(found.float(), torch.full((1, 8), 10.24), rtol=0.02, atol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", QUANTIZED)
def test_quantized_layer_on_gpu_has_planned_size_and_small_error(precision: Precision) -> None:
    pytest.importorskip("torchao", reason="torchao is an optional package")
    try:
        check_precision(precision, "cuda", torch.bfloat16)
    except DeviceUnavailable as unavailable:
        pytest.skip(str(unavailable))
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(2560, 1024, bias=False, dtype=torch.bfloat16, device="cuda"))
    layer.requires_grad_(False)
    x = torch.randn(3, 2, 2560, dtype=torch.bfloat16, device="cuda")
    expected, layout = layer(x), layouts(layer, precision, stack="slow", activations=torch.bfloat16)["0.weight"]
    quantize_block(layer, precision, stack="slow")
    assert held_bytes(layer) == layout.nbytes(1024, 2560)
    error = (layer(x) - expected).float().norm() / expected.float().norm()
    assert float(error) < (0.2 if precision == "int4" else 0.05)
