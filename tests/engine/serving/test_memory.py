"""Planned sizes against published sizes and loaded modules; plans fit and are not smaller than necessary."""

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from engine.codec.codec import CodecDecoder, CodecEncoder
from engine.codec.config import CodecConfig
from engine.engine import Engine
from engine.errors import DoesNotFit, InvalidOption
from engine.families.qwen3_tts.release import Qwen3TTSRelease
from engine.families.registry import read_release
from engine.families.s2.codec import codec_files, load_codec_decoder, load_codec_encoder
from engine.families.s2.config import DualARConfig
from engine.families.s2.dual_ar import DualAR, load_dual_ar, read_config
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.release import S2Architecture, S2Release
from engine.families.s2.slow_ar import SlowAR
from engine.models import int8_linear
from engine.models.config import TransformerConfig
from engine.models.quantization import Precision
from engine.release.hub import BUNDLED
from engine.serving.batch_decoder import ROWS_PER_SLOT, BatchDecoder, decoding_bytes
from engine.serving.device import SLACK_BYTES, available_memory, release_memory, reserved_memory
from engine.serving.memory import (
    SHORTEST,
    MemoryPlan,
    _Sizes,
    activation_dtype,
    choose_precision,
    held_bytes,
    host_prefix_bytes,
    plan_memory,
    prefix_bytes,
)
from engine.serving.runner.graphs import CudaGraphCapture
from engine.serving.warm_up import warm_up
from tests.engine.families.qwen3_tts.conftest import as_narrow
from tests.paths import MINIATURE, QWEN

BLOCK: dict[str, Any] = {"n_head": 32, "n_local_heads": 8, "head_dim": 128, "dim": 2560, "intermediate_size": 9728}
S2_PRO = DualARConfig(
    slow=TransformerConfig(vocab_size=155_776, n_layer=36, max_seq_len=32_768, attention_qk_norm=True, **BLOCK),
    fast=TransformerConfig(vocab_size=4096, n_layer=4, max_seq_len=11, tie_word_embeddings=False, **BLOCK),
    num_codebooks=10,
    semantic_start_id=151_678,
    semantic_end_id=155_773,
    normed_fast_input=True,
    scaled_codebook_embeddings=True,
)
CODEC = CodecConfig.s2_pro()
SIZES = S2Architecture(S2_PRO, CODEC)
SMALL = read_config(BUNDLED)
GB = 10**9


def plan(
    precision: Precision = "bf16", available: int | None = None, slots: int = 1, positions: int = 4096
) -> MemoryPlan:
    return plan_memory(SIZES, precision, available=available, slots=slots, positions=positions)


@cache
def meta_stacks() -> tuple[SlowAR, FastAR]:
    """Both transformers in bf16 on the meta device; their rotary tables keep their dtype."""
    with torch.device("meta"):
        stacks = SlowAR(S2_PRO, end_id=0), FastAR(S2_PRO)
    for stack in stacks:
        for parameter in stack.parameters():
            parameter.data = parameter.data.to(torch.bfloat16)
    return stacks


def buffer_bytes(module: nn.Module) -> int:
    return sum(buffer.nbytes for buffer in module.buffers())


def nbytes(module: nn.Module) -> int:
    return sum(p.nbytes for p in module.parameters()) + buffer_bytes(module)


def test_s2_pro_plan_matches_published_sizes() -> None:
    found = plan("bf16")
    block = 2560 * (32 + 16) * 128 + 32 * 128 * 2560 + 3 * 2560 * 9728
    slow = 36 * (block + 2 * 2560 + 2 * 128) + 2560 + (155_776 + 10 * 4096) * 2560
    fast = 4 * (block + 2 * 2560) + 2560 + 2 * 4096 * 2560
    slow_tables, fast_tables = (buffer_bytes(stack) for stack in meta_stacks())
    assert (found.slow - slow_tables, found.fast - fast_tables) == (2 * slow, 2 * fast)
    assert slow + fast == pytest.approx(4.56e9, rel=1e-3)
    assert found.encoder / 4 == pytest.approx(76.9e6 + 109.1e6 + 21.0e6 + 0.3e6, rel=2e-3)
    assert found.decoder / 4 == pytest.approx(54.1e6 + 109.1e6 + 21.0e6 + 0.3e6, rel=2e-3)
    assert found.kv_per_position == 147_456


def test_plan_equals_sizes_of_modules() -> None:
    with torch.device("meta"):
        views = CodecEncoder(CODEC), CodecDecoder(CODEC)
    found = plan("bf16")
    assert [found.slow, found.fast, found.encoder, found.decoder] == [nbytes(m) for m in (*meta_stacks(), *views)]


