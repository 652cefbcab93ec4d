"""A small phone recogniser: log-mel spectra, convolutions, and connectionist temporal classification (Graves et al.,
2006).

Its blocks are those of ConvNeXt (Liu et al., 2022) in one dimension. Its receptive field is limited to 0.4 s on
either side: with a longer one, the network learns likely sentences and outputs the intended phones instead of the
spoken ones.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
import torchaudio.functional as AF
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.text.english.pronunciation import PHONES

WEIGHTS = Path(__file__).parents[2] / "benchmarks" / "data" / "recogniser.safetensors"
RATE = 16_000  # Hz
FRAME_SECONDS = 0.02  # per output frame
BLANK = len(PHONES)  # the CTC blank
_MELS = 64
_WIDTH, _BLOCKS, _KERNEL = 192, 6, 7
_LEVEL = 0.1  # RMS after normalisation
_FLOOR = 1e-4  # added to the power of each mel band
_USUAL_MEAN = -4.0  # typical log power of a band, subtracted when the means are kept
_SCALE = 0.4  # scales the features to about unit deviation


@dataclass(frozen=True)
class MelSizes:
    """Sizes of log-mel features. fft, window, hop: in samples. lowest, highest: in Hz."""

    mels: int = _MELS
    fft: int = 512
    window: int = 400
    hop: int = 160
    lowest: float = 50.0
    highest: float = 7600.0


class LogMel(nn.Module):
    """Log-mel features `[…, T, mels]` of samples `[…, n]` at 16 kHz; by default 64, one frame per 10 ms.

    The level is removed, and with `centred` also the mean of each band: distance and the microphone's response, but a
    part of the timbre, too. `stretch` multiplies the bands' frequencies: 1.1 simulates a speaker with a longer vocal
    tract.
    """

    def __init__(self, stretch: float = 1.0, *, centred: bool = True, sizes: MelSizes | None = None) -> None:
        super().__init__()
        self._centred = centred
        self._sizes = sizes = sizes or MelSizes()
        lowest, highest = sizes.lowest * stretch, sizes.highest * stretch
        bands = AF.melscale_fbanks(sizes.fft // 2 + 1, lowest, highest, sizes.mels, RATE)
        self.register_buffer("_bands", bands, persistent=False)
        self.register_buffer("_window", torch.hann_window(sizes.window), persistent=False)

    def forward(self, wave: Tensor) -> Tensor:
        power = wave.square().mean(-1, keepdim=True).clamp(min=1e-10)  # the square root has no gradient at zero
        wave = wave * (_LEVEL / (power.sqrt() + 1e-5))
        fft, window, hop = self._sizes.fft, self._sizes.window, self._sizes.hop
        spectrum = torch.stft(
            wave, fft, hop, window, self.get_buffer("_window"), pad_mode="constant", return_complex=True
        )
        mel = (spectrum.abs().square().mT @ self.get_buffer("_bands") + _FLOOR).log()
        features: Tensor = (mel - (mel.mean(dim=-2, keepdim=True) if self._centred else _USUAL_MEAN)) * _SCALE
        return features


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv1d(_WIDTH, _WIDTH, _KERNEL, padding=_KERNEL // 2, groups=_WIDTH)
        self.norm = nn.LayerNorm(_WIDTH)
        self.expand = nn.Linear(_WIDTH, 2 * _WIDTH)
        self.contract = nn.Linear(2 * _WIDTH, _WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map `[B, T, C]` to `[B, T, C]`."""
        around = self.norm(self.depthwise(hidden.mT).mT)
        added: Tensor = self.contract(F.gelu(self.expand(around)))
        return hidden + added


class Recogniser(nn.Module):
    """Network from features to logits of `PHONES`, followed by the blank."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(_MELS, _WIDTH, 5, stride=2, padding=2)
        self.blocks = nn.Sequential(*(_Block() for _ in range(_BLOCKS)))
        self.norm = nn.LayerNorm(_WIDTH)
        self.output = nn.Linear(_WIDTH, len(PHONES) + 1)

    def maps(self, features: Tensor) -> list[Tensor]:
        """Return the outputs of all layers `[B, (T + 1) // 2, 192]` for features `[B, T, 64]`, one frame per 20 ms."""
        found = [self.first(features.mT).mT]
        for block in self.blocks:
            found.append(block(found[-1]))
        return [*found, self.norm(found[-1])]

    def hidden(self, features: Tensor) -> Tensor:
        """Return the last of the `maps` of features `[B, T, 64]`."""
        return self.maps(features)[-1]

    def forward(self, features: Tensor) -> Tensor:
        """Return logits `[B, (T + 1) // 2, 41]` for features `[B, T, 64]`."""
        logits: Tensor = self.output(self.hidden(features))
        return logits

    def save(self, path: Path) -> None:
        """Save the weights in fp16, with the list of phones."""
        tensors = {name: tensor.to(torch.float16).contiguous() for name, tensor in self.state_dict().items()}
        save_file(tensors, path, metadata={"phones": " ".join(PHONES)})

    @classmethod
    def load(cls, path: Path) -> "Recogniser":
        """Load weights saved by `save`, as fp32. Raises ValueError when they are for another list of phones."""
        with safe_open(path, framework="pt") as file:
            if (file.metadata() or {}).get("phones") != " ".join(PHONES):
                raise ValueError(
                    f"{path} was trained for another phone set. Start over: python -m training.recogniser.train"
                )
            state = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 - it is no dict
        model = cls()
        model.load_state_dict(state)
        return model.eval()


def decode(logits: Tensor) -> list[str]:
    """Decode logits `[T, 41]` greedily: the likeliest phone of each frame, without repetitions and blanks."""
    best = torch.unique_consecutive(logits.argmax(-1)).tolist()
    return [PHONES[value] for value in best if value != BLANK]
