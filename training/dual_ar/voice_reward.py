"""The part of a take's reward for its voice: similarity to its speaker's, and distance in pitch."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from training.estimator import speech_of, waveform
from training.pitch.model import WEIGHTS_FILE as PITCH_FILE
from training.pitch.model import PitchNet
from training.speaker.model import WEIGHTS_FILE as SPEAKER_FILE
from training.speaker.model import SpeakerNet
from training.speech.corpus import Corpus


@dataclass(frozen=True)
class SpeakerVoice:
    """The usual voice of a speaker. embedding: unit vector `[128]`. pitch: in semitones above 50 Hz."""

    embedding: Tensor
    pitch: float


@dataclass(frozen=True)
class VoiceJudgement:
    """Scalars with gradients. similarity: cosine of a take's voice and its speaker's. pitch: in semitones above the
    speaker's. reward: in nats per frame."""

    similarity: Tensor
    pitch: Tensor
    reward: Tensor


class VoiceReward:
    """Compares voices with those of training speakers, as a differentiable function of the samples."""

    def __init__(
        self,
        encoder: SpeakerNet,
        estimator: PitchNet,
        voices: Mapping[int, SpeakerVoice],
        *,
        similarity_weight: float,
        pitch_weight: float,
    ) -> None:
        """voices: of each speaker. similarity_weight: reward in nats per frame for a cosine of 1. pitch_weight: for a
        pitch that is one semitone nearer, beyond the first semitone."""
        self._encoder, self._estimator, self._voices = encoder, estimator, dict(voices)
        self._similarity_weight, self._pitch_weight = similarity_weight, pitch_weight

    @classmethod
    def load(cls, work: Path, *, similarity_weight: float, pitch_weight: float) -> "VoiceReward":
        """Load the networks of a working folder, and compute the voices of its training speech.

        Raises TrainingError when one of the networks is missing.
        """
        encoder, estimator = SpeakerNet.load(work / SPEAKER_FILE), PitchNet.load(work / PITCH_FILE)
        voices = {}
        for speaker, own in speech_of(Corpus.load(work / "data")).items():
            waves = [waveform(each)[None] for each in own]
            mean = torch.stack([encoder(wave)[0] for wave in waves]).mean(0)
            pitch = torch.cat([estimator.mean_pitch(wave) for wave in waves]).median()
            voices[speaker] = SpeakerVoice(F.normalize(mean, dim=0), pitch.item())
        return cls(encoder, estimator, voices, similarity_weight=similarity_weight, pitch_weight=pitch_weight)

    @property
    def speakers(self) -> Collection[int]:
        """The speakers that voices can be compared with."""
        return self._voices.keys()

    def to(self, device: str) -> "VoiceReward":
        self._encoder.to(device)
        self._estimator.to(device)
        self._voices = {
            speaker: SpeakerVoice(voice.embedding.to(device), voice.pitch) for speaker, voice in self._voices.items()
        }
        return self

    def __call__(self, audio: Tensor, speaker: int) -> VoiceJudgement:
        """Compare samples `[1, n]` at 16 kHz with a speaker's voice. Raises KeyError for other than `speakers`."""
        voice = self._voices[speaker]
        similarity = self._encoder(audio)[0] @ voice.embedding
        pitch = self._estimator.mean_pitch(audio)[0] - voice.pitch
        distance = F.huber_loss(pitch, torch.zeros_like(pitch))  # squared within a semitone
        return VoiceJudgement(similarity, pitch, self._similarity_weight * similarity - self._pitch_weight * distance)
