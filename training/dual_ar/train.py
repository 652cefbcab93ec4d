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

import torch
import torch.nn.functional as F
from torch import Tensor

from training.device import bf16_autocast, loader_workers, training_device
from training.dual_ar.conversations import (
    LEAST_UTTERANCES,
    Batch,
    ConversationSampler,
    conversation_batches,
    fit_for_conversations,
)
from training.dual_ar.encode import CodedCorpus
from training.dual_ar.model import DualAR, load_release, new_model
from training.schedule import warmup_cosine
from training.work import DEFAULT_WORK, TrainingError, exit_with_message, origin_of, positive, replaced

POSITIONS = {"cpu": 3072, "cuda": 16_384}
CONTINUED_RATE = 4e-4  # learning rate of a run that continues from a release
_FINAL_RATE = 0.03  # fraction of the learning rate at the end of a run


@dataclass(frozen=True)
class DualARRecipe:
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
    seed: int = 0


def corrupt(model: DualAR, columns: Tensor, tokens: float, codes: float) -> Tensor:
    """Replace some semantic tokens and residual codes of columns `[B, K + 1, L]` at random."""
    config, size = model.config, model.config.semantic_codebook_size
    is_frame = (columns[:, 0] >= config.semantic_start_id) & (columns[:, 0] <= config.semantic_end_id)
    out = columns.clone()
    hit = is_frame & (torch.rand(is_frame.shape, device=columns.device) < tokens)
    wrong = torch.randint(0, size, is_frame.shape, device=columns.device)
    out[:, 0] = torch.where(hit, wrong + config.semantic_start_id, columns[:, 0])
    out[:, 1] = torch.where(hit, wrong, columns[:, 1])
    residual = columns[:, 2:]
    hit_codes = is_frame[:, None] & (torch.rand(residual.shape, device=columns.device) < codes)
    out[:, 2:] = torch.where(
        hit_codes, torch.randint(0, model.residual_size, residual.shape, device=columns.device), residual
    )
    return out


def losses_of(model: DualAR, batch: Batch, recipe: DualARRecipe, *, training: bool) -> dict[str, Tensor]:
    """Return the losses of a batch by name, and the accuracy of the semantic tokens."""
    columns = corrupt(model, batch.columns, recipe.corrupt_tokens, recipe.corrupt_codes) if training else None
    forced = model.teacher_force(batch, columns)
    hidden, codes = forced.hidden, forced.codes
    if training:
        some = torch.randperm(len(hidden), device=hidden.device)[: max(8, int(len(hidden) * recipe.fast_share))]
        hidden, codes = hidden[some], codes[some]
    return {
        "slow": F.cross_entropy(forced.logits, forced.tokens),
        "fast": F.cross_entropy(model.residual_logits(hidden, codes).flatten(0, 1), codes[:, 1:].flatten()),
        "guide": model.guide_loss(forced.guided, batch.guide),
        "accuracy": (forced.logits.argmax(-1) == forced.tokens).float().mean(),
    }


