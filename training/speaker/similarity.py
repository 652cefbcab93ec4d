"""Similarity of voices to the speakers of the training speech."""

from collections.abc import Collection, Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from training.speaker.model import WEIGHTS_FILE, SpeakerNet
from training.speaker.train import speech_of, waveform
from training.speech.corpus import Corpus
from training.work import TrainingError


class SpeakerSimilarity:
    """Cosine of a voice and the mean voice of a training speaker, as a differentiable function of the samples."""

    def __init__(self, model: SpeakerNet, centroids: Mapping[int, Tensor]) -> None:
        """centroids: embedding `[128]` of each speaker."""
        self._model, self._centroids = model, dict(centroids)

    @classmethod
    def load(cls, work: Path) -> "SpeakerSimilarity":
        """Load the speaker encoder of a working folder, and embed the training speech.

        Raises TrainingError when there is no encoder.
        """
        if not (work / WEIGHTS_FILE).exists():
            raise TrainingError(f"No speaker encoder in {work}: train it first (python -m training.speaker.train).")
        model, speech = SpeakerNet.load(work / WEIGHTS_FILE), speech_of(Corpus.load(work / "data"))
        embedded = {speaker: [model(waveform(each)[None])[0] for each in own] for speaker, own in speech.items()}
        return cls(model, {speaker: F.normalize(torch.stack(own).mean(0), dim=0) for speaker, own in embedded.items()})

    @property
    def speakers(self) -> Collection[int]:
        """The speakers that voices can be compared with."""
        return self._centroids.keys()

    def to(self, device: str) -> "SpeakerSimilarity":
        self._model.to(device)
        self._centroids = {speaker: centroid.to(device) for speaker, centroid in self._centroids.items()}
        return self

    def __call__(self, audio: Tensor, speaker: int) -> Tensor:
        """Return the cosine for samples `[1, n]` at 16 kHz. Raises KeyError for other than `speakers`."""
        cosine: Tensor = self._model(audio)[0] @ self._centroids[speaker]
        return cosine
