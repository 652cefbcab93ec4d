"""Loads the models of a release, with faster code where it agrees with the plain code on their weights.

Each function also returns why faster code is off on a device that supports it.
"""

from functools import partial

import torch

from engine.codec.fused import use_fused_convolutions
from engine.codec.views import DecoderView
from engine.families.family import Release, SpeechModel
from engine.models.compiling import compile_blocks
from engine.models.fused import use_fused_sampling, use_fused_steps
from engine.models.native.run import use_native_sampling, use_native_steps
from engine.models.quantization import Precision
from engine.serving.batch_decoder import FRAMES_AT_ONCE, decoding_bytes
from engine.serving.device import release_memory, run_in_limited_memory, share_cores
from engine.serving.memory import activation_dtype, is_small


def load_speech_model(
    release: Release, device: torch.device, precision: Precision, *, compiled: bool
) -> tuple[SpeechModel, list[str]]:
    """Load both transformers, arranged for decoding. compiled: see `Engine.load`."""
    model = release.load_model(activation_dtype(precision, device), device, precision)
    share_cores(device, small=is_small(release.architecture.on(device)))
    on_gpu, reasons = device.type == "cuda", list[str | None]()
    for stack in (model.slow, model.fast):
        reasons.append(use_native_steps(stack))
        stack.prepare_for_decoding()
        if compiled:
            compile_blocks(stack)
        elif on_gpu:
            reasons.append(use_fused_steps(stack))
    sizes = model.slow.semantic_codebook_size + 1, release.architecture.codec.codebook_sizes[-1]
    reasons.append((use_fused_sampling if on_gpu else use_native_sampling)(model.slow, sizes))
    if on_gpu:
        release_memory()  # of the checks, and of weights that have been merged
    return model, [why for why in reasons if why]


def load_decoder(release: Release, device: torch.device, *, has_gpu: bool) -> tuple[DecoderView, list[str]]:
    """Load the decoder view. has_gpu: whether kernels can run: not before `Engine.start` on ZeroGPU."""
    decoder = release.load_decoder(device)
    if not has_gpu:
        return decoder, []
    needed = decoding_bytes(release.architecture.codec, decoder.init_state(1).nbytes(), FRAMES_AT_ONCE)
    why = use_fused_convolutions(decoder, partial(run_in_limited_memory, device, needed))
    release_memory()
    return decoder, [why] if why else []
