"""Model sizes for benchmarks, random weights for runs without a release, and the bytes read per frame.

Speed depends on sizes only, so random weights give the same figures as a release.
"""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from engine.codec.config import CodecConfig
from engine.families.s2.codec import codec_files
from engine.families.s2.config import DualARConfig
from engine.families.s2.dual_ar import read_config
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.release import S2Architecture
from engine.families.s2.slow_ar import SlowAR
from engine.layers import RMSNorm
from engine.models.config import TransformerConfig
from engine.models.native.run import NativeStepBackend
from engine.release.hub import BUNDLED
from engine.serving.memory import held_bytes

SPREAD = 0.02  # standard deviation of random weights, the usual initialisation of this family


@dataclass(frozen=True)
class Sizes:
    """A named model: its two transformers and its codec."""

    name: str
    dual_ar: DualARConfig
    codec: CodecConfig

    @property
    def architecture(self) -> S2Architecture:
        return S2Architecture(self.dual_ar, self.codec)

    @property
    def residual_size(self) -> int:
        """Entries of a residual codebook, which is the number of rows used of the Fast AR's head."""
        return self.codec.quantizer.codebook_size


def s2_pro() -> Sizes:
    """Return the sizes of Fish Audio S2-Pro: 4.56 B parameters."""
    return _s2_like("S2-Pro", dim=2560, heads=32, slow_layers=36, intermediate=9728)


def half_billion() -> Sizes:
    """Return S1-mini's sizes with S2's prompts and flags: 0.5 B parameters in blocks, 0.2 B in embedding tables."""
    return _s2_like("0.5 B", dim=1024, heads=16, slow_layers=28, intermediate=3072)


def bundled() -> Sizes:
    """Read the bundled model's sizes. Raises ReleaseIncomplete, ReleaseNotFound or InvalidConfig without its files."""
    return Sizes("bundled", read_config(BUNDLED), codec_files(BUNDLED)[1])


def _s2_like(name: str, *, dim: int, heads: int, slow_layers: int, intermediate: int) -> Sizes:
    """Return sizes with the vocabularies, key/value heads, rotary base and codec of S2-Pro and S1-mini."""

    def stack(**sizes: Any) -> TransformerConfig:
        return TransformerConfig(
            **sizes,
            n_head=heads,
            n_local_heads=8,
            head_dim=128,
            dim=dim,
            intermediate_size=intermediate,
            rope_base=1e6,
            norm_eps=1e-6,
        )

    dual_ar = DualARConfig(
        slow=stack(vocab_size=155_776, n_layer=slow_layers, max_seq_len=32_768, attention_qk_norm=True),
        fast=stack(vocab_size=4_096, n_layer=4, max_seq_len=11, tie_word_embeddings=False),
        num_codebooks=10,
        semantic_start_id=151_678,
        semantic_end_id=155_773,
        normed_fast_input=True,
        scaled_codebook_embeddings=True,
    )
    return Sizes(name, dual_ar, CodecConfig.s2_pro())


def random_dual_ar(
    config: DualARConfig, dtype: torch.dtype, device: torch.device | str, seed: int
) -> tuple[SlowAR, FastAR]:
    """Create both transformers with random weights of `dtype` directly on `device`, without a copy in host memory.

    As in the releases, the values of fp32 weights have 16 bits.
    The token before the semantic ones is used as the end of a turn. On the meta device no weights are drawn.
    """
    with torch.device("meta"):
        slow, fast = SlowAR(config, end_id=config.semantic_start_id - 1), FastAR(config)
    device = torch.device(device)
    generator = None if device.type == "meta" else torch.Generator(device).manual_seed(seed)
    for module in (slow, fast):
        _materialise(module, dtype, device, generator)
    return slow.eval(), fast.eval()


def _materialise(
    module: nn.Module, dtype: torch.dtype, device: torch.device, generator: torch.Generator | None
) -> None:
    for owner in module.modules():
        for name, shape in [(name, weight.shape) for name, weight in owner.named_parameters(recurse=False)]:
            weight = torch.empty(shape, dtype=dtype, device=device)
            if isinstance(owner, RMSNorm):
                weight.fill_(1.0)
            elif generator is not None:
                weight.normal_(0.0, SPREAD, generator=generator)
                if dtype == torch.float32:
                    weight.copy_(weight.half())
            setattr(owner, name, nn.Parameter(weight, requires_grad=False))
        # Buffers are rotary tables, already computed when the module was created.
        for name, buffer in list(owner.named_buffers(recurse=False)):
            setattr(owner, name, buffer.to(device))


@dataclass(frozen=True)
class FrameBytes:
    """Bytes read from memory for one frame of one listener, by kind.

    slow, fast: blocks and norms, the Fast AR's once per pass. semantic_head, residual_heads: the rows that are
    multiplied. kv: keys and values of the Slow AR's positions; the Fast AR's ten positions are ignored, because they
    stay in the processor's cache. embeddings: the rows that are looked up.
    """

    slow: int
    semantic_head: int
    fast: int
    residual_heads: int
    kv: int
    embeddings: int

    @property
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self))


def frame_bytes(slow: SlowAR, fast: FastAR, residual_size: int, seen: int) -> FrameBytes:
    """Return the least bytes that one frame reads, counted from the stored tensors, including quantized ones.

    Counts the head's rows for the semantic tokens and the end, and one pass of the Fast AR per residual codebook,
    because its first two positions are known together.

    Args:
        residual_size: entries of a residual codebook.
        seen: positions of the prompt and of the previous frames.
    """
    semantic = slow.dual.semantic_codebook_size + 1
    passes = fast.num_codebooks - 1
    head = slow.embeddings.weight if slow.config.tie_word_embeddings else slow.output.weight
    looked_up = fast.num_codebooks * _row(slow.codebook_embeddings.weight)
    looked_up += (fast.num_codebooks - 1) * _row(fast.embeddings.weight)
    return FrameBytes(
        slow=_block_bytes(slow) + held_bytes(slow.norm),
        semantic_head=semantic * _row(head),
        fast=passes * (_block_bytes(fast) + held_bytes(fast.norm)) + held_bytes(fast.fast_project_in),
        residual_heads=passes * residual_size * _row(fast.output.weight),
        kv=seen * _position(slow),
        embeddings=_row(slow.embeddings.weight) + looked_up,
    )


def _block_bytes(stack: SlowAR | FastAR) -> int:
    """Return the bytes of a stack's blocks, in native code if they run in it."""
    return stack.step_backend.nbytes if isinstance(stack.step_backend, NativeStepBackend) else held_bytes(stack.layers)


def _row(weight: Tensor) -> int:
    return weight.shape[1] * weight.itemsize


def _position(slow: SlowAR) -> int:
    """Return the bytes of one position's keys and values."""
    config = slow.config
    return 2 * config.n_layer * config.n_local_heads * config.head_dim * slow.norm.weight.itemsize
