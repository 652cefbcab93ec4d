"""Speaker similarity with the GE2E speaker encoder of Resemblyzer (Wan et al., 2018; weights Apache-2.0).

Only the weights in the `resemblyzer` wheel are used. The network is three LSTM layers and a linear layer. Importing
the package itself would add a compiler and a resampler as dependencies.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torchaudio
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.judges.sound import at_rate

RATE = 16_000  # Hz
_MELS, _WIDTH, _LAYERS = 40, 256, 3
_WINDOW, _STEP = 160, 77  # in mel frames of 10 ms: window length and hop (1.3 windows per second)
_LEVEL = 10 ** (-17 / 20)  # RMS; the network depends on it, and this level agrees best with the published front end
_QUIET = 10 ** (-40 / 20)


class SpeakerEncoder(nn.Module):
    """Encoder of mono samples to a unit vector of 256 values. Similarity is the cosine of two vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(_MELS, _WIDTH, _LAYERS, batch_first=True)
        self.linear = nn.Linear(_WIDTH, _WIDTH)
        self._mel = torchaudio.transforms.MelSpectrogram(
            RATE,
            n_fft=400,
            hop_length=160,
            n_mels=_MELS,
            norm="slaney",
            mel_scale="slaney",
            pad_mode="constant",
        )
        state = torch.load(_published(), map_location="cpu", weights_only=True)["model_state"]
        # The two similarity scalars of the training loss are not part of the encoder.
        state = {name: value for name, value in state.items() if not name.startswith("similarity_")}
        state |= {f"_mel.{name}": value for name, value in self._mel.state_dict().items()}
        self.load_state_dict(state)
        self.eval()

    @torch.no_grad()
    def embed(self, samples: NDArray[np.float32], sample_rate: int) -> NDArray[np.float32]:
        """Embed the voice of mono samples [n] at `sample_rate` Hz. Return a unit vector float32 [256].

        Raises ValueError when there is only silence.
        """
        wave = at_rate(samples, sample_rate, RATE)
        wave = _without_pauses(wave)
        wave = wave * (_LEVEL / wave.square().mean().sqrt())
        windows = self._windows(self._mel(wave).T)
        _, (hidden, _) = self.lstm(windows)
        vectors = nn.functional.normalize(self.linear(hidden[-1]).relu(), dim=1)
        unit: NDArray[np.float32] = nn.functional.normalize(vectors.mean(dim=0), dim=0).numpy()
        return unit

    def _windows(self, mel: Tensor) -> Tensor:
        """Split [frames, mels] into windows [N, 160, mels]. The last one is kept if it is three quarters full."""
        starts = range(0, max(1, len(mel) - _WINDOW // 4 * 3 + 1), _STEP)
        padded = nn.functional.pad(mel, (0, 0, 0, _WINDOW))
        return torch.stack([padded[start : start + _WINDOW] for start in starts])


def own_is_nearest(output: NDArray[np.float32], own: int, references: Sequence[NDArray[np.float32]]) -> bool:
    """Return whether reference number `own` is the nearest of all references to the output's vector."""
    return int(np.argmax(np.stack(list(references)) @ output)) == own


def _published() -> Path:
    found = find_spec("resemblyzer")
    if found is None or found.origin is None:
        raise FileNotFoundError("the speaker encoder's weights are missing: pip install --no-deps resemblyzer")
    return Path(found.origin).with_name("pretrained.pt")


def _without_pauses(wave: Tensor) -> Tensor:
    """Concatenate the 30 ms frames that are at most 40 dB below the loudest one."""
    size = RATE * 30 // 1000
    frames = nn.functional.pad(wave, (0, -len(wave) % size)).reshape(-1, size)
    loudness = frames.square().mean(dim=1).sqrt()
    if not len(wave) or float(loudness.max()) < 1e-5:
        raise ValueError("there is nothing but silence")
    return frames[loudness > _QUIET * loudness.max()].reshape(-1)
