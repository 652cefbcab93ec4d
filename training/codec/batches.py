"""Crops of training speech for the codec, with phone labels."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from engine.codec.config import CodecConfig
from engine.text.english.pronunciation import PHONES, WORD_BREAK
from training.device import prefetched
from training.speech.corpus import Utterance
from training.work import TrainingError

# Several phone labels per frame: at 21.5 frames a second, phones often share a frame.
LABELS_PER_FRAME = 4
SILENCE = 0  # also the class of punctuation marks; phones follow in the order of PHONES
PHONE_CLASSES = len(PHONES) + 1

_CLASS_OF = {phone: i for i, phone in enumerate(PHONES, start=1)}
_QUIETEST, _LOUDEST = 0.6, 1.25  # range of the random gain


@dataclass(frozen=True)
class CropBatch:
    """A batch of crops.

    audio: `[B, 1, T * frame_length]` in [-1, 1]. phones: `[B, T * LABELS_PER_FRAME]` int64.
    """

    audio: Tensor
    phones: Tensor

    def to(self, device: torch.device) -> "CropBatch":
        return CropBatch(self.audio.to(device), self.phones.to(device))


class CropSampler:
    """Sampler of crops of whole frames, uniform over the speech.

    A batch depends only on its seed, so a resumed run gets the same batches as an uninterrupted one.
    """

    def __init__(self, utterances: Sequence[Utterance], config: CodecConfig, frames: int) -> None:
        """Raise TrainingError when no utterance is as long as a crop."""
        self._config, self._frames = config, frames
        self.samples = frames * config.frame_length
        self._utterances = [item for item in utterances if item.samples >= self.samples]
        if not self._utterances:
            raise TrainingError(f"No utterance for training holds the {self.samples} samples of a crop.")
        self._ends = np.cumsum([item.samples for item in self._utterances])

    def batch(self, size: int, *seed: int) -> CropBatch:
        rng = np.random.default_rng(seed)
        chosen = np.searchsorted(self._ends, rng.integers(self._ends[-1], size=size), side="right")
        rows = [self._crop(self._utterances[at], rng) for at in chosen]
        audio, phones = (np.stack(column) for column in zip(*rows, strict=True))
        return CropBatch(torch.from_numpy(audio)[:, None], torch.from_numpy(phones))

    def _crop(self, utterance: Utterance, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        start = int(rng.integers(utterance.samples - self.samples + 1))
        gain = np.float32(rng.uniform(_QUIETEST, _LOUDEST) / 32768)
        audio = utterance.audio()[start : start + self.samples].astype(np.float32) * gain
        rate = self._config.sample_rate
        label = self._config.frame_length / rate / LABELS_PER_FRAME
        moments = start / rate + (np.arange(self._frames * LABELS_PER_FRAME) + 0.5) * label
        return audio.clip(-1, 1), phones_at(utterance, moments)


class _Steps(Dataset[CropBatch]):
    """The batch of each step."""

    def __init__(self, sampler: CropSampler, size: int, seed: tuple[int, ...]) -> None:
        self._sampler, self._size, self._seed = sampler, size, seed

    def __getitem__(self, step: int) -> CropBatch:
        return self._sampler.batch(self._size, *self._seed, step)


def crop_batches(
    sampler: CropSampler, size: int, seed: tuple[int, ...], *, first: int, workers: int
) -> Iterator[CropBatch]:
    """Yield `sampler.batch(size, *seed, step)` for the steps from `first` on, prepared in `workers` processes."""
    return prefetched(_Steps(sampler, size, seed), workers, range(first, sys.maxsize))


def phones_at(utterance: Utterance, moments: np.ndarray) -> np.ndarray:
    """Return the phone class at each of `moments` (seconds), int64."""
    spoken = [
        (time, _CLASS_OF.get(token, SILENCE))
        for token, time in zip(utterance.tokens, utterance.times, strict=True)
        if token != WORD_BREAK
    ]
    starts = np.array([time for time, _ in spoken])
    classes = np.array([SILENCE, *(label for _, label in spoken)], dtype=np.int64)
    return np.asarray(classes[np.searchsorted(starts, moments, side="right")])
