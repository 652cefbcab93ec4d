"""The two transformers that every family has, for speech generated frame by frame.

`SlowStack` runs over time and draws one semantic token a frame; `FastStack` runs over codebooks and draws the residual
codes of that frame. Shapes: B batch, T positions, D width, K codebooks, S semantic tokens.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor

from engine.models.config import TransformerConfig
from engine.models.kv_cache import FrameView, GrowingView, KVView
from engine.models.sampling import SamplingBackend, SamplingRules
from engine.models.transfer import to_device
from engine.models.transformer import Transformer


class SlowStack(Transformer, ABC):
    """The transformer over time, with the embedding of its input columns and its sampling rules.

    num_codebooks: K, the semantic codebook included. semantic_codebook_size: S. rules: how tokens are drawn.
    normed_hidden: whether the fast stack takes the normed output.
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        num_codebooks: int,
        semantic_codebook_size: int,
        normed_hidden: bool,
        rules: SamplingRules,
    ) -> None:
        super().__init__(config)
        self.num_codebooks, self.semantic_codebook_size = num_codebooks, semantic_codebook_size
        self.normed_hidden, self.rules = normed_hidden, rules
        self.sampling_backend: SamplingBackend | None = None  # set by `use_fused_sampling` or `use_native_sampling`

    @property
    def column_rows(self) -> int:
        """Rows of an input column: a token and K codes."""
        return self.num_codebooks + 1

    @abstractmethod
    def embed(self, columns: Tensor, embedding: Tensor | None = None) -> Tensor:
        """Embed columns `[B, rows, T]` → `[B, T, D]`. embedding: `[D]`, that of the prompt."""

    def embed_prompt(self, columns: Tensor, embedding: Tensor | None = None) -> Tensor:
        """Embed columns of a prompt, in host memory, as `embed` does → `[B, T, D]` on the model's device."""
        device = self.norm.weight.device
        return self.embed(to_device(columns, device), None if embedding is None else to_device(embedding, device))

    @abstractmethod
    def logits(self, normed: Tensor) -> Tensor:
        """Multiply normed output `[…, D]` by the rows of the head that can be drawn → `[…, S + 1]`, the end last."""

    @abstractmethod
    def next_column(self, codes: Tensor) -> Tensor:
        """Return the column `[B, rows]` of a frame of codes `[B, K]`."""

    def forward(self, columns: Tensor, view: KVView | None = None) -> tuple[Tensor, Tensor]:
        """Run columns `[B, rows, T]` → (normed output, hidden states for the fast stack), both `[B, T, D]`."""
        x = self.run(self.embed(columns), view)
        normed = self.norm(x)
        return normed, normed if self.normed_hidden else x


class FastStack(Transformer, ABC):
    """The transformer over the codebooks of one frame. Its keys and values live for one frame.

    num_codebooks: K.
    """

    num_codebooks: int

    def new_view(self, rows: int) -> KVView:
        """Create a view of the positions of one frame, for `rows` rows."""
        if self.step_backend is None:
            return GrowingView(self.config.n_layer)
        return FrameView(self.new_cache(rows, self.num_codebooks))

    @abstractmethod
    def generate(
        self,
        hidden: Tensor,
        semantic_codes: Tensor,
        sample: Callable[[Tensor, int], Tensor],
        size: int | None = None,
    ) -> Tensor:
        """Generate the codes of one frame.

        Args:
            hidden: from the slow stack, `[B, D]`.
            semantic_codes: codebook 0, `[B]`.
            sample: takes logits `[B, size]` and their codebook, 1…K-1; returns values `[B]`.
            size: entries of a residual codebook; further rows of the head are not multiplied. Default: all.

        Returns: the frame's codes `[B, K]`.
        """
