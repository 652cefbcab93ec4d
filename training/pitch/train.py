"""Train the pitch estimator for the dual AR's reward on the training speech.

    python -m training.pitch.train --work DIR [--steps 700]

Writes `DIR/pitch.safetensors`. WORLD's DIO (Morise et al., 2009) labels the frames. Speed perturbation and noise
augment the speech.

Shapes: B batch, n samples, T frames.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from training.device import training_device
from training.estimator import EstimatorRecipe, minimise, speech_of, train_by_command, waveform
from training.pitch.model import CLASS_WIDTH, CLASSES, HOP, LOWEST, WEIGHTS_FILE, PitchNet
from training.recogniser.model import RATE
from training.speech.corpus import SAMPLE_RATE, Corpus
from training.work import TrainingError

_RATES = SAMPLE_RATE, 19_200, 25_600  # at which the speech is read
_FRAMES = 140  # of a crop
_SPREAD = 1.0  # classes, of the labels


@dataclass(frozen=True)
class PitchRecipe(EstimatorRecipe):
    steps: int = 700
    batch: int = 32
    learning_rate: float = 2e-3
    warmup_steps: int = 50
    utterances: int = 6  # of a speaker


@dataclass(frozen=True)
class Labelled:
    """Samples `[n]` at 16 kHz, and the pitch of each 10 ms in semitones above 50 Hz `[T]`, nan where unvoiced."""

    wave: Tensor
    pitch: Tensor


def pitch_of(wave: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the pitch of samples `[n]` at 16 kHz, as in `Labelled`."""
    import pyworld  # needs a compiler; not every machine has one

    samples = wave.astype(np.float64)
    rough, times = pyworld.dio(samples, RATE, f0_floor=LOWEST, f0_ceil=480.0, frame_period=1000 * HOP / RATE)
    f0 = pyworld.stonemask(samples, rough, times, RATE)
    return np.where(f0 > LOWEST, 12 * np.log2(np.maximum(f0, LOWEST) / LOWEST), np.nan).astype(np.float32)


def labelled(corpus: Corpus, utterances: int) -> list[Labelled]:
    """Label the first training utterances of each speaker, read at each rate."""
    waves = [waveform(each, rate) for own in speech_of(corpus).values() for each in own[:utterances] for rate in _RATES]
    return [Labelled(wave, torch.from_numpy(pitch_of(wave.numpy()))) for wave in waves]


def loss_of(voiced: Tensor, logits: Tensor, pitch: Tensor) -> Tensor:
    """Return the cross-entropies of being voiced and of the pitch of voiced frames, given labels `[B, T]`."""
    is_voiced = pitch.isfinite()
    classes = torch.arange(CLASSES, device=pitch.device)
    wanted = (-0.5 * ((classes - pitch[is_voiced][:, None] / CLASS_WIDTH) / _SPREAD).square()).softmax(-1)
    found = F.cross_entropy(logits[is_voiced], wanted)
    return F.binary_cross_entropy_with_logits(voiced, is_voiced.float()) + found


def train(speech: Sequence[Labelled], recipe: PitchRecipe) -> PitchNet:
    """Train a network on labelled speech. Raises TrainingError when there is none."""
    if not speech:
        raise TrainingError("There is no speech for training that lasts long enough to have a pitch.")
    torch.manual_seed(recipe.seed)
    rng, device = random.Random(recipe.seed), training_device()
    model = PitchNet().to(device)

    def loss() -> Tensor:
        crops = [_crop(rng.choice(speech), rng) for _ in range(recipe.batch)]
        waves, pitch = (torch.stack(part).to(device) for part in zip(*crops, strict=True))
        voiced, logits = model(waves)
        return loss_of(voiced[:, :_FRAMES], logits[:, :_FRAMES], pitch)

    minimise(loss, model.parameters(), recipe)
    return model.to("cpu").eval().requires_grad_(False)


def _crop(each: Labelled, rng: random.Random) -> tuple[Tensor, Tensor]:
    """Return a crop with noise, and its labels; a short utterance is followed by silence."""
    start = rng.randrange(max(1, len(each.pitch) - _FRAMES))
    wave, pitch = each.wave[start * HOP : (start + _FRAMES) * HOP], each.pitch[start : start + _FRAMES]
    wave = F.pad(wave, (0, _FRAMES * HOP - len(wave)))
    pitch = F.pad(pitch, (0, _FRAMES - len(pitch)), value=math.nan)
    level = float(wave.square().mean().sqrt()) * 10 ** rng.uniform(-3, -0.5)
    return wave + level * torch.randn_like(wave), pitch


def run(work: Path, recipe: PitchRecipe) -> int:
    """Train the pitch estimator of a working folder and write it there. Returns the number of labelled utterances.

    Raises TrainingError when there is no speech.
    """
    speech = labelled(Corpus.load(work / "data"), recipe.utterances)
    print(f"{len(speech)} utterances", flush=True)
    train(speech, recipe).save(work / WEIGHTS_FILE)
    return len(speech)


def main() -> None:
    train_by_command(__doc__, PitchRecipe, run)


if __name__ == "__main__":
    main()
