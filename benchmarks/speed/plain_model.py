"""A plain implementation of a release's two transformers: the model of `reference_baseline`.

Of the engine's modules it uses only the weights and the embedding lookup.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.families.s2.dual_ar import DualAR
from engine.families.s2.sampling import REPETITION_WINDOW
from engine.layers import RMSNorm
from engine.models.sampling import REPETITION_TEMPERATURE, REPETITION_TOP_P, SamplingOptions
from engine.models.transformer import CachedAttention, Transformer


class PlainStack:
    """A transformer with a KV cache of fixed length. Every pass attends to the whole cache."""

    def __init__(self, stack: Transformer, positions: int) -> None:
        config, weight = stack.config, stack.norm.weight
        self._blocks: list[Any] = list(stack.layers)
        self.positions = positions
        sizes = (config.n_layer, 2, 1, config.n_local_heads, positions, config.head_dim)
        self._cache = torch.zeros(sizes, dtype=weight.dtype, device=weight.device)
        self._repeats = config.n_head // config.n_local_heads
        frequencies = 1.0 / config.rope_base ** (torch.arange(0, config.head_dim, 2).float() / config.head_dim)
        angles = torch.arange(positions).float()[:, None] * frequencies
        # In bf16 for all weight dtypes, because the release was trained with a rounded table.
        self._rope = torch.stack((angles.cos(), angles.sin()), dim=-1).bfloat16().to(weight.device)

    def run(self, x: Tensor, start: int) -> Tensor:
        """Run x `[1, T, D]` at the positions from `start`. Return the last block's output `[1, T, D]`, not normed."""
        places = torch.arange(start, start + x.shape[1], device=x.device)
        seen = torch.arange(self.positions, device=x.device) <= places[:, None]
        for layer, block in enumerate(self._blocks):
            x = x + self._attention(block.attention, norm(x, block.attention_norm), places, seen, layer)
            hidden, feed = norm(x, block.ffn_norm), block.feed_forward
            x = x + feed.w2(F.silu(feed.w1(hidden)) * feed.w3(hidden))
        return x

    def _attention(self, attention: CachedAttention, x: Tensor, places: Tensor, seen: Tensor, layer: int) -> Tensor:
        """Attend from x `[1, T, D]` at places `[T]`, with mask seen bool `[T, positions]`. Return `[1, T, D]`."""
        heads, groups, width = attention.heads, attention.kv_heads, attention.head_dim
        fused = attention.wqkv(x).view(1, x.shape[1], heads + 2 * groups, width)
        q, k, v = fused.split((heads, groups, groups), dim=2)
        if attention.q_norm is not None and attention.k_norm is not None:
            q, k = norm(q, attention.q_norm), norm(k, attention.k_norm)
        q, k, v = (part.transpose(1, 2) for part in (self._turned(q, places), self._turned(k, places), v))
        keys, values = self._cache[layer]
        keys[:, :, places], values[:, :, places] = k, v
        wide_keys, wide_values = (kept.repeat_interleave(self._repeats, dim=1) for kept in (keys, values))
        found = F.scaled_dot_product_attention(q, wide_keys, wide_values, attn_mask=seen)
        out: Tensor = attention.wo(found.transpose(1, 2).flatten(2))
        return out

    def _turned(self, x: Tensor, places: Tensor) -> Tensor:
        """Rotate the pairs (x0, x1), (x2, x3), … of x `[1, T, H, d]` in fp32 (rotary embedding)."""
        even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = self._rope[places, None].float().unbind(-1)
        return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2).to(x.dtype)