@pytest.mark.parametrize(("precision", "gigabytes"), [("bf16", 12), ("int8", 8), ("fp8", 8.1), ("int4", 8)])
def test_s2_pro_fits_with_4096_positions(precision: Precision, gigabytes: float) -> None:
    found = plan(precision, int(gigabytes * GB))
    assert (found.slots, found.positions) == (1, 4096)
    assert found.total <= gigabytes * GB
    assert found.workspace > 0.5 * GB  # memory besides weights and cache


@pytest.mark.parametrize(("precision", "card"), [("bf16", 12), ("int8", 8), ("fp8", 8)])
def test_s2_pro_fits_cards_with_embeddings_of_text_in_host_memory(precision: Precision, card: int) -> None:
    """A card has less free than its name says: CUDA takes about 1 GiB."""
    on_gpu, free = replace(SIZES, host_rows=151_645), (card - 1) * 2**30
    found = plan_memory(on_gpu, precision, available=free, slots=32, positions=4095)
    assert found.slots >= 1
    assert found.positions == 4095
    without = plan(precision, None, found.slots, 4095)
    assert without.slow - found.slow == 2 * 151_645 * 2560


@pytest.mark.parametrize(
    ("folder", "precision", "dtype"), [(MINIATURE, "fp32", torch.float32), (BUNDLED, "bf16", torch.bfloat16)]
)
def test_loaded_releases_have_planned_sizes(folder: Path, precision: Precision, dtype: torch.dtype) -> None:
    model = load_dual_ar(folder, dtype=dtype, device="cpu", precision=precision)
    found = plan_memory(S2Architecture(model.config, CODEC), precision, available=None, slots=2, positions=64)
    assert (found.slow, found.fast) == (held_bytes(model.slow), held_bytes(model.fast))
    cache = model.slow.new_cache(1, 1)
    assert found.kv_per_position == cache.buffer.nbytes


def test_loaded_codec_has_planned_sizes() -> None:
    path, codec = codec_files(BUNDLED)
    found = plan_memory(S2Architecture(SMALL, codec), "fp32", available=None, slots=1, positions=64)
    assert found.encoder == held_bytes(load_codec_encoder(path, codec))
    assert found.decoder == held_bytes(load_codec_decoder(path, codec))


