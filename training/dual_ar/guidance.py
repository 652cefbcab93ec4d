"""Guidance distillation: the dual AR learns to keep closer to its reference than its training taught it.

    python -m training.dual_ar.guidance --work DIR --from RELEASE [--takes N]

A model that has also learned to speak without a reference knows what a reference changes in each of its distributions.
Classifier-free guidance (Ho and Salimans, 2022) makes this change larger: voices and pitches come closer, and words
stay as clear. But it runs the model twice a frame. Here a release speaks texts in voices of the training speech, and
learns the guided distributions of each code of these takes (guidance distillation; Meng et al., 2023), so that one run
is enough. In some steps it learns its own distributions without a reference, so that it keeps them.

Writes the release `DIR/guidance`. An interrupted run begins anew. Encoder, codebooks and decoder stay.

Shapes: N targets, K codebooks, F frames, S semantic codes.
"""

import argparse
import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from training.device import bf16_autocast, threads, training_device
from training.dual_ar.conversations import Batch, ConversationBuilder, Example, collate
from training.dual_ar.encode import CodeFormat
from training.dual_ar.model import DualAR, load_release, new_model, release_from, save_release
from training.dual_ar.own_takes import OwnTake, TakeOptimiser, TakeRates, TakeSampler, similar_batches
from training.work import DEFAULT_WORK, TrainingError, cores, exit_with_message, positive_int

_RATES = TakeRates(slow=1.2e-4, fast=5e-4, warmup_steps=15, final=0.05, clip_gradient=1.0)
_REPORT_STEPS = 20


@dataclass(frozen=True)
class GuidanceRecipe:
    """Parameters of a run.

    semantic_scale, residual_scale: guidance scales of the codes; 1 is no guidance. Larger ones cost words.
    plain_share: share of the steps without references. residual_weight: of the residual codes' divergence.
    """

    takes: int = 1200
    passes: int = 3  # over the takes
    semantic_scale: float = 1.5
    residual_scale: float = 3.0
    plain_share: float = 0.1
    residual_weight: float = 2.0
    rates: TakeRates = _RATES
    positions: int = 5000  # per batch
    seed: int = 0


@dataclass(frozen=True)
class GuidedTake:
    """A take as an example with its reference, and as one without; the targets are the same."""

    referenced: Example
    plain: Example


@dataclass(frozen=True)
class Distributions:
    """Log-probabilities of the targets: of semantic codes and the end `[N, S + 1]`, and of the residual codes of the
    frames `[F, K - 1, size]`."""

    semantic: Tensor
    residual: Tensor

    @classmethod
    def of(cls, model: DualAR, batch: Batch) -> "Distributions":
        device = next(model.parameters()).device.type
        with bf16_autocast(device):
            forced = model.teacher_force(batch.to(device))
            residual = model.residual_logits(forced.hidden, forced.codes)
        return cls(forced.logits.log_softmax(-1), residual.log_softmax(-1))

    def guided(self, plain: "Distributions", recipe: GuidanceRecipe) -> "Distributions":
        """Return these, which know the reference, moved away from those that do not."""
        return Distributions(
            _guided(self.semantic, plain.semantic, recipe.semantic_scale),
            _guided(self.residual, plain.residual, recipe.residual_scale),
        )


def _guided(referenced: Tensor, plain: Tensor, scale: float) -> Tensor:
    return (plain + scale * (referenced - plain)).log_softmax(-1)


def divergences(found: Distributions, target: Distributions) -> tuple[Tensor, Tensor]:
    """Return the Kullback-Leibler divergence from the target, in nats per semantic code and per residual code."""
    semantic, residual = (
        F.kl_div(own.flatten(0, -2), other.flatten(0, -2), reduction="batchmean", log_target=True)
        for own, other in ((found.semantic, target.semantic), (found.residual, target.residual))
    )
    return semantic, residual


def guided_take(take: OwnTake, builder: ConversationBuilder) -> GuidedTake:
    said = [take.utterance]
    return GuidedTake(builder.build([take.reference], said, reference_is_target=False), builder.build([], said))


def learn(student: DualAR, teacher: DualAR, made: Sequence[GuidedTake], recipe: GuidanceRecipe) -> None:
    """Train a model on the guided distributions of a teacher, over takes."""
    rng = random.Random(recipe.seed)
    student.eval()  # as when they speak
    teacher.eval()
    lengths = [each.referenced.columns.shape[1] for each in made]
    planned = [batch for _ in range(recipe.passes) for batch in similar_batches(lengths, recipe.positions, rng)]
    optimiser = TakeOptimiser(student, recipe.rates, len(planned))
    for step, chosen in enumerate(planned, 1):
        batch = plain = collate([made[i].plain for i in chosen])
        with torch.no_grad():
            target = Distributions.of(teacher, plain)
            if rng.random() >= recipe.plain_share:
                batch = collate([made[i].referenced for i in chosen])
                target = Distributions.of(teacher, batch).guided(target, recipe)
        semantic, residual = divergences(Distributions.of(student, batch), target)
        optimiser.minimise(semantic + recipe.residual_weight * residual)
        if step % _REPORT_STEPS == 0:
            kind = "without a reference" if batch is plain else "guided"
            print(
                f"step {step} of {len(planned)}, {kind}: divergence {semantic.item():.3f} nats per semantic code, "
                f"{residual.item():.3f} per residual code",
                flush=True,
            )


def distil(work: Path, release: Path, recipe: GuidanceRecipe) -> int:
    """Write the release `work/guidance`, trained on takes of `release`. Return the number of takes.

    Raises TrainingError when the folder has no encoded speech, or when the release has other sizes or another codec,
    or speaks no text.
    """
    device, codes = training_device(), CodeFormat.load(work / "codes")
    takes, _ = TakeSampler(work).spoken_by(release, device, recipe.takes, recipe.seed)
    with release_from(release, work / "guidance") as folder:
        student, builder = new_model(folder, codes)
        load_release(student.to(device), release)
        made = [guided_take(take, builder) for take in takes if take.utterance.codes.shape[1]]
        if not made:
            raise TrainingError(f"The release in {release} speaks no text.")
        print(f"{len(made)} takes spoken", flush=True)
        with threads(cores()):  # the engine leaves fewer
            learn(student, copy.deepcopy(student), made, recipe)
        save_release(student.state_dict(), folder)
    return len(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--from", dest="source", type=Path, required=True, metavar="RELEASE")
    parser.add_argument("--takes", type=positive_int, default=GuidanceRecipe.takes)
    args = parser.parse_args()
    with exit_with_message():
        distil(args.work, args.source, GuidanceRecipe(takes=args.takes))


if __name__ == "__main__":
    main()
