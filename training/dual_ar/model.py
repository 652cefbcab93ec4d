"""The dual AR in training: the engine's stacks with teacher forcing, and its weights under the release's names.

Shapes: B batch, K codebooks, L positions, N targets.
"""

import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.families.s2.config import DualARConfig
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.prompt import PromptBuilder
from engine.families.s2.slow_ar import SlowAR
from engine.models.config import TransformerConfig
from engine.models.transformer import TransformerBlock
from engine.text.tokenizer import Tokenizer
from training.dual_ar.conversations import IGNORED, Batch, ConversationBuilder
from training.dual_ar.encode import CodeFormat
from training.tokenizer import save_tokenizer
from training.work import TrainingError, replaced

ALIGNMENT_LAYER, ALIGNMENT_HEAD = 2, 0  # layer and query head that the guide loss trains to follow the phones


def bundled_config(vocab_size: int, semantic_start: int, semantic_size: int, num_codebooks: int) -> DualARConfig:
    """Return the config of the bundled model: S2-Pro's, with other sizes."""
    slow = TransformerConfig(
        vocab_size=vocab_size,
        n_layer=6,
        n_head=4,
        n_local_heads=2,
        head_dim=64,
        dim=256,
        intermediate_size=704,
        max_seq_len=4096,
        rope_base=10_000.0,
        norm_eps=1e-6,
        attention_qk_norm=True,
    )
    fast = TransformerConfig(
        vocab_size=semantic_size,
        n_layer=3,
        n_head=4,
        n_local_heads=2,
        head_dim=48,
        dim=192,
        intermediate_size=512,
        max_seq_len=num_codebooks + 1,
        rope_base=10_000.0,
        norm_eps=1e-6,
        tie_word_embeddings=False,
    )
    return DualARConfig(
        slow=slow,
        fast=fast,
        num_codebooks=num_codebooks,
        semantic_start_id=semantic_start,
        semantic_end_id=semantic_start + semantic_size - 1,
        normed_fast_input=True,
        scaled_codebook_embeddings=True,
    )


def initialise(stack: nn.Module, layers: int) -> None:
    for name, weight in stack.named_parameters():
        if weight.dim() == 2:
            nn.init.normal_(weight, std=0.05 if "embeddings" in name else 0.02)
            if name.endswith(("wo.weight", "w2.weight")):
                weight.data /= math.sqrt(2 * layers)


@dataclass(frozen=True)
class TeacherForced:
    """What the dual AR computes for the targets of a batch, given all columns before them.

    Attributes:
        tokens: the targets, semantic index or the semantic size for the end `[N]`.
        logits: of the targets, fp32 `[N, semantic size + 1]`.
        is_frame: which targets are frames, bool `[N]`; the others are ends of speech.
        hidden: outputs of the Slow AR that the Fast AR continues, for these frames `[F, D]`.
        codes: their codes, uncorrupted `[F, K]`.
        guided: inputs of the alignment layer's attention `[B, L, D]`.
    """

    tokens: Tensor
    logits: Tensor
    is_frame: Tensor
    hidden: Tensor
    codes: Tensor
    guided: Tensor


