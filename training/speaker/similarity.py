"""Similarity of voices to the speakers of the training speech."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from training.recogniser.model import RATE
from training.speaker.model import SpeakerNet
from training.speaker.train import FILE
from training.speech.corpus import SAMPLE_RATE, Corpus
from training.speech.resampling import resampled
from training.work import TrainingError

_UTTERANCES = 40  # of a speaker


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
        if not (work / FILE).exists():
            raise TrainingError(f"No speaker encoder in {work}: train it first (python -m training.speaker.train).")
        model = SpeakerNet.load(work / FILE)
        found: dict[int, list[Tensor]] = defaultdict(list)
        for each in Corpus.load(work / "data").utterances:
            if each.for_training and len(found[each.speaker]) < _UTTERANCES:
                wave = torch.from_numpy(resampled(each.waveform(), SAMPLE_RATE, RATE))
                found[each.speaker].append(model(wave[None])[0])
        return cls(model, {speaker: F.normalize(torch.stack(own).mean(0), dim=0) for speaker, own in found.items()})

    def to(self, device: str) -> "SpeakerSimilarity":
        self._model.to(device)
        self._centroids = {speaker: centroid.to(device) for speaker, centroid in self._centroids.items()}
        return self

    def __call__(self, audio: Tensor, speaker: int) -> Tensor:
        """Return the cosine for samples `[1, n]` at 16 kHz. Raises KeyError for a speaker without training speech."""
        cosine: Tensor = self._model(audio)[0] @ self._centroids[speaker]
        return cosine
