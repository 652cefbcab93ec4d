"""Talker and code predictor: Qwen3-TTS's slow and fast stack.

Source: the package qwen-tts 0.1.1. B batch, T positions, D width, K codebooks, S semantic tokens.
"""

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.families.qwen3_tts.config import GenerationDefaults, TalkerConfig
from engine.families.qwen3_tts.sampling import RepetitionPenaltyRules
from engine.models.stacks import FastStack, SlowStack
from engine.models.transfer import to_device
from engine.models.transformer import BatchInvariantLinear, embedding

NOTHING = -1
"""In a column: this row has no token."""
SPEAKER = -2
"""In the second row of a column: the column takes the prompt's embedding, of which the rows below hold a digest."""


class TextProjection(nn.Module):
    """Projection of text embeddings to the talker's width."""

    def __init__(self, text_dim: int, dim: int) -> None:
        super().__init__()
        self.linear_fc1 = BatchInvariantLinear(text_dim, text_dim)
        self.linear_fc2 = BatchInvariantLinear(text_dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear_fc2(F.silu(self.linear_fc1(x)))
        return out


class Talker(SlowStack):
    """The transformer over time. Text and speech run in parallel: the embedding of a column is that of a text token
    plus that of a codec token or frame.

    Columns are `[B, K + 1, T]`: row 0 is a text token, row 1 a codec token or the semantic code of a frame, the other
    rows are the residual codes of that frame, used only if row 1 is a semantic code.

    text_on_host: whether the table of text, which is only looked up in prompts, stays in host memory:
        `host_embeddings`. The table on the device is then the one row that frames need, that of padding.
    """

    def __init__(self, config: TalkerConfig, defaults: GenerationDefaults, text_on_host: bool = False) -> None:
        super().__init__(
            config.slow,
            num_codebooks=config.num_codebooks,
            semantic_codebook_size=config.semantic_codebook_size,
            normed_hidden=True,
            rules=RepetitionPenaltyRules(
                config.semantic_codebook_size, defaults.repetition_penalty, defaults.predictor
            ),
        )
        dim = config.slow.dim
        self.residual_size, self._text_pad = config.fast.vocab_size, config.control_tokens.text_pad
        self.text_on_host = text_on_host
        self.host_embeddings: Tensor | None = None
        self.text_embeddings = embedding(1 if text_on_host else config.text_vocab_size, config.text_dim)
        self.text_projection = TextProjection(config.text_dim, dim)
        self.codec_embeddings = embedding(config.slow.vocab_size, dim)
        self.residual_embeddings = embedding((config.num_codebooks - 1) * self.residual_size, dim)
        self.head = BatchInvariantLinear(dim, config.semantic_codebook_size + 1, bias=False)

    def embed(self, columns: Tensor, embedding: Tensor | None = None) -> Tensor:
        """As in `SlowStack`; with `text_on_host` all text is embedded as padding, so not for whole prompts."""
        text = columns[:, 0]
        tokens = torch.zeros_like(text) if self.text_on_host else text.clamp(min=0)
        return self._embed(columns, self.text_embeddings(tokens), embedding)

    def embed_prompt(self, columns: Tensor, embedding: Tensor | None = None) -> Tensor:
        if self.host_embeddings is None:
            return super().embed_prompt(columns, embedding)
        text, device = F.embedding(columns[:, 0].clamp(min=0), self.host_embeddings), self.norm.weight.device
        embedding = None if embedding is None else to_device(embedding, device)
        return self._embed(to_device(columns, device), to_device(text, device), embedding)

    def _embed(self, columns: Tensor, embedded_text: Tensor, embedding: Tensor | None) -> Tensor:
        text, codec, residual = columns[:, 0], columns[:, 1], columns[:, 2:]
        said = self.text_projection(embedded_text)
        coded = self.codec_embeddings(codec.clamp(min=0))
        is_frame = (codec >= 0) & (codec < self.semantic_codebook_size)
        offsets = torch.arange(0, residual.shape[1] * self.residual_size, self.residual_size, device=residual.device)
        below = torch.where(is_frame[:, None], residual, 0) + offsets[:, None]
        x = torch.where((codec >= 0)[..., None], coded, 0)
        x = x + torch.where(is_frame[..., None], self.residual_embeddings(below).sum(1), 0)
        x = x + torch.where((text >= 0)[..., None], said, 0)
        if embedding is not None:
            x = torch.where((codec == SPEAKER)[..., None], x + embedding.to(x), x)
        return x

    def logits(self, normed: Tensor) -> Tensor:
        out: Tensor = self.head(normed)
        return out

    def next_column(self, codes: Tensor) -> Tensor:
        return F.pad(codes, (1, 0), value=self._text_pad)


class CodePredictor(FastStack):
    """A small transformer over the codebooks of one frame. Position 0 takes the talker's hidden state, position i ≥ 1
    the value of codebook i - 1, embedded with the talker's tables; the output at position i predicts codebook i. Each
    codebook has its own head."""

    def __init__(self, config: TalkerConfig, talker: Talker) -> None:
        super().__init__(config.fast)
        self.num_codebooks = config.num_codebooks
        size, dim = config.fast.vocab_size, config.fast.dim
        self.heads = nn.ModuleList(BatchInvariantLinear(dim, size, bias=False) for _ in range(self.num_codebooks - 1))
        self.project: nn.Module = (
            nn.Identity() if config.slow.dim == dim else BatchInvariantLinear(config.slow.dim, dim)
        )
        self._talker = (talker,)  # a tuple, so that the talker is not registered as a submodule

    def logits(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """Compute the logits of all positions at once: hidden `[N, D]`, codes `[N, K]` → `[N, K - 1, size]`."""
        values = [self._embed(codes[:, i], i) for i in range(self.num_codebooks - 1)]
        inputs = self.project(torch.stack([hidden, *values], dim=1))
        normed = self.norm(self.run(inputs))[:, 1:]
        return torch.stack([head(x) for head, x in zip(self.heads, torch.unbind(normed, 1), strict=True)], dim=1)

    def generate(
        self,
        hidden: Tensor,
        semantic_codes: Tensor,
        sample: Callable[[Tensor, int], Tensor],
        size: int | None = None,
    ) -> Tensor:
        view = self.new_view(len(hidden))
        # The inputs of the first two positions are known, so one pass handles both: K - 1 passes instead of K.
        x = torch.stack((hidden, self._embed(semantic_codes, 0)), dim=1)
        codes = [semantic_codes]
        for codebook, module in enumerate(self.heads, start=1):
            head = cast(BatchInvariantLinear, module)
            out = self.run(self.project(x), view)
            last = out if codebook > 1 else out[:, 1:]
            whole = size in (None, head.out_features) and self.head_backend is None
            logits = head(self.norm(last)) if whole else self.multiply_normed(last, head.weight[:size])
            codes.append(sample(logits.squeeze(1), codebook))
            if codebook < self.num_codebooks - 1:
                x = self._embed(codes[-1], codebook).unsqueeze(1)
        return torch.stack(codes, dim=1)

    def _embed(self, codes: Tensor, codebook: int) -> Tensor:
        """Embed codes `[B]` of a codebook with the talker's table → `[B, D]`."""
        (talker,) = self._talker
        if codebook == 0:
            semantic: Tensor = talker.codec_embeddings(codes)
            return semantic
        residual: Tensor = talker.residual_embeddings(codes + (codebook - 1) * talker.residual_size)
        return residual