class DualAR(nn.Module):
    """The Slow and the Fast AR, initialised for training."""

    def __init__(
        self,
        config: DualARConfig,
        end_id: int,
        residual_size: int,
        alignment_layer: int = ALIGNMENT_LAYER,
        alignment_head: int = ALIGNMENT_HEAD,
    ) -> None:
        super().__init__()
        self.slow, self.fast = SlowAR(config, end_id), FastAR(config)
        initialise(self.slow, config.slow.n_layer)
        initialise(self.fast, config.fast.n_layer)
        self.config, self.residual_size = config, residual_size
        self.alignment_layer, self.alignment_head = alignment_layer, alignment_head

    def drop_out(self, share: float) -> None:
        """Add dropout after every attention and feed-forward module; the engine's layers have none."""

        def hook(module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
            return F.dropout(output, share, module.training)

        for block in (*self.slow.layers, *self.fast.layers):
            block.attention.register_forward_hook(hook)
            block.feed_forward.register_forward_hook(hook)

    def teacher_force(self, batch: Batch, columns: Tensor | None = None) -> TeacherForced:
        """Run the Slow AR with teacher forcing: over a batch, or over corrupted `columns` `[B, K + 1, L]` with the
        targets of the batch."""
        columns = batch.columns if columns is None else columns
        # The Slow AR's forward pass, inlined to keep the input of the alignment layer.
        x, rope = self.slow.embed(columns), self._rope(columns)
        for i, block in enumerate(self._blocks()):
            if i == self.alignment_layer:
                guided = block.attention_norm(x)
            x = block(x, rope, None, i)
        wanted = batch.targets != IGNORED
        hidden, tokens = self.slow.norm(x)[wanted], batch.targets[wanted]
        is_frame = tokens < self.config.semantic_codebook_size
        codes = torch.roll(batch.columns, -1, dims=2)[:, 1:].transpose(1, 2)[wanted][is_frame]
        return TeacherForced(tokens, self.slow.logits(hidden).float(), is_frame, hidden[is_frame], codes, guided)

    def residual_logits(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """Return fp32 logits of the residual codes `[F, K - 1, size]`, given `hidden` and `codes` of targets."""
        return self.fast.logits(hidden, codes, self.residual_size).float()

    def guide_loss(self, guided: Tensor, guide: Tensor) -> Tensor:
        """Return the capped negative log of the alignment head's attention mass within one phone of the spoken one.

        guided: of `TeacherForced`. guide: of the batch, `[B, L]`.
        """
        attention = self._blocks()[self.alignment_layer].attention
        q, k = attention.project_head(guided, self._rope(guide), self.alignment_head)
        scores = (q @ k.transpose(1, 2)).float() / math.sqrt(q.shape[-1])
        position = torch.arange(scores.shape[1], device=scores.device)
        scores = scores.masked_fill(position > position[:, None], -torch.inf)
        at = guide >= 0
        logs = scores[at].log_softmax(-1)
        centre = guide[at][:, None]
        window = (centre + torch.tensor([-1, 0, 1], device=centre.device)).clamp(0, scores.shape[1] - 1)
        mass: Tensor = logs.gather(-1, window).logsumexp(-1)
        return -mass.clamp(min=-12).mean()

    def _rope(self, columns: Tensor) -> Tensor:
        return self.slow.rope[: columns.shape[-1], None]

    def _blocks(self) -> list[TransformerBlock]:
        return [cast(TransformerBlock, block) for block in self.slow.layers]


def new_model(folder: Path, codes: CodeFormat) -> tuple[DualAR, ConversationBuilder]:
    """Create a dual AR for codes and the builder of its examples; write its tokenizer to `folder`."""
    vocabulary = save_tokenizer(folder, codes.semantic_size).get_vocab_size()
    tokenizer = Tokenizer.load(folder)
    tokenizer.lexicon = None  # a release has one, but the texts of a corpus are phones already
    start, end = tokenizer.semantic_start_id, tokenizer.end_id
    config = bundled_config(vocabulary, start, codes.semantic_size, codes.num_codebooks)
    builder = ConversationBuilder(PromptBuilder(tokenizer, config.num_codebooks), start, codes.semantic_size, end)
    return DualAR(config, end, codes.residual_size), builder


def release_name(name: str) -> str:
    """Return the name of a `DualAR` tensor in a release, which is S2-Pro's name."""
    stack, _, rest = name.partition(".")
    if rest.startswith("codebook_embeddings."):
        return f"audio_decoder.{rest}"
    return f"text_model.model.{rest}" if stack == "slow" else f"audio_decoder.{rest.removeprefix('fast_')}"


def release_tensors(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the trainer's tensors under S2-Pro's names, in fp16."""
    return {release_name(name): tensor.to(torch.float16).contiguous() for name, tensor in state.items()}


def save_release(state: dict[str, Tensor], release: Path) -> None:
    """Write the trainer's tensors into the folder of a release."""
    file = release / "model.safetensors"
    save_file(release_tensors(state), file)
    file.chmod(0o644)  # readable by all, like the other files


@contextmanager
def release_from(before: Path, after: Path) -> Iterator[Path]:
    """Copy the release `before` to a folder in which new weights can be saved, and which then becomes `after`.

    After an error `after` is as it was.
    """
    with replaced(after) as unfinished:
        shutil.copytree(before, unfinished, dirs_exist_ok=True)
        yield unfinished
        shutil.rmtree(after, ignore_errors=True)


def load_release(model: DualAR, release: Path) -> None:
    """Load the weights of a release written by `save_release`.

    Raises TrainingError when its sizes differ from the model's.
    """
    stored = load_file(release / "model.safetensors")
    tensors = {name.replace(".fast_project_in.", ".project_in."): tensor for name, tensor in stored.items()}
    names = {name: release_name(name) for name in model.state_dict()}
    try:
        model.load_state_dict({own: tensors[name].float() for own, name in names.items() if name in tensors})
    except RuntimeError as error:  # names or shapes differ
        raise TrainingError(
            f"The dual AR in {release} has other sizes than one for these codes. Continue from a release with the "
            "codec that the speech was encoded with."
        ) from error
