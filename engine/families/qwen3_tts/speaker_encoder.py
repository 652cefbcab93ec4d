"""The speaker encoder of a Base release: a clip → an embedding of its speaker.

Source: ECAPA-TDNN (Desplanques et al. 2020) as implemented in the package qwen-tts 0.1.1, on a mel spectrogram with
Slaney's scale. B batch, C channels, T spectrogram frames, n samples.
"""

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor, nn

from engine.families.qwen3_tts.config import SpeakerEncoderConfig

_FFT, _HOP = 1024, 256
_LOWEST, _HIGHEST = 0.0, 12_000.0  # Hz
_QUIETEST = 1e-5


def _conv(inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> nn.Conv1d:
    return nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding="same", padding_mode="reflect")


class TimeDelay(nn.Module):
    """A dilated convolution and ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = _conv(inputs, outputs, kernel, dilation)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x))


class Res2Net(nn.Module):
    """`scale` groups of channels; each but the first is convolved after adding the previous group's output."""

    def __init__(self, channels: int, scale: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.scale, width = scale, channels // scale
        self.blocks = nn.ModuleList(TimeDelay(width, width, kernel, dilation) for _ in range(scale - 1))

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = x.chunk(self.scale, dim=1)
        out = [first]
        for i, (block, part) in enumerate(zip(self.blocks, rest, strict=True)):
            out.append(block(part if i == 0 else part + out[-1]))
        return torch.cat(out, dim=1)


class SqueezeExcitation(nn.Module):
    """Scales each channel by a factor computed from the mean over time."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = _conv(channels, squeezed), _conv(squeezed, channels)

    def forward(self, x: Tensor) -> Tensor:
        factor = self.conv2(F.relu(self.conv1(x.mean(dim=2, keepdim=True))))
        return x * torch.sigmoid(factor)


class SqueezeExcitationRes2Net(nn.Module):
    """Kernel-1 convolution, Res2Net, kernel-1 convolution, squeeze and excitation; plus the input."""

    def __init__(self, channels: int, config: SpeakerEncoderConfig, kernel: int, dilation: int) -> None:
        super().__init__()
        self.tdnn1, self.tdnn2 = TimeDelay(channels, channels), TimeDelay(channels, channels)
        self.res2net_block = Res2Net(channels, config.scale, kernel, dilation)
        self.se_block = SqueezeExcitation(channels, config.squeeze_channels)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x))))
        return out


class AttentivePooling(nn.Module):
    """Mean and standard deviation over time, weighted per channel: `[B, C, T]` → `[B, 2 C, 1]`."""

    def __init__(self, channels: int, attention_channels: int) -> None:
        super().__init__()
        self.tdnn = TimeDelay(3 * channels, attention_channels)
        self.conv = _conv(attention_channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        mean, deviation = _moments(x, x.new_full((), 1 / x.shape[2]))
        context = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), dim=1)
        weights = torch.softmax(self.conv(torch.tanh(self.tdnn(context))), dim=2)
        return torch.cat(_moments(x, weights), dim=1)


def _moments(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return weighted mean and standard deviation over time, both `[B, C, 1]`."""
    mean = (weights * x).sum(2, keepdim=True)
    return mean, (weights * (x - mean).pow(2)).sum(2, keepdim=True).clamp(1e-12).sqrt()


class EcapaTdnn(nn.Module):
    """Clip → speaker embedding, in fp32."""

    filters: Tensor

    def __init__(self, config: SpeakerEncoderConfig) -> None:
        super().__init__()
        self.config = config
        channels = config.channels
        layers: list[nn.Module] = [TimeDelay(config.mels, channels[0], config.kernels[0], config.dilations[0])]
        layers += [
            SqueezeExcitationRes2Net(channels[i], config, config.kernels[i], config.dilations[i])
            for i in range(1, len(channels) - 1)
        ]
        self.blocks = nn.ModuleList(layers)
        self.mfa = TimeDelay(channels[-1], channels[-1], config.kernels[-1], config.dilations[-1])
        self.asp = AttentivePooling(channels[-1], config.attention_channels)
        self.fc = _conv(2 * channels[-1], config.dim)
        with torch.device("cpu"):  # so that the table has values even under the meta device
            filters = torchaudio.functional.melscale_fbanks(
                _FFT // 2 + 1, _LOWEST, _HIGHEST, config.mels, config.sample_rate, "slaney", "slaney"
            )
        self.register_buffer("filters", filters, persistent=False)

    @torch.inference_mode()
    def embed(self, samples: Tensor) -> Tensor:
        """Embed mono samples `[n]` at the config's sample rate, n > 384 → `[D]`."""
        x: Tensor = self.blocks[0](self._mel_spectrogram(samples.to(self.filters)[None]))
        outputs = []
        for block in self.blocks[1:]:
            x = block(x)
            outputs.append(x)
        embedded: Tensor = self.fc(self.asp(self.mfa(torch.cat(outputs, dim=1))))
        return embedded[0, :, 0]

    def _mel_spectrogram(self, samples: Tensor) -> Tensor:
        """Samples `[B, n]` → log mel magnitudes `[B, mels, T]`."""
        padding = (_FFT - _HOP) // 2
        padded = F.pad(samples[:, None], (padding, padding), mode="reflect")[:, 0]
        window = torch.hann_window(_FFT, dtype=torch.float32, device=samples.device)
        spectrum = torch.stft(padded, _FFT, _HOP, window=window, center=False, return_complex=True)
        magnitude = (torch.view_as_real(spectrum).pow(2).sum(-1) + 1e-9).sqrt()
        return torch.matmul(self.filters.T, magnitude).clamp(min=_QUIETEST).log()