class DualARRun:
    """State of a run: the model with its optimiser, and its steps and seconds so far.

    origin: names the release that it begins with, see `origin_of`; "" means new weights.
    """

    def __init__(self, model: DualAR, recipe: DualARRecipe, origin: str, device: str) -> None:
        self.model, self.step, self.elapsed = model.to(device), 0, 0.0
        self._recipe, self._origin, self._device = recipe, origin, device
        model.drop_out(recipe.dropout)
        self._optimiser = torch.optim.AdamW(
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

    @property
    def progress(self) -> float:
        """Completed fraction of the run, 1 or more at the end."""
        return max(self.elapsed / (self._recipe.minutes * 60), self.step / self._recipe.steps)

    @property
    def rate(self) -> float:
        """Learning rate of the next step."""
        recipe = self._recipe
        return recipe.learning_rate * warmup_cosine(self.step, recipe.warmup_steps, self.progress, _FINAL_RATE)

    def advance(self, batch: Batch) -> dict[str, float]:
        """Run one training step. Return the losses before weighting, and the accuracy, by name."""
        recipe = self._recipe
        for group in self._optimiser.param_groups:
            group["lr"] = self.rate * group["share"]
        with bf16_autocast(self._device):
            losses = losses_of(self.model, batch.to(self._device), recipe, training=True)
        guide = recipe.guide_weight * max(0.0, 1 - self.progress / 0.7)
        (losses["slow"] + recipe.fast_weight * losses["fast"] + guide * losses["guide"]).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return {name: value.item() for name, value in losses.items()}

    @torch.no_grad()
    def validate(self, batches: list[Batch]) -> None:
        """Print the mean losses of batches that the run does not learn from."""
        self.model.eval()
        rows = []
        for batch in batches:
            with bf16_autocast(self._device):
                losses = losses_of(self.model, batch.to(self._device), self._recipe, training=False)
            rows.append([float(v) for v in losses.values()])
        means = torch.tensor(rows).mean(0).tolist()
        print("held out " + " ".join(f"{n} {m:.3f}" for n, m in zip(losses, means, strict=True)), flush=True)
        self.model.train()

    def save(self, path: Path) -> None:
        """Save a checkpoint atomically."""
        state = {"model": self.model.state_dict(), "optimiser": self._optimiser.state_dict()}
        with replaced(path) as unfinished:
            torch.save(state | {"step": self.step, "elapsed": self.elapsed, "origin": self._origin}, unfinished)

    def resume(self, path: Path) -> None:
        """Resume from a checkpoint. Raises TrainingError when it is of a run with another origin or other sizes."""
        state = torch.load(path, map_location=self._device, weights_only=True)
        if state.get("origin", self._origin) != self._origin:
            raise TrainingError(
                f"{path} did not begin with {self._origin or 'new weights'}. Give the release that it began with "
                "(--from), or remove it to start over."
            )
        try:
            self.model.load_state_dict(state["model"])
            self._optimiser.load_state_dict(state["optimiser"])
        except (RuntimeError, ValueError) as error:  # names, shapes or parameter groups differ
            raise TrainingError(
                f"{path} holds a model of other sizes, for codes of another codec, or is of another version of "
                "Reprise. Remove it to start over."
            ) from error
        self.step, self.elapsed = state["step"], state["elapsed"]


def train(work: Path, recipe: DualARRecipe, threads: int, source: Path | None = None) -> None:
    """Train to the end of the recipe; a stopped run resumes. A new run starts from the release `source`, if given.

    Raises TrainingError when the codes, the checkpoint or the source cannot be trained with.
    """
    if source is not None and not (source / "model.safetensors").exists():
        raise TrainingError(f"{source} is not a release to continue from: it has no model.safetensors.")
    torch.manual_seed(recipe.seed)
    if threads:
        torch.set_num_threads(threads)
    device = training_device()
    positions = recipe.positions or POSITIONS[device]
    recipe = replace(recipe, positions=positions)
    corpus = _corpus(work / "codes")
    folder = work / "ar"
    folder.mkdir(parents=True, exist_ok=True)
    model, builder = new_model(folder, corpus.format)
    (folder / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1))
    run = DualARRun(model, recipe, "" if source is None else origin_of(source, work), device)
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        run.resume(checkpoint)
        print(f"resuming at step {run.step}, {run.elapsed / 60:.0f} minutes in", flush=True)
    elif source is not None:
        load_release(model, source)
    print(
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters; "
        f"{len(corpus.train)} utterances, {corpus.train_hours:.2f} h, on {device}",
        flush=True,
    )
    batches = conversation_batches(
        corpus.train, builder, positions, seed=recipe.seed + run.step, workers=loader_workers(device)
    )
    held_out = list(islice(ConversationSampler(corpus.held_out, builder, positions, 1), 6))
    reported: list[dict[str, float]] = []  # of the steps since the last report
    last = saved = time.monotonic()
    while run.progress < 1:
        rate = run.rate
        reported.append(run.advance(next(batches)))
        now = time.monotonic()
        last, spent = now, now - last
        run.elapsed += spent
        if run.step % 100 == 0:
            report = " ".join(f"{n} {sum(each[n] for each in reported) / len(reported):.3f}" for n in reported[0])
            print(f"step {run.step} {run.elapsed / 60:.1f} min {report} rate {rate:.1e} {spent:.2f} s/step", flush=True)
            reported.clear()
        if now - saved > 300:
            run.validate(held_out)
            run.save(checkpoint)
            last = saved = time.monotonic()
    run.validate(held_out)
    run.save(checkpoint)


def _corpus(codes: Path) -> CodedCorpus:
    """Load a corpus. Raises TrainingError for one that is too small."""
    corpus = CodedCorpus.load(codes)
    for part, utterances in {"training": corpus.train, "held-out": corpus.held_out}.items():
        if not fit_for_conversations(utterances):
            raise TrainingError(
                f"No speaker has {LEAST_UTTERANCES} {part} utterances in {codes}, the fewest that conversations are "
                "made of."
            )
    return corpus


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--minutes", type=positive, default=90)
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="RELEASE", help="continue training from this release"
    )
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    recipe = DualARRecipe(minutes=args.minutes)
    if args.source is not None:
        recipe = replace(recipe, learning_rate=CONTINUED_RATE)
    with exit_with_message():
        train(args.work, recipe, args.threads, args.source)


if __name__ == "__main__":
    main()
