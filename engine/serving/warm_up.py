"""The first run of a loaded model: libraries choose kernels and allocate, and peak memory is measured."""

import torch

from engine.codec.views import DecoderView
from engine.families.family import SpeechModel
from engine.models.prompt import Prompt
from engine.models.sampling import SamplingOptions
from engine.serving.codec_worker import FRAMES_AT_ONCE
from engine.serving.pacing import CHUNK_FRAMES
from engine.serving.runner.model_runner import ModelRunner
from engine.serving.runner.prefix_cache import PrefixCache
from engine.serving.runner.slots import GPU_PREFILL_CHUNK


@torch.inference_mode()
def warm_up(model: SpeechModel, decoder: DecoderView, residual_size: int, slots: int) -> int | None:
    """Run a whole prefill chunk, a frame of all slots and the largest batch of the codec, on the model's device.

    Returns: their peak bytes besides weights, cache and states; None on a CPU, where memory is not measured.
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
    rows = max(1, min(slots, FRAMES_AT_ONCE // CHUNK_FRAMES[-1]))
    state = decoder.init_state(rows)
    codes = torch.zeros(rows, decoder.config.num_codebooks, CHUNK_FRAMES[-1], dtype=torch.long, device=device)
    before = _begin_peak(device)
    runner.begin(0, Prompt(torch.zeros(model.slow.column_rows, chunk + 1, dtype=torch.long)),
                 SamplingOptions(), key=0)  # fmt: skip
    while not runner.prefill([0]):
        pass
    for slot in range(1, slots):
        runner.begin(slot, Prompt(torch.zeros(model.slow.column_rows, 2, dtype=torch.long)), SamplingOptions(), key=0)
    runner.step(range(slots)).frames()
    decoder.decode_step(codes, state)
    return None if before is None else torch.cuda.max_memory_allocated(device) - before


def _begin_peak(device: torch.device) -> int | None:
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)
