"""The first run of a loaded model: libraries choose kernels and allocate, and peak memory is measured."""

from collections.abc import Callable
from functools import partial

import torch

from engine.codec.views import DecoderView
from engine.families.family import SpeechModel
from engine.models.prompt import Prompt
from engine.models.sampling import SamplingOptions
from engine.serving.batch_decoder import decoding_bytes, largest_batches
from engine.serving.device import run_in_limited_memory
from engine.serving.runner.model_runner import ModelRunner
from engine.serving.runner.prefix_cache import PrefixCache
from engine.serving.runner.slots import GPU_PREFILL_CHUNK


@torch.inference_mode()
def warm_up(model: SpeechModel, decoder: DecoderView, residual_size: int, slots: int) -> int | None:
    """Run a whole prefill chunk, a frame of all slots and the largest batches of the codec, on the model's device. The
    codec runs in as little memory as when it decodes.

    Returns: their peak bytes besides weights, cache and states, added: graphs keep their memory while many prompts are
    computed without them. Those of frames and of prompts share theirs. None on a CPU, where memory is not measured.
    """
    device, chunk = model.slow.norm.weight.device, min(GPU_PREFILL_CHUNK, model.slow.config.max_seq_len - 2)
    runner = ModelRunner(
        model,
        residual_size,
        slots=slots,
        positions=chunk + 2,
        prefixes=PrefixCache(device, 0, 0),
        mode="frame",
    )

    def prefill() -> None:
        columns = torch.zeros(model.slow.column_rows, chunk + 1, dtype=torch.long)
        runner.begin(0, Prompt(columns), SamplingOptions(), key=0)
        while not runner.prefill([0]):
            pass

    def frame() -> None:
        columns = torch.zeros(model.slow.column_rows, 2, dtype=torch.long)
        for slot in range(1, slots):
            runner.begin(slot, Prompt(columns), SamplingOptions(), key=0)
        runner.step(range(slots)).frames()

    states = decoder.init_state(1)

    def decode(rows: int, frames: int) -> None:
        codes = torch.zeros(rows, decoder.config.num_codebooks, frames, dtype=torch.long, device=device)
        decoder.decode_step(codes, states.take(torch.zeros(rows, dtype=torch.long, device=device)))

    def decoding_peaks() -> list[int]:
        return [_peak(device, partial(decode, *batch)) for batch in largest_batches(slots)]

    peaks = _peak(device, prefill), _peak(device, frame)
    needed = decoding_bytes(decoder.config, states.nbytes(), slots)
    decoding = run_in_limited_memory(device, needed, decoding_peaks)
    return peaks[0] + max(peaks) + max(decoding) if _is_measured(device) else None


def _is_measured(device: torch.device) -> bool:
    return device.type == "cuda"


def _peak(device: torch.device, work: Callable[[], None]) -> int:
    """Return the bytes that `work` needs at most; 0 on a CPU."""
    if not _is_measured(device):
        work()
        return 0
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    work()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before
