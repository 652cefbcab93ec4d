"""Codec quality on held-out speech."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.views import whole_frames
from training.codec.losses.audio import SpectralLoss, pitch_of
from training.speech.corpus import Utterance


@dataclass(frozen=True)
class Quality:
    """Codec quality.

    mel: distance of the log mel spectra. pitch: correlation of log F0 where both are voiced, or NaN.
    """

    mel: float
    pitch: float

    def __str__(self) -> str:
        return f"mel {self.mel:.3f}, F0 correlation {self.pitch:.2f}"


@torch.no_grad()
def held_out_quality(codec: Codec, utterances: Sequence[Utterance], spectral: SpectralLoss) -> Quality:
    """Encode and decode the utterances on the codec's device and measure the result."""
    config, device = codec.config, next(codec.parameters()).device
    distances, pitches = [], []
    for utterance in utterances:
        samples = torch.from_numpy(utterance.waveform())
        audio = whole_frames(samples.to(device)[None, None], config.frame_length)
        made = codec.decode(codec.encode(audio))
        distances.append(spectral(made, audio)[0].item())
        pairs = [pitch_of(x, config.sample_rate, config.frame_length) for x in (audio, made)]
        voiced = pairs[0][1] & pairs[1][1]
        pitches.append(torch.stack([log_f0[voiced] for log_f0, _ in pairs]).cpu())
    return Quality(float(np.mean(distances)), _correlation(torch.cat(pitches, dim=1)))


def _correlation(pairs: Tensor) -> float:
    """Return Pearson's r of `[2, n]`, or NaN where it is undefined."""
    if pairs.shape[1] < 2 or not pairs.std(1).all():
        return float("nan")
    return torch.corrcoef(pairs)[0, 1].item()
