"""Train the dual AR of the bundled model on encoded speech.

    python -m training.dual_ar.train --work DIR --minutes 90 [--from RELEASE]

Losses: cross-entropy of the next semantic token or end, cross-entropy of the residual codes for a sample of the frames,
and, early on, a guide loss that makes one attention head attend to the phone being spoken. Inputs are randomly
corrupted so that the model learns to recover from its own errors. A checkpoint is saved every five minutes; a restarted
run resumes from it.
"""

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from engine.config import DualARConfig, TransformerConfig
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.prompt import PromptBuilder
from engine.families.s2.slow_ar import SlowAR
from engine.models.layers import TransformerBlock
from engine.text.tokenizer import Tokenizer
from training.device import loader_workers, training_device
from training.dual_ar.conversations import (
    IGNORED,
    LEAST_UTTERANCES,
    Batch,
    ConversationBuilder,
    ConversationSampler,
    conversation_batches,
    fit_for_conversations,
)
from training.dual_ar.encode import CodedCorpus
from training.tokenizer import save_tokenizer
from training.work import DEFAULT_WORK, TrainingError, messages_only, positive

POSITIONS = {"cpu": 3072, "cuda": 16_384}
CONTINUED_RATE = 4e-4  # learning rate of a run that continues from a release
GUIDED_HEAD = 0  # a query head; it shares the first key head


@dataclass(frozen=True)
class Recipe:
    minutes: float
    steps: float = math.inf  # the run ends after its minutes or its steps, whichever comes first
    positions: int | None = None  # per batch; None: by device
    learning_rate: float = 1.5e-3
    slow_rate: float = 1.0  # learning rate of the Slow AR as a fraction of `learning_rate`
    warmup_steps: int = 150
    weight_decay: float = 0.05
    clip: float = 1.0
    fast_share: float = 0.3  # fraction of the frames used for the Fast AR's loss
    fast_weight: float = 2.0
    corrupt_tokens: float = 0.12
    corrupt_codes: float = 0.15
    dropout: float = 0.1
    guide_weight: float = 0.3  # falls to zero by 70 % of the run
    guide_layer: int = 2
    seed: int = 0


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
        rope_base=10000.0,
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
        rope_base=10000.0,
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


