"""Train the speaker encoder for the dual AR's reward on the training speech.

    python -m training.speaker.train --work DIR [--steps 1500]

Writes `DIR/speaker.safetensors`. Each speaker is also played faster and slower, which makes further speakers. The loss
is the softmax over all of them with an additive margin (Wang et al., 2018). The features get another level, response
and noise, which do not belong to the voice.
"""

import argparse
import math
import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.recogniser.model import RATE
from training.speaker.model import WIDTH, SpeakerNet
from training.speech.corpus import SAMPLE_RATE, Corpus, Utterance
from training.speech.resampling import resampled
from training.work import DEFAULT_WORK, TrainingError, messages_only, positive_int

FILE = "speaker.safetensors"
_SPEEDS = 1.0, 0.87, 0.91, 1.09, 1.16
_VARIED = 0.65  # share of the utterances that is played at each other speed
_LEAST_SECONDS = 0.8  # of an utterance
_LEAST_UTTERANCES = 3  # of a speaker
_CROPS = 100, 140, 180  # feature frames of 10 ms
_MARGIN, _SHARPNESS = 0.2, 24.0

Features = Mapping[tuple[int, float], Sequence[Tensor]]  # of each speaker and speed, `[T, 64]` fp16


@dataclass(frozen=True)
class Recipe:
    steps: int = 1500
    batch: int = 64
    learning_rate: float = 3e-3
    warmup_steps: int = 100
    weight_decay: float = 1e-2
    seed: int = 0


def features_of(corpus: Corpus, model: SpeakerNet, rng: random.Random) -> Features:
    """Return the features of all training utterances, by speaker and speed, that are long and many enough."""
    found: dict[tuple[int, float], list[Tensor]] = defaultdict(list)
    for utterance in corpus.utterances:
        if not utterance.for_training or utterance.samples < _LEAST_SECONDS * SAMPLE_RATE:
            continue
        for speed in _SPEEDS:
            if speed == 1.0 or rng.random() < _VARIED:
                found[utterance.speaker, speed].append(model.features(_wave(utterance, speed)).half())
    return {voice: own for voice, own in found.items() if len(own) >= _LEAST_UTTERANCES}


def _wave(utterance: Utterance, speed: float) -> Tensor:
    """Return samples `[n]` at 16 kHz, played faster or slower, pitch and timbre included."""
    source = round(SAMPLE_RATE * speed / 50) * 50  # a simple ratio to 16 kHz
    return torch.from_numpy(resampled(utterance.waveform(), source, RATE))


def train(features: Features, recipe: Recipe) -> SpeakerNet:
    """Train a network to tell the voices of `features` apart. Raises TrainingError when there are fewer than two."""
    if len(features) < 2:
        raise TrainingError("The training speech has fewer than two speakers to tell apart.")
    torch.manual_seed(recipe.seed)
    rng, voices, began = random.Random(recipe.seed), sorted(features), time.monotonic()
    model, centres = SpeakerNet(), nn.Parameter(0.1 * torch.randn(len(voices), WIDTH))
    weights = [*model.parameters(), centres]
    optimiser = torch.optim.AdamW(weights, recipe.learning_rate, weight_decay=recipe.weight_decay)
    for step in range(recipe.steps):
        rate = min(1.0, (step + 1) / recipe.warmup_steps) * 0.5 * (1 + math.cos(math.pi * step / recipe.steps))
        for group in optimiser.param_groups:
            group["lr"] = recipe.learning_rate * rate
        chosen, frames = rng.choices(range(len(voices)), k=recipe.batch), rng.choice(_CROPS)
        crops = torch.stack([_disturbed(_crop(rng.choice(features[voices[i]]), frames, rng), rng) for i in chosen])
        loss = _margin_loss(model.embed(crops) @ F.normalize(centres, dim=1).T, torch.tensor(chosen))
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        if (step + 1) % 250 == 0:
            print(f"step {step + 1}: loss {loss.item():.2f}, {time.monotonic() - began:.0f} s", flush=True)
    return model.eval().requires_grad_(False)


def _margin_loss(cosines: Tensor, own: Tensor) -> Tensor:
    """Return the cross-entropy of the own voices `[B]`, given cosines `[B, C]`, less a margin for the own one."""
    margin = _MARGIN * F.one_hot(own, cosines.shape[1])
    return F.cross_entropy(_SHARPNESS * (cosines - margin), own)


def _crop(features: Tensor, frames: int, rng: random.Random) -> Tensor:
    """Return `frames` frames of features `[T, 64]`, which repeat when they are too few."""
    repeated = features.repeat(math.ceil(frames / len(features)), 1)
    start = rng.randrange(len(repeated) - frames + 1)
    return repeated[start : start + frames].float()


def _disturbed(features: Tensor, rng: random.Random) -> Tensor:
    """Change level, response and background of features `[T, 64]`."""
    out = features + rng.gauss(0, 0.15)
    if rng.random() < 0.5:
        response = F.interpolate(0.25 * torch.randn(1, 1, 6), size=out.shape[1], mode="linear", align_corners=True)
        out = out + response[0]
    if rng.random() < 0.3:
        out = torch.maximum(out, rng.uniform(-1.2, 0.6) + 0.2 * torch.randn_like(out))
    return out


def run(work: Path, recipe: Recipe) -> None:
    """Train the speaker encoder of a working folder and write it there, unless it has one."""
    if (work / FILE).exists():
        return
    features = features_of(Corpus.load(work / "data"), SpeakerNet(), random.Random(recipe.seed))
    train(features, recipe).save(work / FILE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--steps", type=positive_int, default=Recipe.steps)
    args = parser.parse_args()
    with messages_only():
        run(args.work, Recipe(steps=args.steps))


if __name__ == "__main__":
    main()
