"""The Fast AR: the residual codes of one frame, codebook by codebook (Fish Audio S2's `audio_decoder`)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.families.s2.config import DualARConfig
from engine.models.stacks import FastStack
from engine.models.transformer import BatchInvariantLinear, embedding


class FastAR(FastStack):
    """A small transformer over the codebooks of one frame.

    Position 0 takes the Slow AR's hidden state, position i ≥ 1 the value of codebook i - 1; the output at position i
    predicts codebook i. The KV cache lasts for one frame.
    """

    def __init__(self, config: DualARConfig) -> None:
        super().__init__(config.fast)
        self.num_codebooks = config.num_codebooks
        self.embeddings = embedding(config.fast.vocab_size, config.fast.dim)
        self.output = nn.Linear(config.fast.dim, config.fast.vocab_size, bias=False)
        self.fast_project_in: nn.Module = (
            nn.Identity()
            if config.slow.dim == config.fast.dim
            else BatchInvariantLinear(config.slow.dim, config.fast.dim)
        )

    def logits(self, hidden: Tensor, codes: Tensor, size: int | None = None) -> Tensor:
        """Compute the logits of all positions at once, for teacher forcing.

        Hidden states `[N, D]` from the Slow AR, codes `[N, K]` → logits of codebooks 1…K-1, `[N, K - 1, size]`.
        """
        inputs = torch.cat((self.fast_project_in(hidden)[:, None], self.embeddings(codes[:, :-1])), dim=1)
        return F.linear(self.norm(self.run(inputs))[:, 1:], self.output.weight[:size])

    def generate(
        self,
        hidden: Tensor,
        semantic_codes: Tensor,
        sample: Callable[[Tensor, int], Tensor],
        size: int | None = None,
    ) -> Tensor:
        head = self.output.weight[:size]
        view = self.new_view(len(hidden))
        # The inputs of the first two positions are known, so one pass handles both: K - 1 passes instead of K.
        x = torch.cat((self.fast_project_in(hidden[:, None]), self.embeddings(semantic_codes[:, None])), dim=1)
        codes = [semantic_codes]
        for codebook in range(1, self.num_codebooks):
            out = self.run(x, view)
            logits = self.multiply_normed(out if codebook > 1 else out[:, 1:], head)
            codes.append(sample(logits.squeeze(1), codebook))
            x = self.embeddings(codes[-1])[:, None]
        return torch.stack(codes, dim=1)
