"""Layers shared by the transformers of models and codec.

RMSNorm, attention projections over interleaved rotary pairs, SwiGLU. Shapes: B batch, T positions, D width, H heads,
H_kv key/value heads, d head width.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_SHARED_BY_THREADS = 32_768  # elements from which PyTorch splits a CPU operation between threads


class RMSNorm(nn.Module):
    """RMSNorm: normalised in fp32, cast back, then scaled, the order in which the released weights were trained."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), eps=self.eps) * self.weight  # one kernel, in fp32 inside


def rotary_table(
    positions: Tensor, head_dim: int, base: float, *, fp32_positions: int | None = None, rounded: bool = True
) -> Tensor:
    """Return cos + i sin of the rotary angles: integer positions `[…]` → complex64 `[…, head_dim / 2]`.

    Args:
        rounded: whether values are rounded to bf16. The S2 releases were trained with bf16 tables, and their outputs
            drift without it.
        fp32_positions: below this position angles are fp32 products, as in a release's table; from it on they are fp64
            products, because fp32 would be less precise than the rounded table. None: fp32 everywhere.
    """
    device = positions.device
    frequencies = 1.0 / base ** (torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim)
    positions = positions[..., None]
    angles = positions.float() * frequencies
    if fp32_positions is not None:
        beyond = torch.remainder(positions.double() * frequencies.double(), 2 * math.pi).float()
        angles = torch.where(positions < fp32_positions, angles, beyond)
    table = torch.stack((angles.cos(), angles.sin()), dim=-1)
    return torch.view_as_complex(table.to(torch.bfloat16).float() if rounded else table)


def rotate(x: Tensor, rope: Tensor) -> Tensor:
    """Rotate the pairs (x0, x1), (x2, x3), … of x `[B, T, H, d]` by rope `[…, T, 1, d / 2]`, in fp32."""
    pairs = torch.view_as_complex(torch.unflatten(x if x.dtype == torch.float32 else x.float(), -1, (-1, 2)))
    rotated = torch.view_as_real(pairs * rope).flatten(-2)
    return rotated if x.dtype == torch.float32 else rotated.to(x.dtype)


class SelfAttention(nn.Module):
    """Projections of grouped-query self-attention; subclasses implement the attention.

    `wqkv` is fused: all queries, then keys, then values. `q_norm` and `k_norm` are None if queries and keys are not
    normed.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        *,
        linear: type[nn.Linear] = nn.Linear,
        qkv_bias: bool = False,
        output_bias: bool = False,
    ) -> None:
        """kv_heads: heads of keys and values, of which `heads` is a multiple."""
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.wqkv = linear(dim, (heads + 2 * kv_heads) * head_dim, bias=qkv_bias)
        self.wo = linear(heads * head_dim, dim, bias=output_bias)
        self.q_norm: RMSNorm | None = None
        self.k_norm: RMSNorm | None = None

    def project(self, x: Tensor, rope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project x `[B, T, D]` → queries `[B, H, T, d]`, keys and values `[B, H_kv, T, d]`, normed and rotated."""
        fused = self.wqkv(x).unflatten(-1, (self.heads + 2 * self.kv_heads, self.head_dim))
        qk, v = torch.split(fused, [self.heads + self.kv_heads, self.kv_heads], dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = torch.split(qk, [self.heads, self.kv_heads], dim=2)
            qk = torch.cat((self.q_norm(q), self.k_norm(k)), dim=2)
        q, k = torch.split(rotate(qk, rope).transpose(1, 2), [self.heads, self.kv_heads], dim=1)
        return q, k, v.transpose(1, 2)

    def output(self, attended: Tensor) -> Tensor:
        """Project attended values `[B, H, T, d]` → `[B, T, D]`."""
        out: Tensor = self.wo(attended.transpose(1, 2).flatten(2))
        return out


def silu(x: Tensor) -> Tensor:
    """Apply SiLU to x `[..., D]`. On a CPU, each row has the same result in any batch.

    PyTorch splits 32,768 elements and more between threads, and rounds the last elements of each thread's share
    differently. Here rows are computed in parts small enough for one thread.
    """
    rows = max(1, (_SHARED_BY_THREADS - 1) // x.shape[-1])
    shared = x.device.type == "cpu" and x.numel() >= _SHARED_BY_THREADS and torch.get_num_threads() > 1
    if x.requires_grad or not shared:  # training needs no batch invariance
        return F.silu(x)
    return torch.cat([F.silu(part) for part in torch.split(x.flatten(0, -2), rows)]).view(x.shape)


class FeedForward(nn.Module):
    """SwiGLU. `w13` is None until `merge` replaces w1 and w3 by it."""

    def __init__(self, dim: int, hidden: int, *, linear: type[nn.Linear] = nn.Linear) -> None:
        super().__init__()
        self.w1 = linear(dim, hidden, bias=False)
        self.w3 = linear(dim, hidden, bias=False)
        self.w2 = linear(hidden, dim, bias=False)
        self.w13: nn.Linear | None = None

    @property
    def gates(self) -> tuple[nn.Linear, ...]:
        """w1 and w3, or w13."""
        return (self.w1, self.w3) if self.w13 is None else (self.w13,)

    def merge(self) -> None:
        """Stack w1 and w3 into one layer `w13`, in place and idempotent. Not for quantized weights."""
        if self.w13 is not None:
            return
        linear, (hidden, dim) = type(self.w1), self.w1.weight.shape
        with torch.device("meta"):
            self.w13 = linear(dim, 2 * hidden, bias=False)
        self.w13.weight = nn.Parameter(torch.cat((self.w1.weight, self.w3.weight)), requires_grad=False)
        del self.w1, self.w3

    def forward(self, x: Tensor) -> Tensor:
        if self.w13 is not None:
            first, second = self.w13(x).chunk(2, dim=-1)
        else:
            first, second = self.w1(x), self.w3(x)
        out: Tensor = self.w2(silu(first) * second)
        return out
