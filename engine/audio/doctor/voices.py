"""Detection of two voices in a clip, without a speaker model.

The speech is divided into the two groups whose voiced sounds differ most, in spectral shape (a few mel-cepstral
coefficients, mostly of the vocal tract) and in pitch. The distance between the groups' means is the Mahalanobis
distance with the covariance within the groups, as in classic speaker diarisation (S. Chen and P. Gopalakrishnan, 1998,
compare the whole Gaussians).

Detections measured on joined sentences, 8 to 20 s, of 158 synthetic speakers and of 8 people (telephone prompts and an
audiobook):

                                                        clips   at `UNLIKE`   at `TWO_VOICES`
    one synthetic voice                                  116         0              0
    one, its sentences shifted (1.5 semitones, normal)    58         2              0
    one, its sentences shifted by -3, 0 or 4 semitones    30        10              5
    one person                                           140         3              0
    two synthetic voices, one after the other             60        59             56
    two synthetic voices, sentence by sentence            60        54             47
    a man and a woman, one after the other                30        21             21
    a man and a woman, sentence by sentence               30        22             16
    two people of one sex, one after the other            24        12              6
    two people of one sex, sentence by sentence           24         8              5

This is no proof, and an actor may count as two voices, so the light is amber at most.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from engine.audio.doctor.spectrum import power_spectra
from engine.audio.vad import SAMPLE_RATE, Span

# Distances, in standard deviations within a voice.
UNLIKE = 1.8  # an even voice has 1.0 in the median and up to 1.8 in 99 of 100 clips; two have 1 to 8
TWO_VOICES = 2.2

_HOP = 160  # samples, 10 ms
_WINDOW = 512  # samples, for the spectrum
_LONG_WINDOW = 1_024  # samples, for pitch: three periods of the lowest voice
_SHORTEST_PERIOD, _LONGEST_PERIOD = 36, 250  # samples: 444 to 64 Hz
_PADDED = 1_280  # samples: the window and the longest lag
_VOICED = 0.6  # autocorrelation at the period, relative to lag 0
_AS_GOOD = 0.92  # of the best period's autocorrelation
_SOFTEST = 1e-3  # of the power of loud speech; fainter sounds are background

_BANDS = 24  # mel bands from 100 to 3,800 Hz: the telephone band, so that bandwidth has no influence
_LOWEST, _HIGHEST = 100.0, 3_800.0
_COEFFICIENTS = 12
_CHUNK = 60  # voiced frames that change group together: about a second of speech
_SMALLEST = 150  # voiced frames that a group must have: about two and a half seconds of speech
# Expected squared distance between groups of one voice, times frames. Frames are correlated, as sounds last several.
_CHANCE = 6.0 * (_COEFFICIENTS + 1)
_RIDGE = 0.05  # share of each variance that is added, because a covariance of few frames is uncertain
# Semitones squared, added to the variance of pitch, because even readers may raise single sentences.
_LIFT = 6.0
_FLOOR = np.array([1e-6] * _COEFFICIENTS + [_LIFT])

Frames = NDArray[np.float64]


@dataclass(frozen=True)
class SpeakerGroups:
    """Result of `compare_voices`.

    distance: distance between the two groups of speech, in standard deviations, 0 or more; None for too little speech.
    groups: the group of each segment of speech.
    """

    distance: float | None
    groups: tuple[int, ...]


def compare_voices(speech: NDArray[np.float32], spans: tuple[Span, ...]) -> SpeakerGroups:
    """Compare the most different parts of a clip's speech; independent of gain.

    Args:
        speech: float32 [n], mono, 16 kHz, without rumble: with it, everything appears periodic at the shortest period.
        spans: its segments of speech.
    """
    alike = SpeakerGroups(None, (0,) * len(spans))
    if len(speech) < _LONG_WINDOW:
        return alike
    cepstra, at = _voiced(speech)
    chunks = _chunks(at, spans)
    if len(chunks) < 2:
        return alike
    frames = cepstra[np.concatenate(chunks)]
    chunk_of = np.repeat(np.arange(len(chunks)), [len(chunk) for chunk in chunks])
    found = _most_unlike(frames, chunk_of)
    if found is None:
        return alike
    squared, second = found
    return SpeakerGroups(max(squared, 0.0) ** 0.5, _by_span(at[np.concatenate(chunks)], second[chunk_of], spans))


def _voiced(speech: NDArray[np.float32]) -> tuple[Frames, NDArray[np.float64]]:
    """Return cepstra and pitch of the voiced frames [frames, 13], and the middle of each frame in seconds."""
    padded = np.pad(speech, _LONG_WINDOW // 2)
    windows = np.lib.stride_tricks.sliding_window_view(padded, _LONG_WINDOW)[::_HOP]
    inner = windows[:, (_LONG_WINDOW - _WINDOW) // 2 : (_LONG_WINDOW + _WINDOW) // 2]
    power = power_spectra(inner * np.hanning(_WINDOW).astype(np.float32))
    loudness = power.mean(axis=1)
    loud = loudness > np.quantile(loudness, 0.95) * _SOFTEST
    pitch = _pitch(windows[loud])
    voiced = np.flatnonzero(loud)[pitch > 0]
    return np.column_stack((_cepstra(power[voiced]), pitch[pitch > 0])), voiced * _HOP / SAMPLE_RATE


def _pitch(windows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Estimate pitch: windows [frames, 1024] → semitones above 1 Hz [frames], 0 for unvoiced frames.

    Of periods that fit about equally well, the shortest is chosen, because its multiples fit too.
    """
    taper = np.hanning(_LONG_WINDOW).astype(np.float32)
    own = _autocorrelation(taper[None])[0]
    correlation = _autocorrelation(windows * taper) / (own / own[0])
    fits = correlation[:, _SHORTEST_PERIOD:_LONGEST_PERIOD]
    best = fits.max(axis=1)
    good = fits >= _AS_GOOD * best[:, None]
    # The maximum of the first run of good periods.
    humps = np.cumsum(~good, axis=1)
    first = humps == np.take_along_axis(humps, good.argmax(axis=1)[:, None], axis=1)
    period = np.where(first & good, fits, -np.inf).argmax(axis=1) + _SHORTEST_PERIOD
    semitones: NDArray[np.float64] = 12 * np.log2(SAMPLE_RATE / period)
    return np.where(best > _VOICED * correlation[:, 0], semitones, 0.0)