@pytest.mark.parametrize("folder", [BUNDLED, QWEN], ids=["bundled", "qwen3_tts"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quantized_releases_have_planned_sizes(folder: Path, dtype: torch.dtype) -> None:
    if dtype != torch.float32:
        pytest.importorskip("torchao", reason="torchao is an optional package")
    release = read_release(folder)
    model = release.load_model(dtype, torch.device("cpu"), "int8")
    found = plan_memory(release.architecture, "int8", available=None, slots=1, positions=64, activations=dtype)
    assert (found.slow, found.fast) == (held_bytes(model.slow), held_bytes(model.fast))


def test_plan_without_memory_limit_keeps_requested_sizes() -> None:
    found = plan("fp32", None, slots=64, positions=100_000)
    assert (found.slots, found.positions) == (64, 32_768)
    assert found.total == found.slow + found.fast + found.encoder + found.decoder + found.kv + found.workspace


def test_plan_of_very_many_slots_is_found_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    usual = _Sizes.plan

    def counted(self: _Sizes, slots: int, *more: Any) -> MemoryPlan:
        asked.append(slots)
        assert len(asked) < 100
        return usual(self, slots, *more)

    monkeypatch.setattr(_Sizes, "plan", counted)
    assert plan("bf16", 40 * GB, slots=10**9) == plan("bf16", 40 * GB, slots=1000)


@settings(deadline=None)  # the first plan of a precision counts the modules
@given(
    available=st.integers(6 * GB, 60 * GB),
    slots=st.integers(1, 12),
    positions=st.integers(1, 40_000),
    precision=st.sampled_from(["bf16", "int8", "int4"]),
)
def test_plans_fit_and_are_not_smaller_than_necessary(
    available: int, slots: int, positions: int, precision: Precision
) -> None:
    wished = min(positions, 32_768)
    shortest = min(wished, SHORTEST)
    least = plan(precision, None, 1, shortest).total
    if least > available:
        with pytest.raises(DoesNotFit):
            plan(precision, available, slots, positions)
        return
    found = plan(precision, available, slots, positions)
    assert found.total <= available
    assert found.slots <= slots
    assert shortest <= found.positions <= wished
    if found.slots > 1 or found.positions == wished:
        assert found.positions == wished
        assert found.slots == slots or plan(precision, None, found.slots + 1, wished).total > available
    else:
        assert plan(precision, None, 1, min(wished, found.positions + 256)).total > available


@pytest.mark.parametrize(
    ("precision", "gigabytes", "says"),
    [
        ("bf16", 8, "choose int8"),
        ("bf16", 7, "choose int4"),
        ("fp32", 13, "choose bf16"),
        ("int8", 7, "choose int4"),
        ("bf16", 4, "the CPU"),
        ("int4", 4, "the CPU"),
    ],
)
def test_does_not_fit_error_suggests_an_alternative(precision: Precision, gigabytes: int, says: str) -> None:
    with pytest.raises(DoesNotFit, match=says) as caught:
        plan(precision, gigabytes * GB)
    assert f" {gigabytes} GB are free" in str(caught.value)
    assert f"in {precision}" in str(caught.value)


def test_int4_is_not_suggested_without_bf16() -> None:
    with pytest.raises(DoesNotFit, match="the CPU"):
        plan_memory(SIZES, "int8", available=7 * GB, slots=1, positions=4096, activations=torch.float16)


@pytest.mark.parametrize(("slots", "positions"), [(0, 10), (1, 0), (-1, 10)])
def test_plan_needs_at_least_one_slot_and_position(slots: int, positions: int) -> None:
    with pytest.raises(InvalidOption, match="at least one"):
        plan(slots=slots, positions=positions)


def test_cpu_uses_int8_for_large_models(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = S2Architecture(S2_PRO, CODEC), S2Architecture(SMALL, CODEC)
    assert [choose_precision("cpu", each) for each in (large, small)] == ["int8", "fp32"]
    assert activation_dtype("int8", "cpu") == torch.float32
    monkeypatch.setattr(int8_linear, "_STEPS", {"a library that is not there": 127})
    assert [choose_precision("cpu", each) for each in (large, small)] == ["fp32", "fp32"]
    assert activation_dtype("int8", "cpu") == torch.bfloat16


def test_cpus_memory_limits_slots_and_positions_but_refuses_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure is an estimate, and the system can swap."""
    monkeypatch.setattr("engine.serving.device.free_host_memory", lambda: 20 * GB)
    assert available_memory("cpu") == 18 * GB
    for slots, available, expected in ((256, 12, (2, 4096)), (256, 8, (1, 2048)), (1, 1, (1, 2048))):
        free = available * GB
        found = plan_memory(
            SIZES, "int8", available=free, slots=slots, positions=4096, activations=torch.float32, refuses=False
        )
        assert (found.slots, found.positions) == expected


@pytest.mark.usefixtures("shared_weights")
def test_engine_on_a_cpu_has_as_many_slots_as_fit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sizes = S2Release(MINIATURE).architecture
    needed = plan_memory(sizes, "fp32", available=None, slots=3, positions=4096).total
    monkeypatch.setattr("engine.serving.device.free_host_memory", lambda: round(needed / 0.9) + 1)
    with closing(Engine.load(MINIATURE, "cpu", slots=256, graphs="off")) as engine:
        assert engine.info.slots == engine.status().slots == 3
    assert "3 of 256 slots fit into the free memory" in caplog.text


def test_cpus_compute_in_fp32() -> None:
    assert reserved_memory("cpu") is None
    assert activation_dtype("fp32", "cpu") == torch.float32


@pytest.mark.parametrize(
    ("capability", "bf16", "precision", "activations"),
    [
        ((9, 0), True, "bf16", torch.bfloat16),
        ((8, 0), True, "bf16", torch.bfloat16),
        ((7, 5), True, "fp16", torch.float16),
        ((8, 6), False, "fp16", torch.float16),
    ],
)
def test_gpus_use_bf16_if_supported(
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    bf16: bool,
    precision: Precision,
    activations: torch.dtype,
) -> None:
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16 or including_emulation)
    assert choose_precision("cuda", SIZES) == precision
    assert activation_dtype("int8", "cuda") == activations
    qwen = Qwen3TTSRelease(QWEN).architecture
    assert choose_precision("cuda", qwen) == precision
    assert choose_precision("cuda", as_narrow(qwen)) == ("bf16" if precision == "bf16" else "fp32")


def test_measured_workspace_replaces_the_estimate() -> None:
    def plan(measured: int | None, available: int | None = None) -> MemoryPlan:
        return plan_memory(SIZES, "bf16", available=available, slots=8, positions=2048, measured=measured)

    estimated, small = plan(None), plan(100 << 20)
    assert plan(300 << 20).workspace - small.workspace == 200 << 20
    assert small.total - small.workspace == estimated.total - estimated.workspace
    assert small.workspace > 100 << 20  # plus encoder workspace, states and graphs
    assert plan(100 << 20, small.total).slots == 8
    assert plan(300 << 20, small.total).slots < 8


@pytest.mark.parametrize(
    ("free", "kept"), [(30 << 30, 512 << 20), (1 << 30, 512 << 20), (300 << 20, 150 << 20), (0, 0)]
)
def test_prefix_cache_gets_half_of_unplanned_memory(free: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded weights are part of the plan and must not be counted twice."""
    plan = plan_memory(SIZES, "bf16", available=None, slots=8, positions=2048)
    loaded = plan.slow + plan.fast + plan.decoder
    monkeypatch.setattr("engine.serving.memory.available_memory", lambda _device: plan.total - loaded + free)
    assert prefix_bytes(torch.device("cuda"), plan, loaded) == kept


@pytest.mark.parametrize(("free", "kept"), [(None, 2 << 30), (30 << 30, 2 << 30), (1 << 30, 512 << 20)])
def test_prefixes_in_host_memory_take_half_of_it(free: int | None, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.serving.memory.free_host_memory", lambda: free)
    assert host_prefix_bytes() == kept


def test_warm_up_runs_a_frame_of_all_slots_on_cpu(miniature: DualAR) -> None:
    ran: list[int] = []
    decoder = load_codec_decoder(*codec_files(MINIATURE))
    hook = miniature.slow.norm.register_forward_hook(lambda _module, given, _out: ran.append(len(given[0])))
    try:
        assert warm_up(miniature, decoder, 64, slots=3) is None
    finally:
        hook.remove()
    assert ran == [3]  # a frame of all slots


def test_warm_up_adds_what_exists_side_by_side(miniature: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts without graphs, the larger of graphs of prompts and of frames, and the largest of the codec's batches."""
    sizes: list[tuple[int, int]] = []
    peaks = iter([1000, 200, 10, 30, 20, 10, 10])

    def peak(device: torch.device, work: Callable[[], None]) -> int:
        work()
        return next(peaks)

    decoder = load_codec_decoder(*codec_files(MINIATURE))
    usual = decoder.decode_step
    monkeypatch.setattr(decoder, "decode_step", lambda c, state: sizes.append((len(c), c.shape[2])) or usual(c, state))
    monkeypatch.setattr("engine.serving.warm_up._peak", peak)
    monkeypatch.setattr("engine.serving.warm_up._is_measured", lambda _device: True)
    assert warm_up(miniature, decoder, 64, slots=3) == 2030
    assert sizes == [(4, 16), (4, 8), (4, 4), (4, 2), (4, 1)]  # three rows, padded


def test_codec_is_warmed_up_in_the_memory_that_it_is_planned_to_need(
    miniature: DualAR, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model itself has no convolutions, and is warmed up without a limit."""
    limits, running = list[int](), list[str]()

    def run(device: torch.device, needed: int, work: Callable[[], object]) -> object:
        limits.append(needed)
        running.append("limited")
        made = work()
        running.append("free")
        return made

    decoder = load_codec_decoder(*codec_files(MINIATURE))
    usual = decoder.decode_step
    monkeypatch.setattr(decoder, "decode_step", lambda *given: running.append("codec") or usual(*given))
    monkeypatch.setattr("engine.serving.warm_up.run_in_limited_memory", run)
    hook = miniature.slow.norm.register_forward_hook(lambda *_: running.append("model"))
    try:
        warm_up(miniature, decoder, 64, slots=3)
    finally:
        hook.remove()
    assert running == ["model", "limited", *["codec"] * 5, "free"]
    assert limits == [decoding_bytes(decoder.config, decoder.init_state(1).nbytes(), 3)]
    assert limits[0] > 4 * 16 * decoder.config.decoder_activation_size * 4  # the widest of four rows of 16 frames


@pytest.mark.gpu
@torch.inference_mode()
def test_graphs_of_a_large_codec_reserve_what_is_planned() -> None:
    """With S2-Pro's sizes: without a limit, more than 100 GiB on a GPU that has them."""
    device, slots = torch.device("cuda:0"), 32
    decoder = CodecDecoder(CODEC).requires_grad_(False).to(device)
    batches = BatchDecoder(decoder, ROWS_PER_SLOT * slots, device, CudaGraphCapture(device), slots)
    release_memory()
    before = torch.cuda.memory_reserved(device)
    while batches.capture_next():
        release_memory()
    needed = decoding_bytes(CODEC, decoder.init_state(1).nbytes(), slots)
    assert batches.graph_failure == ""
    assert torch.cuda.memory_reserved(device) - before < needed + 2 * SLACK_BYTES  # some is lost between blocks
    assert torch.cuda.get_per_process_memory_fraction(device) == 1


def test_workspace_has_the_states_of_all_rows_of_the_codec() -> None:
    with torch.device("meta"):
        row = SIZES.views()[1].init_state(1).nbytes()
    small, large = (
        plan_memory(SIZES, "bf16", available=None, slots=slots, positions=2048, measured=0) for slots in (2, 3)
    )
    assert large.workspace - small.workspace == 2 * row
    estimated = plan_memory(SIZES, "bf16", available=None, slots=32, positions=2048)
    assert estimated.workspace > (65 + 32) * row  # 32 of them copied for a batch of single frames