def norm(x: Tensor, of: RMSNorm) -> Tensor:
    """Apply RMSNorm to x `[…, D]`: normalise in fp32, cast back and scale."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + of.eps)).to(x.dtype) * of.weight


def draw(logits: Tensor, options: SamplingOptions, generator: torch.Generator) -> int:
    """Sample a value from all logits `[V]` as the release does; greedy at temperature 0."""
    if options.temperature == 0:
        return int(logits.argmax().item())
    noise = torch.empty_like(logits, dtype=torch.float32).exponential_(generator=generator)
    return int((probabilities(logits, options) / noise).argmax().item())


def probabilities(logits: Tensor, options: SamplingOptions) -> Tensor:
    """Convert logits `[V]` to probabilities fp32 `[V]` after top_p and top_k filtering."""
    ranked, order = logits.float().sort(descending=True)
    drop = ranked.softmax(-1).cumsum(-1) > options.top_p
    drop[options.top_k :] = True
    drop[0] = False
    kept = logits.float().masked_fill(torch.empty_like(drop).scatter(0, order, drop), -torch.inf)
    return (kept / max(options.temperature, 1e-5)).softmax(-1)


class PlainModel:
    """Both transformers, generating frame by frame, one request at a time.

    residual_size: entries of a residual codebook.
    """

    def __init__(self, model: DualAR, residual_size: int) -> None:
        self._model, self._config, self._size = model, model.config, residual_size
        self._slow = PlainStack(model.slow, model.config.slow.max_seq_len)
        self._fast = PlainStack(model.fast, model.config.num_codebooks)
        self.device = model.slow.norm.weight.device

    @property
    def positions(self) -> int:
        """Most positions of a prompt and its speech."""
        return self._slow.positions

    def frames(
        self, prompt: Tensor, budget: int, options: SamplingOptions, generator: torch.Generator
    ) -> Iterator[list[int]]:
        """Yield the K codes of each frame after the prompt `[K + 1, P]`, until the turn ends or for `budget` frames."""
        columns, start, recent = prompt.to(self.device), 0, list[int]()
        free = SamplingOptions(REPETITION_TEMPERATURE, REPETITION_TOP_P, options.top_k)
        for _ in range(budget):
            logits, hidden = self._slow_step(columns, start)
            token = draw(logits, options, generator)
            if token in recent[-REPETITION_WINDOW:] and options.temperature > 0:
                token = draw(logits, free, generator)
            if token == self._model.tokenizer.end_id:
                return
            recent.append(token)
            codes = self._frame(hidden, token - self._config.semantic_start_id, options, generator)
            yield codes
            start += columns.shape[1]
            columns = torch.tensor([[token], *([code] for code in codes)], device=self.device)

    @torch.inference_mode()
    def _slow_step(self, columns: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Run columns `[K + 1, T]` at `start`. Return logits of the whole vocabulary `[V]` and the hidden state for
        the Fast AR `[D]`."""
        slow = self._model.slow
        last = self._slow.run(slow.embed(columns[None]), start)[0, -1]
        normed = norm(last, slow.norm)
        head = slow.embeddings if slow.config.tie_word_embeddings else slow.output
        logits = F.linear(normed, head.weight)
        never = torch.ones(len(logits), dtype=torch.bool, device=self.device)
        never[self._config.semantic_start_id : self._config.semantic_end_id + 1] = False
        never[self._model.tokenizer.end_id] = False
        return logits.masked_fill(never, -torch.inf), normed if self._config.normed_fast_input else last

    @torch.inference_mode()
    def _frame(
        self, hidden: Tensor, semantic_code: int, options: SamplingOptions, generator: torch.Generator
    ) -> list[int]:
        """Complete a frame from its semantic code. Return all K codes."""
        fast, codes = self._model.fast, [semantic_code]
        self._fast.run(fast.fast_project_in(hidden)[None, None], 0)
        for position in range(1, fast.num_codebooks):
            code = torch.tensor([[codes[-1]]], device=self.device)
            out = self._fast.run(fast.embeddings(code), position)[0, -1]
            logits = fast.output(norm(out, fast.norm))
            logits[self._size :] = -torch.inf
            codes.append(draw(logits, options, generator))
        return codes
