"""Difference of voices' pitch to the speakers of the training speech."""

from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from torch import Tensor

from training.pitch.model import WEIGHTS_FILE, PitchNet
from training.speaker.train import speech_of, waveform
from training.speech.corpus import Corpus
from training.work import TrainingError


class PitchDifference:
    """Mean pitch of a voice less the usual one of a training speaker, as a differentiable function of the samples."""

    def __init__(self, model: PitchNet, pitches: Mapping[int, float]) -> None:
        """pitches: usual pitch of each speaker, in semitones above 50 Hz."""
        self._model, self._pitches = model, dict(pitches)

    @classmethod
    def load(cls, work: Path) -> "PitchDifference":
        """Load the pitch estimator of a working folder, and estimate the pitch of its training speech.

        Raises TrainingError when there is no estimator.
        """
        if not (work / WEIGHTS_FILE).exists():
            raise TrainingError(f"No pitch estimator in {work}: train it first (python -m training.pitch.train).")
        model, speech = PitchNet.load(work / WEIGHTS_FILE), speech_of(Corpus.load(work / "data"))
        found = {
            speaker: torch.cat([model.mean_pitch(waveform(each)[None]) for each in own])
            for speaker, own in speech.items()
        }
        return cls(model, {speaker: each.median().item() for speaker, each in found.items()})

    @property
    def speakers(self) -> Collection[int]:
        """The speakers that voices can be compared with."""
        return self._pitches.keys()

    def to(self, device: str) -> "PitchDifference":
        self._model.to(device)
        return self

    def __call__(self, audio: Tensor, speaker: int) -> Tensor:
        """Return the difference in semitones for samples `[1, n]` at 16 kHz.

        Raises KeyError for other than `speakers`.
        """
        difference: Tensor = self._model.mean_pitch(audio)[0] - self._pitches[speaker]
        return difference