class DualAR(nn.Module):
    """The Slow and the Fast AR with their losses."""

    def __init__(self, config: DualARConfig, end_id: int, residual_size: int, guide_layer: int) -> None:
        super().__init__()
        self.slow, self.fast = SlowAR(config, end_id), FastAR(config)
        initialise(self.slow, config.slow.n_layer)
        initialise(self.fast, config.fast.n_layer)
        self.config, self.residual_size, self.guide_layer = config, residual_size, guide_layer

    def drop_out(self, share: float) -> None:
        """Add dropout after every attention and feed-forward module; the engine's layers have none."""

        def hook(module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
            return F.dropout(output, share, module.training)

        for block in (*self.slow.layers, *self.fast.layers):
            block.attention.register_forward_hook(hook)
            block.feed_forward.register_forward_hook(hook)

    def corrupt(self, columns: Tensor, tokens: float, codes: float) -> Tensor:
        """Replace some semantic tokens and residual codes at random."""
        config, size = self.config, self.config.semantic_codebook_size
        is_frame = (columns[:, 0] >= config.semantic_start_id) & (columns[:, 0] <= config.semantic_end_id)
        out = columns.clone()
        hit = is_frame & (torch.rand(is_frame.shape, device=columns.device) < tokens)
        wrong = torch.randint(0, size, is_frame.shape, device=columns.device)
        out[:, 0] = torch.where(hit, wrong + config.semantic_start_id, columns[:, 0])
        out[:, 1] = torch.where(hit, wrong, columns[:, 1])
        residual = columns[:, 2:]
        hit_codes = is_frame[:, None] & (torch.rand(residual.shape, device=columns.device) < codes)
        out[:, 2:] = torch.where(
            hit_codes, torch.randint(0, self.residual_size, residual.shape, device=columns.device), residual
        )
        return out

    def losses(self, batch: Batch, recipe: Recipe, *, training: bool) -> dict[str, Tensor]:
        columns = batch.columns
        if training:
            columns = self.corrupt(columns, recipe.corrupt_tokens, recipe.corrupt_codes)
        # The Slow AR's forward pass, inlined to keep the input of the guided layer.
        x, rope = self.slow.embed(columns), self.slow.rope[: columns.shape[2], None]
        for i, block in enumerate(self._blocks()):
            if i == self.guide_layer:
                guided = block.attention_norm(x)
            x = block(x, rope, None, i)
        normed = hidden = self.slow.norm(x)
        wanted = batch.targets != IGNORED
        targets = batch.targets[wanted]
        logits = self.slow.logits(normed[wanted]).float()
        is_frame = targets < self.config.semantic_codebook_size
        following = torch.roll(batch.columns, -1, dims=2)[:, 1:].transpose(1, 2)[wanted][is_frame]
        hidden = hidden[wanted][is_frame]
        if training:
            some = torch.randperm(len(hidden), device=hidden.device)[: max(8, int(len(hidden) * recipe.fast_share))]
            hidden, following = hidden[some], following[some]
        fast = self.fast.logits(hidden, following, self.residual_size).float()
        return {
            "slow": F.cross_entropy(logits, targets),
            "fast": F.cross_entropy(fast.flatten(0, 1), following[:, 1:].flatten()),
            "guide": self._guide_loss(guided, rope, batch.guide),
            "accuracy": (logits.argmax(-1) == targets).float().mean(),
        }

    def _guide_loss(self, x: Tensor, rope: Tensor, guide: Tensor) -> Tensor:
        """Return the capped negative log of the guided head's attention mass within one phone of the spoken one."""
        q, k, _ = self._blocks()[self.guide_layer].attention.project(x, rope)
        scores = (q[:, GUIDED_HEAD] @ k[:, GUIDED_HEAD].transpose(1, 2)).float() / math.sqrt(q.shape[-1])
        position = torch.arange(scores.shape[1], device=scores.device)
        scores = scores.masked_fill(position > position[:, None], -torch.inf)
        at = guide >= 0
        logs = scores[at].log_softmax(-1)
        centre = guide[at][:, None]
        window = (centre + torch.tensor([-1, 0, 1], device=centre.device)).clamp(0, scores.shape[1] - 1)
        mass: Tensor = logs.gather(-1, window).logsumexp(-1)
        return -mass.clamp(min=-12).mean()

    def _blocks(self) -> list[TransformerBlock]:
        return [cast(TransformerBlock, block) for block in self.slow.layers]


def release_name(name: str) -> str:
    """Return the name of a `DualAR` tensor in a release, which is S2-Pro's name."""
    stack, _, rest = name.partition(".")
    if rest.startswith("codebook_embeddings."):
        return f"audio_decoder.{rest}"
    return f"text_model.model.{rest}" if stack == "slow" else f"audio_decoder.{rest.removeprefix('fast_')}"


def load_release(model: DualAR, release: Path) -> None:
    """Load the weights of a release written by `training/export.py`.

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


def train(work: Path, recipe: Recipe, threads: int, source: Path | None = None) -> None:
    """Train to the end of the recipe; a stopped run resumes. A new run starts from the release `source`, if given.

    Raises TrainingError when the codes, the checkpoint or the source cannot be trained with.
    """
    origin = "" if source is None else str(source.resolve())
    if source is not None and not (source / "model.safetensors").exists():
        raise TrainingError(f"{source} is no release to continue from: it has no model.safetensors.")
    torch.manual_seed(recipe.seed)
    if threads:
        torch.set_num_threads(threads)
    device = training_device()
    positions = recipe.positions or POSITIONS[device]
    recipe = replace(recipe, positions=positions)
    corpus = CodedCorpus.load(work / "codes")
    for part, utterances in {"training": corpus.train, "held-out": corpus.held_out}.items():
        if not fit_for_conversations(utterances):
            raise TrainingError(
                f"No speaker has {LEAST_UTTERANCES} {part} utterances in {work / 'codes'}, the fewest that "
                "conversations are made of."
            )
    run = work / "ar"
    run.mkdir(parents=True, exist_ok=True)
    fast_tokenizer = save_tokenizer(run, corpus.semantic_size)
    tokenizer = Tokenizer.load(run)
    config = bundled_config(
        fast_tokenizer.get_vocab_size(),
        tokenizer.semantic_start_id,
        corpus.semantic_size,
        corpus.num_codebooks,
    )
    model = DualAR(config, tokenizer.end_id, corpus.residual_size, recipe.guide_layer).to(device)
    model.drop_out(recipe.dropout)
    builder = ConversationBuilder(
        PromptBuilder(tokenizer, config.num_codebooks),
        config.semantic_start_id,
        corpus.semantic_size,
        tokenizer.end_id,
    )
    (run / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1))
    optimiser = torch.optim.AdamW(
        [
            {
                "params": [p for p in stack.parameters() if (p.dim() == 2) == matrices],
                "weight_decay": decay,
                "share": share,
            }
            for stack, share in ((model.slow, recipe.slow_rate), (model.fast, 1.0))
            for matrices, decay in ((True, recipe.weight_decay), (False, 0.0))
        ],
        lr=recipe.learning_rate,
        betas=(0.9, 0.97),
        fused=True,
    )
    step, elapsed = 0, 0.0
    checkpoint = run / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        if state.get("origin", origin) != origin:
            raise TrainingError(
                f"{checkpoint} did not begin with {origin or 'new weights'}. Give the release that it began with "
                "(--from), or remove it to train anew."
            )
        try:
            model.load_state_dict(state["model"])
            optimiser.load_state_dict(state["optimiser"])
        except (RuntimeError, ValueError) as error:  # names, shapes or parameter groups differ
            raise TrainingError(
                f"{checkpoint} holds a model of other sizes, for codes of another codec, or is of another version of "
                "Reprise. Remove it to train anew."
            ) from error
        step, elapsed = state["step"], state["elapsed"]
        print(f"resuming at step {step}, {elapsed / 60:.0f} minutes in", flush=True)
    elif source is not None:
        load_release(model, source)
    print(
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters; "
        f"{len(corpus.train)} utterances, {corpus.train_hours:.2f} h, on {device}",
        flush=True,
    )
    batches = conversation_batches(
        corpus.train, builder, positions, seed=recipe.seed + step, workers=loader_workers(device)
    )
    held_out = list(islice(ConversationSampler(corpus.held_out, builder, positions, 1), 6))
    sums: dict[str, float] = {}
    counted, last_save, last = 0, time.monotonic(), time.monotonic()
    while (progress := max(elapsed / (recipe.minutes * 60), step / recipe.steps)) < 1:
        rate = recipe.learning_rate * min(1.0, (step + 1) / recipe.warmup_steps)
        rate *= 0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * progress))
        for group in optimiser.param_groups:
            group["lr"] = rate * group["share"]
        batch = _to(next(batches), device)
        with _halved(device):
            losses = model.losses(batch, recipe, training=True)
        guide = recipe.guide_weight * max(0.0, 1 - progress / 0.7)
        (losses["slow"] + recipe.fast_weight * losses["fast"] + guide * losses["guide"]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        step += 1
        counted += 1
        for name, value in losses.items():
            sums[name] = sums.get(name, 0.0) + value.item()
        now = time.monotonic()
        elapsed, last, spent = elapsed + now - last, now, now - last
        if step % 100 == 0:
            report = " ".join(f"{name} {total / counted:.3f}" for name, total in sums.items())
            print(f"step {step} {elapsed / 60:.1f} min {report} rate {rate:.1e} {spent:.2f} s/step", flush=True)
            sums, counted = {}, 0
        if now - last_save > 300:
            _validate(model, held_out, recipe, device)
            _save(checkpoint, model, optimiser, step, elapsed, origin)
            last_save = time.monotonic()
            last = time.monotonic()
    _validate(model, held_out, recipe, device)
    _save(checkpoint, model, optimiser, step, elapsed, origin)


def _halved(device: str) -> torch.autocast:
    """Return an autocast to bf16, disabled on a CPU without AVX-512, where bf16 is fifty times slower."""
    has = device != "cpu" or torch.backends.cpu.get_cpu_capability() == "AVX512"
    return torch.autocast(device, torch.bfloat16, enabled=has)


def _to(batch: Batch, device: str) -> Batch:
    return Batch(batch.columns.to(device), batch.targets.to(device), batch.guide.to(device))


@torch.no_grad()
def _validate(model: DualAR, batches: list[Batch], recipe: Recipe, device: str) -> None:
    model.eval()
    rows = []
    for batch in batches:
        with _halved(device):
            losses = model.losses(_to(batch, device), recipe, training=False)
        rows.append([float(v) for v in losses.values()])
    means = torch.tensor(rows).mean(0).tolist()
    print("held out " + " ".join(f"{n} {m:.3f}" for n, m in zip(losses, means, strict=True)), flush=True)
    model.train()


def _save(path: Path, model: DualAR, optimiser: torch.optim.Optimizer, step: int, elapsed: float, origin: str) -> None:
    """Save a checkpoint atomically: a kill at any moment leaves the previous one intact."""
    partial = path.with_suffix(".partial")
    torch.save(
        {
            "model": model.state_dict(),
            "optimiser": optimiser.state_dict(),
            "step": step,
            "elapsed": elapsed,
            "origin": origin,
        },
        partial,
    )
    partial.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--minutes", type=positive, default=90)
    parser.add_argument("--from", dest="source", type=Path, metavar="RELEASE", help="learn on from this release")
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    recipe = Recipe(minutes=args.minutes)
    if args.source is not None:
        recipe = replace(recipe, learning_rate=CONTINUED_RATE)
    with messages_only():
        train(args.work, recipe, args.threads, args.source)


if __name__ == "__main__":
    main()