def _autocorrelation(windows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Autocorrelate [frames, n] → [frames, lags up to the longest period]."""
    # Torch's transform takes half the time of NumPy's.
    spectrum = torch.fft.rfft(torch.from_numpy(windows), _PADDED)
    power = spectrum.real.square() + spectrum.imag.square()
    correlation: NDArray[np.float32] = torch.fft.irfft(power, _PADDED)[:, :_LONGEST_PERIOD].numpy()
    return correlation


def _cepstra(power: NDArray[np.float32]) -> Frames:
    """Compute mel cepstra without the first coefficient (loudness): [frames, 257] → [frames, 12]."""
    mel = np.log(power.astype(np.float64) @ _mel_bands().T + 1e-10 * max(float(power.mean()), 1e-20))
    order = np.arange(1, _COEFFICIENTS + 1)
    cosines = np.cos(np.pi * np.outer(order, np.arange(_BANDS) + 0.5) / _BANDS) * (2 / _BANDS) ** 0.5
    cepstra: Frames = mel @ cosines.T
    return cepstra


def _mel_bands() -> Frames:
    """Return triangular filters, evenly spaced on the mel scale: [24, 257]."""
    mels = np.linspace(_mel(_LOWEST), _mel(_HIGHEST), _BANDS + 2)
    low, middle, high = (700 * (10 ** (mels[i : _BANDS + i, None] / 2_595) - 1) for i in range(3))
    frequencies = np.fft.rfftfreq(_WINDOW, 1 / SAMPLE_RATE)
    return np.maximum(0, np.minimum((frequencies - low) / (middle - low), (high - frequencies) / (high - middle)))


def _mel(hertz: float) -> float:
    return 2_595 * float(np.log10(1 + hertz / 700))


def _chunks(at: NDArray[np.float64], spans: tuple[Span, ...]) -> list[NDArray[np.intp]]:
    """Group indices of voiced frames into chunks of about a second, split at pauses, where speakers may change."""
    chunks: list[NDArray[np.intp]] = []
    waiting = np.zeros(0, np.intp)
    for start, end in spans:
        waiting = np.concatenate((waiting, np.flatnonzero((at >= start) & (at < end))))
        if len(waiting) >= _CHUNK:
            chunks += np.array_split(waiting, max(len(waiting) // (_CHUNK * 3 // 2), 1))
            waiting = waiting[:0]
    if chunks and len(waiting):
        chunks[-1] = np.concatenate((chunks[-1], waiting))
    return chunks


def _most_unlike(frames: Frames, chunk_of: NDArray[np.intp]) -> tuple[float, NDArray[np.bool_]] | None:
    """Find the two groups of chunks that lie farthest apart.

    Return their squared distance and the chunks of the second; None if no division leaves both large enough.
    """
    counts = np.bincount(chunk_of)
    means = np.stack([frames[chunk_of == chunk].mean(axis=0) for chunk in range(len(counts))])
    best: tuple[float, NDArray[np.bool_]] | None = None
    for second in _guesses(frames, means, counts, chunk_of):
        for _ in range(6):  # converges after two or three
            if min(counts[second].sum(), counts[~second].sum()) < _SMALLEST:
                break
            squared, direction, middle = _apart(frames, second[chunk_of])
            if best is None or squared > best[0]:
                best = squared, second
            moved = means @ direction > middle
            if np.array_equal(moved, second):
                break
            second = moved
    return best


def _guesses(
    frames: Frames, means: Frames, counts: NDArray[np.intp], chunk_of: NDArray[np.intp]
) -> list[NDArray[np.bool_]]:
    """Return initial divisions: along the direction of greatest difference, for alternating speakers; and before and
    after each chunk, for clips joined from two speakers."""
    within = _covariance(frames - means[chunk_of])
    whitened = (means - frames.mean(axis=0)) @ np.linalg.cholesky(np.linalg.inv(within))
    widest = np.linalg.svd(whitened * np.sqrt(counts)[:, None], full_matrices=False)[2][0]
    return [whitened @ widest > 0, *(np.arange(len(counts)) < first for first in range(1, len(counts)))]


def _apart(frames: Frames, second: NDArray[np.bool_]) -> tuple[float, Frames, float]:
    """Return the squared distance of two groups minus that expected by chance, the direction that separates them [13],
    and the midpoint on it."""
    one, two = frames[~second], frames[second]
    means = one.mean(axis=0), two.mean(axis=0)
    within = _covariance(np.concatenate((one - means[0], two - means[1])))
    difference = means[1] - means[0]
    direction = np.linalg.solve(within, difference)
    squared = float(difference @ direction) - _CHANCE * (1 / len(one) + 1 / len(two))
    return squared, direction, float(direction @ (means[0] + means[1]) / 2)


def _covariance(centred: Frames) -> Frames:
    """Compute the regularised covariance: [frames, 13] → [13, 13]."""
    covariance: Frames = centred.T @ centred / len(centred)
    # The last term is a floor for constant signals, such as a tone.
    return covariance + np.diag(_RIDGE * np.diag(covariance) + _FLOOR)


def _by_span(at: NDArray[np.float64], second: NDArray[np.bool_], spans: tuple[Span, ...]) -> tuple[int, ...]:
    """Return the majority group of each segment of speech; without frames, that of the previous segment."""
    groups: list[int] = []
    for start, end in spans:
        inside = second[(at >= start) & (at < end)]
        groups.append(int(inside.mean() > 0.5) if len(inside) else groups[-1] if groups else 0)
    return tuple(groups)
