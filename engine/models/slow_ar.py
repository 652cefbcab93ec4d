"""The Slow AR: one semantic token per frame, over the conversation so far (Fish Audio S2's `text_model`)."""

import math

import torch
from torch import Tensor, nn

from engine.config import DualARConfig
from engine.models.kv_cache import KVView
from engine.models.layers import Transformer, embedding, linear


class SlowAR(Transformer):
    """Decoder-only transformer over columns of one token and K codebook values.

    Columns are `[B, K + 1, T]` integers: row 0 is a text or semantic token id, rows 1…K are the codes of that frame,
    read only where row 0 is a semantic token. Only semantic tokens and the end token can be sampled, so logits are
    `[…, S + 1]`: the S semantic tokens in order, then the end token.
    """

    def __init__(self, config: DualARConfig, end_id: int) -> None:
        super().__init__(config.slow)
        self.dual, self.end_id = config, end_id
        self.embeddings = embedding(config.slow.vocab_size, config.slow.dim)
        self.codebook_embeddings = embedding(config.num_codebooks * config.fast.vocab_size, config.slow.dim)
        if not config.slow.tie_word_embeddings:
            self.output = nn.Linear(config.slow.dim, config.slow.vocab_size, bias=False)

    def embed(self, columns: Tensor) -> Tensor:
        """Embed columns `[B, K + 1, T]` → `[B, T, D]`."""
        tokens, codes = columns[:, 0], columns[:, 1:]
        text = self.embeddings(tokens)
        is_frame = (tokens >= self.dual.semantic_start_id) & (tokens <= self.dual.semantic_end_id)
        size = self.dual.fast.vocab_size
        offsets = torch.arange(0, codes.shape[1] * size, size, device=codes.device)
        frames = text + self.codebook_embeddings(codes + offsets[:, None]).sum(1)
        if self.dual.scaled_codebook_embeddings:
            frames = frames / math.sqrt(self.dual.num_codebooks + 1)
        return torch.where(is_frame[..., None], frames, text)

    def forward(self, columns: Tensor, view: KVView | None = None) -> tuple[Tensor, Tensor]:
        """Run columns `[B, K + 1, T]` → (normed output, vectors for the Fast AR), both `[B, T, D]`."""
        x = self.run(self.embed(columns), view)
        normed = self.norm(x)
        return normed, normed if self.dual.normed_fast_input else x

    def logits(self, normed: Tensor) -> Tensor:
        """Multiply normed output `[…, D]` by the rows of the head that can be sampled → `[…, S + 1]`."""
        head = self.embeddings.weight if self.config.tie_word_embeddings else self.output.weight
        semantic = linear(normed, head[self.dual.semantic_start_id : self.dual.semantic_end_id + 1])
        return torch.cat((semantic, linear(normed, head[self.end_id : self.end_id + 1])), dim=-1)
