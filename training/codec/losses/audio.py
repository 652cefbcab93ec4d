"""Training losses of the codec: spectra, waveform, pitch and phones.

Shapes: B batch, n samples, D latent width, T frames.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchaudio.functional import melscale_fbanks
from torchaudio.transforms import Resample

from training.codec.batches import LABELS_PER_FRAME, PHONE_CLASSES
from training.codec.losses.periods import first_high_peak
from training.recogniser.model import RATE, LogMel, Recogniser

# Window in samples, mel bands, weight. Only the long windows resolve the harmonics; without them the codec never
# learns pitch.
_SCALES = ((4096, 160, 2.0), (2048, 160, 2.0), (1024, 80, 1.5), (512, 40, 1.0), (256, 20, 0.3))
_HARMONIC_WINDOWS = (4096, 2048, 1024)
# Harmonics are compared below sample_rate / 6.
_HARMONIC_SHARE = 6
_MEL_FLOOR, _MAGNITUDE_FLOOR = 1e-4, 3e-3

_LOWEST_F0, _HIGHEST_F0 = 55.0, 400.0  # Hz
_PITCH_WINDOW = 2048 / 22050  # seconds
_PERIODIC, _AUDIBLE = 0.55, 0.01  # autocorrelation and RMS of a voiced frame
_USUAL_LOG_F0 = 7.2  # log2 of 147 Hz


class SpectralLoss(nn.Module):
    """Distances between two spectra in log10 units, at five window lengths."""

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        for window, bands, _ in _SCALES:
            bank = melscale_fbanks(window // 2 + 1, 0.0, sample_rate / 2, bands, sample_rate)
            self.register_buffer(f"bank_{window}", bank.T, persistent=False)
            self.register_buffer(f"window_{window}", torch.hann_window(window), persistent=False)

    def forward(self, reconstructed: Tensor, original: Tensor) -> tuple[Tensor, Tensor]:
        """Compare audio `[B, 1, n]`. Return L1 of the log mel spectra and L1 of the low-frequency log magnitudes."""
        mel = harmonics = reconstructed.new_zeros(())
        for window, _, weight in _SCALES:
            a, b = self._magnitudes(reconstructed, window), self._magnitudes(original, window)
            bank: Tensor = getattr(self, f"bank_{window}")
            mel = mel + weight / len(_SCALES) * _log_distance(bank @ a, bank @ b, _MEL_FLOOR)
            if window in _HARMONIC_WINDOWS:
                low = window // _HARMONIC_SHARE
                harmonics = harmonics + _log_distance(a[:, :low], b[:, :low], _MAGNITUDE_FLOOR)
        return mel, harmonics

    def _magnitudes(self, audio: Tensor, window: int) -> Tensor:
        shape: Tensor = getattr(self, f"window_{window}")
        spectrum = torch.stft(audio[:, 0], window, window // 4, window=shape, return_complex=True)
        # Not abs(), whose gradient at zero is not finite.
        return (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()


def _log_distance(a: Tensor, b: Tensor, floor: float) -> Tensor:
    return (a.clamp(floor).log10() - b.clamp(floor).log10()).abs().mean()


class RecognitionLoss(nn.Module):
    """Distance between a copy and its original in the phone recogniser's outputs.

    L1 distance of its feature maps, as in perceptual losses (Johnson et al., 2016; Germain et al., 2019), and the
    Kullback-Leibler divergence of its phone distributions. The recogniser itself is frozen.
    """

    def __init__(self, sample_rate: int, recogniser: Recogniser) -> None:
        super().__init__()
        self._resample, self._mel = Resample(sample_rate, RATE), LogMel()
        self._recogniser = recogniser.requires_grad_(False)

    def forward(self, reconstructed: Tensor, original: Tensor) -> tuple[Tensor, Tensor]:
        """Compare audio `[B, 1, n]`. Return the relative L1 of all feature maps, and the divergence in nats a frame."""
        with torch.no_grad():
            maps, phones = self._outputs(original)
        copies, guesses = self._outputs(reconstructed)
        features = [(a - b).abs().mean() / a.abs().mean() for a, b in zip(maps, copies, strict=True)]
        divergence = F.kl_div(guesses.flatten(0, 1), phones.flatten(0, 1), reduction="batchmean", log_target=True)
        return torch.stack(features).mean(), divergence

    def _outputs(self, audio: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the feature maps of all layers, and the log-probabilities of phones `[B, T, 41]`."""
        maps = self._recogniser.maps(self._mel(self._resample(audio[:, 0])))
        return maps, self._recogniser.output(maps[-1]).log_softmax(-1)


@torch.no_grad()
def pitch_of(audio: Tensor, sample_rate: int, frame_length: int) -> tuple[Tensor, Tensor]:
    """Estimate log2 of F0 in Hz `[B, T]` and voicing `[B, T]` bool, from audio `[B, 1, T * frame_length]`.

    Uses the autocorrelation around the middle of each frame. F0 of unvoiced frames is undefined.
    """
    window = 2 * round(_PITCH_WINDOW * sample_rate / 2)
    margin = (window - frame_length) // 2
    padded = F.pad(audio[:, 0], (margin, window - frame_length - margin))
    frames = padded.unfold(1, window, frame_length)
    frames = frames - frames.mean(-1, keepdim=True)
    shape = torch.hann_window(window, device=audio.device)
    first, last = round(sample_rate / _HIGHEST_F0), round(sample_rate / _LOWEST_F0)
    # Divide out the window's own autocorrelation, which would favour short lags.
    power = _autocorrelation(frames * shape, last) / _autocorrelation(shape, last)
    periodicity = power[..., first:] / (power[..., :1] + 1e-6)
    best = periodicity.amax(-1)
    lag = first + first_high_peak(periodicity, spread=first // 4)
    voiced = (best > _PERIODIC) & (frames.square().mean(-1).sqrt() > _AUDIBLE)
    return torch.log2(sample_rate / lag), voiced


def _autocorrelation(x: Tensor, lags: int) -> Tensor:
    size = 2 * x.shape[-1]
    found: Tensor = torch.fft.irfft(torch.fft.rfft(x, size).abs().square(), size)
    return found[..., :lags]


class CodecHeads(nn.Module):
    """Linear heads from quantized latents to pitch and phones. Their losses make the codes carry both."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.pitch = nn.Linear(dim, 2)
        self.phones = nn.Linear(dim, LABELS_PER_FRAME * PHONE_CLASSES)

    def pitch_loss(self, latents: Tensor, log_f0: Tensor, voiced: Tensor) -> Tensor:
        """Return the L1 of F0 in octaves plus the voicing loss.

        `latents` `[B, D, T]` are those of all codebooks; `log_f0` and `voiced` come from `pitch_of`.
        """
        guess, voicing = self.pitch(latents.transpose(1, 2)).unbind(-1)
        mask = voiced.to(guess.dtype)
        octaves = ((guess - (log_f0 - _USUAL_LOG_F0)).abs() * mask).sum() / mask.sum().clamp(min=1)
        loss: Tensor = octaves + 0.3 * F.binary_cross_entropy_with_logits(voicing, mask)
        return loss

    def phone_loss(self, semantic: Tensor, phones: Tensor) -> Tensor:
        """Return the cross-entropy of `phones` `[B, T * LABELS_PER_FRAME]`, given semantic latents `[B, D, T]`."""
        logits = self.phones(semantic.transpose(1, 2)).reshape(-1, PHONE_CLASSES)
        return F.cross_entropy(logits, phones.flatten())
