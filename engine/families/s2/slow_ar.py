"""The Slow AR: one semantic token per frame, given the conversation so far (Fish Audio S2's `text_model`)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.families.s2.config import DualARConfig
from engine.families.s2.sampling import PlainRules, RepetitionAwareRules
from engine.models.stacks import SlowStack
from engine.models.transfer import to_device
from engine.models.transformer import embedding, linear


class SlowAR(SlowStack):
    """Decoder-only transformer over columns of one token and K codebook values.

    Columns are `[B, K + 1, T]` integers: row 0 is a text or semantic token id, rows 1…K are the codes of that frame,
    used only if row 0 is a semantic token. Only semantic tokens and the end token can be sampled, so logits are
    `[…, S + 1]`: the S semantic tokens in order, then the end token.

    host_rows: the first rows of the embedding table, which are only looked up in prompts and stay in host memory:
        `host_embeddings` `[host_rows, D]`. The tables on the device begin after them.
    """

    def __init__(self, config: DualARConfig, end_id: int, host_rows: int = 0) -> None:
        super().__init__(
            config.slow,
            num_codebooks=config.num_codebooks,
            semantic_codebook_size=config.semantic_codebook_size,
            normed_hidden=config.normed_fast_input,
            rules=RepetitionAwareRules() if config.redraws_repetition else PlainRules(),
        )
        self.dual, self.end_id, self.host_rows = config, end_id, host_rows
        self.host_embeddings: Tensor | None = None
        self.embeddings = embedding(config.slow.vocab_size - host_rows, config.slow.dim)
        self.codebook_embeddings = embedding(config.num_codebooks * config.fast.vocab_size, config.slow.dim)
        if not config.slow.tie_word_embeddings:
            self.output = nn.Linear(config.slow.dim, config.slow.vocab_size - host_rows, bias=False)

    def embed(self, columns: Tensor, embedding: Tensor | None = None) -> Tensor:
        """As in `SlowStack`; columns with tokens before `host_rows` get other embeddings, so not for whole prompts."""
        tokens, codes = columns[:, 0], columns[:, 1:]
        text = self.embeddings((tokens - self.host_rows).clamp(min=0) if self.host_rows else tokens)
        is_frame = (tokens >= self.dual.semantic_start_id) & (tokens <= self.dual.semantic_end_id)
        size = self.dual.fast.vocab_size
        offsets = torch.arange(0, codes.shape[1] * size, size, device=codes.device)
        frames = text + self.codebook_embeddings(codes + offsets[:, None]).sum(1)
        if self.dual.scaled_codebook_embeddings:
            frames = frames / math.sqrt(self.dual.num_codebooks + 1)
        return torch.where(is_frame[..., None], frames, text)

    def embed_prompt(self, columns: Tensor, embedding: Tensor | None = None) -> Tensor:
        embedded = super().embed_prompt(columns, embedding)
        if self.host_embeddings is None:
            return embedded
        is_text = columns[:, 0] < self.host_rows
        text = F.embedding(columns[:, 0].clamp(max=self.host_rows - 1), self.host_embeddings)
        return torch.where(to_device(is_text, embedded.device)[..., None], to_device(text, embedded.device), embedded)

    def logits(self, normed: Tensor) -> Tensor:
        head = self.embeddings.weight if self.config.tie_word_embeddings else self.output.weight
        first, end = self.dual.semantic_start_id - self.host_rows, self.end_id - self.host_rows
        semantic = linear(normed, head[first : first + self.semantic_codebook_size])
        return torch.cat((semantic, linear(normed, head[end : end + 1])), dim=-1)

    def next_column(self, codes: Tensor) -> Tensor:
        return torch.cat((codes[:, :1] + self.dual.semantic_start_id, codes), dim=1)
