"""Networks that judge takes: their training speech, how they are trained and stored, and their command line."""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from training.recogniser.model import RATE
from training.schedule import warmup_cosine
from training.speech.corpus import SAMPLE_RATE, Corpus, Utterance
from training.speech.resampling import resampled
from training.work import DEFAULT_WORK, TrainingError, exit_with_message, positive_int, replaced

LEAST_SECONDS = 0.8  # of an utterance
_MOST_UTTERANCES = 30  # of a speaker
_REPORT_STEPS = 100


@dataclass(frozen=True)
class EstimatorRecipe:
    steps: int
    batch: int
    learning_rate: float
    warmup_steps: int
    weight_decay: float = 1e-2
    seed: int = 0


R = TypeVar("R", bound=EstimatorRecipe)


class Estimator(nn.Module):
    """A network whose weights are a file."""

    def save(self, path: Path) -> None:
        """Save the weights atomically."""
        with replaced(path) as unfinished:
            save_file(self.state_dict(), unfinished)
            unfinished.chmod(0o644)

    @classmethod
    def load(cls, path: Path, *sizes: object) -> Self:
        """Load weights saved by `save`, for inference. sizes: what the network was constructed with.

        Raises TrainingError when there is no such file.
        """
        if not path.exists():
            raise TrainingError(
                f"No {path.name} in {path.parent}: train it first (python -m training.{path.stem.split('-')[0]}.train)."
            )
        model = cls(*sizes)
        model.load_state_dict(load_file(path))
        return model.eval().requires_grad_(False)


def speech_of(corpus: Corpus) -> dict[int, list[Utterance]]:
    """Return the first training utterances of each speaker that are long enough, at most 30."""
    found: dict[int, list[Utterance]] = defaultdict(list)
    for each in corpus.utterances:
        if each.for_training and each.samples >= LEAST_SECONDS * SAMPLE_RATE:
            found[each.speaker].append(each)
    return {speaker: own[:_MOST_UTTERANCES] for speaker, own in found.items()}


def waveform(utterance: Utterance, rate: int = SAMPLE_RATE) -> Tensor:
    """Return samples `[n]` at 16 kHz. Another rate than the speech's makes it faster or slower, higher or lower."""
    return torch.from_numpy(resampled(utterance.waveform(), rate, RATE))


def minimise(loss: Callable[[], Tensor], weights: Iterable[nn.Parameter], recipe: EstimatorRecipe) -> None:
    """Train weights on a loss, which is that of another batch each time, with AdamW and a cosine schedule."""
    began = time.monotonic()
    optimiser = torch.optim.AdamW(weights, recipe.learning_rate, weight_decay=recipe.weight_decay)
    for step in range(recipe.steps):
        for group in optimiser.param_groups:
            group["lr"] = recipe.learning_rate * warmup_cosine(step, recipe.warmup_steps, step / recipe.steps)
        found = loss()
        optimiser.zero_grad()
        torch.autograd.backward(found)
        optimiser.step()
        if (step + 1) % _REPORT_STEPS == 0:
            print(f"step {step + 1}: loss {found.item():.2f}, {time.monotonic() - began:.0f} s", flush=True)


def train_by_command(description: str | None, recipe: Callable[..., R], run: Callable[[Path, R], int]) -> None:
    """Run a training with the options of the command line. recipe: makes one from keywords; run: as of the stages."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--steps", type=positive_int, default=recipe().steps)
    args = parser.parse_args()
    with exit_with_message():
        run(args.work, recipe(steps=args.steps))
