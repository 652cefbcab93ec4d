"""Train the speaker encoders, for the decoder and for the dual AR's reward, on the training speech.

    python -m training.speaker.train --work DIR [--steps 1500]

Writes `DIR/speaker.safetensors` and the other `SPEAKER_ENCODERS`. Each speaker is also played faster and slower, and
each speed is a class of its own (speed perturbation). The loss is the softmax over all classes with an additive margin
(Wang et al., 2018). The features get another level, response and noise, which do not belong to the voice.

Shapes: B batch, n samples, T feature frames, C classes.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.device import training_device
from training.estimator import LEAST_SECONDS, EstimatorRecipe, minimise, speech_of, train_by_command, waveform
from training.speaker.model import SPEAKER_ENCODERS, WIDTH, SpeakerNet, SpeakerSizes
from training.speech.corpus import SAMPLE_RATE, Corpus
from training.work import TrainingError

# Rates in Hz at which the speech of SAMPLE_RATE is read, for other speeds: 0.87, 0.91, 1.09, 1.16.
_RATES = SAMPLE_RATE, 19_200, 20_000, 24_000, 25_600
_LEAST_UTTERANCES = 3  # of a speaker
_CROPS = 100, 140, 180  # feature frames
_MARGIN, _SCALE = 0.2, 24.0  # of the softmax

SpeedClass = tuple[int, int]  # a speaker, and the rate at which the speech is read
Features = Mapping[SpeedClass, Sequence[Tensor]]  # `[T, mels]` fp16


@dataclass(frozen=True)
class SpeakerRecipe(EstimatorRecipe):
    steps: int = 1500
    batch: int = 64
    learning_rate: float = 3e-3
    warmup_steps: int = 100


def features_of(corpus: Corpus, model: SpeakerNet) -> Features:
    """Return a network's features of all speakers with enough utterances, read at each rate."""
    features, speech = model.features, speech_of(corpus)
    return {
        (speaker, rate): [features(waveform(each, rate)).half() for each in own]
        for speaker, own in speech.items()
        if len(own) >= _LEAST_UTTERANCES
        for rate in _RATES
    }


def train(corpus: Corpus, recipe: SpeakerRecipe, sizes: SpeakerSizes | None = None) -> SpeakerNet:
    """Train a network to tell speakers apart. Raises TrainingError when none has enough speech."""
    torch.manual_seed(recipe.seed)
    model = SpeakerNet(sizes)
    features = features_of(corpus, model)
    if not features:
        raise TrainingError(f"No speaker has {_LEAST_UTTERANCES} utterances of {LEAST_SECONDS} s for training.")
    rng, classes, device = random.Random(recipe.seed), sorted(features), training_device()
    model, centres = model.to(device), nn.Parameter(0.1 * torch.randn(len(classes), WIDTH, device=device))

    def loss() -> Tensor:
        chosen, frames = rng.choices(range(len(classes)), k=recipe.batch), rng.choice(_CROPS)
        crops = torch.stack([_disturbed(_crop(rng.choice(features[classes[i]]), frames, rng), rng) for i in chosen])
        cosines = model.embed(crops.to(device)) @ F.normalize(centres, dim=1).T
        return _margin_loss(cosines, torch.tensor(chosen, device=device))

    minimise(loss, [*model.parameters(), centres], recipe)
    return model.to("cpu").eval().requires_grad_(False)


def _margin_loss(cosines: Tensor, own: Tensor) -> Tensor:
    """Return the cross-entropy of the own classes `[B]`, given cosines `[B, C]`, less a margin for the own one."""
    margin = _MARGIN * F.one_hot(own, cosines.shape[1])
    return F.cross_entropy(_SCALE * (cosines - margin), own)


def _crop(features: Tensor, frames: int, rng: random.Random) -> Tensor:
    """Return `frames` frames of features `[T, mels]`, which repeat when they are too few."""
    repeated = features.repeat(math.ceil(frames / len(features)), 1)
    start = rng.randrange(len(repeated) - frames + 1)
    return repeated[start : start + frames].float()


def _disturbed(features: Tensor, rng: random.Random) -> Tensor:
    """Change level, response and background of features `[T, mels]`."""
    out = features + rng.gauss(0, 0.15)
    if rng.random() < 0.5:
        response = F.interpolate(0.25 * torch.randn(1, 1, 6), size=out.shape[1], mode="linear", align_corners=True)
        out = out + response[0]
    if rng.random() < 0.3:
        out = torch.maximum(out, rng.uniform(-1.2, 0.6) + 0.2 * torch.randn_like(out))
    return out


def run(work: Path, recipe: SpeakerRecipe) -> int:
    """Train the speaker encoders of a working folder and write them there. Returns the number of speakers.

    Raises TrainingError when no speaker has enough speech.
    """
    corpus = Corpus.load(work / "data")
    for file, sizes in SPEAKER_ENCODERS.items():
        print(file, flush=True)
        train(corpus, recipe, sizes).save(work / file)
    return len(speech_of(corpus))


def main() -> None:
    train_by_command(__doc__, SpeakerRecipe, run)


if __name__ == "__main__":
    main()
