"""The fundamental frequency of speech, found while it arrives.

In each hop there are a few candidates, the highest peaks of an autocorrelation; the best path through them, or through
"unvoiced", is that of Boersma (1993), decided a few hops later.

Shapes: H hops, C candidates.
"""

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

LOWEST, HIGHEST = 65.0, 500.0  # Hz
DELAY = 8  # hops, after which a hop is decided
_WINDOW = 0.035  # seconds
_CUTOFF = 900.0  # Hz: the autocorrelation is of what is below
_CANDIDATES = 6
_OCTAVE = 0.02  # what a candidate loses for each octave below the highest frequency
# What "unvoiced" has, where a candidate has its autocorrelation. Little, because voiced sounds may be rough; noise is
# told apart by its spectrum.
_UNVOICED = 0.2
_QUIET, _QUIET_UNVOICED = 0.003, 0.35  # root mean square, below which "unvoiced" has up to so much more
_JUMP, _SWITCH = 0.35, 0.14  # costs of an octave, and of a change between voiced and unvoiced
_SILENT = 1e-9


@dataclass(frozen=True)
class Candidates:
    """Candidates of some hops. frequencies: Hz `[H, C]`. scores: `[H, C]`. unvoiced: `[H]`."""

    frequencies: Tensor
    scores: Tensor
    unvoiced: Tensor


class PitchAnalysis:
    """The sizes and tables of the autocorrelation at one sample rate. span: samples of a window."""

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self.span = 2 * round(_WINDOW * sample_rate / 2)
        self._first, self._last = round(sample_rate / HIGHEST), round(sample_rate / LOWEST)
        self._transform = 1 << (self.span + self._last).bit_length()
        self._window = torch.hann_window(self.span, dtype=torch.float32)
        spectrum = torch.fft.rfft(self._window, self._transform)
        self._window_correlation = self._correlation(spectrum.abs().square())
        frequencies = torch.arange(self._transform // 2 + 1, dtype=torch.float32) * (sample_rate / self._transform)
        self._lowpass = 1 / (1 + (frequencies / _CUTOFF) ** 8)
        lags = torch.arange(self._first, self._last + 1, dtype=torch.float32)
        self._loss = _OCTAVE * torch.log2(lags / self._first)

    def candidates(self, windows: Tensor) -> Candidates:
        """Return the candidates in windows `[H, span]`, each around its hop."""
        windows = windows - windows.mean(1, keepdim=True)
        spectra = torch.fft.rfft(windows * self._window, self._transform)
        found = self._correlation((spectra.real.square() + spectra.imag.square()) * self._lowpass)
        found = found / self._window_correlation
        around = found[:, self._first - 1 :] / (found[:, :1] + _SILENT)
        before, here, after = around[:, :-2], around[:, 1:-1], around[:, 2:]
        peaks = torch.where((here > before) & (here >= after), here - self._loss, -1.0)
        scores, at = peaks.topk(_CANDIDATES, dim=1)
        a, b, c = (side.gather(1, at) for side in (before, here, after))
        offset = (0.5 * (a - c) / (a - 2 * b + c).clamp(max=-1e-6)).clamp(-0.5, 0.5)  # of a parabola's top
        level = windows.square().mean(1).sqrt()
        unvoiced = _UNVOICED + _QUIET_UNVOICED * (1 - level / _QUIET).clamp(min=0)
        return Candidates(self._rate / (self._first + at + offset), scores, unvoiced)

    def _correlation(self, power: Tensor) -> Tensor:
        """Return the autocorrelation up to one more than the longest lag, for power spectra."""
        found: Tensor = torch.fft.irfft(power, self._transform)
        return found[..., : self._last + 2]


class PitchPath:
    """The best path so far, through the candidates of one signal."""

    def __init__(self) -> None:
        self._totals: list[float] = []  # of the paths that end in each state; the last state is "unvoiced"
        self._octaves: list[float] = []  # of the candidates of the last hop
        self._hops: deque[tuple[list[float], list[int]]] = deque()  # frequencies and best previous states, undecided

    def extend(self, found: Candidates) -> list[float]:
        """Take the next hops; return the frequencies of those that are decided now, Hz, 0 for unvoiced ones."""
        decided = []
        octaves = found.frequencies.log2().tolist()
        rows = zip(found.frequencies.tolist(), octaves, found.scores.tolist(), found.unvoiced.tolist(), strict=True)
        for frequencies, places, scores, unvoiced in rows:
            self._hops.append(([*frequencies, 0.0], self._advance(places, scores, unvoiced)))
            if len(self._hops) > DELAY:
                decided.append(self._decide())
        return decided

    def _advance(self, octaves: list[float], scores: list[float], unvoiced: float) -> list[int]:
        """Extend the paths by a hop; return the best previous state of each state.

        octaves, scores: of the candidates. unvoiced: the score of "unvoiced".
        """
        if not self._totals:
            self._totals, self._octaves = [*scores, unvoiced], octaves
            return [0] * len(self._totals)
        *voiced, silent = self._totals
        from_unvoiced = silent - _SWITCH
        totals, previous = [], []
        for octave, score in zip(octaves, scores, strict=True):
            best, state = from_unvoiced, len(voiced)
            for i, (total, earlier) in enumerate(zip(voiced, self._octaves, strict=True)):
                reached = total - _JUMP * abs(octave - earlier)
                if reached > best:
                    best, state = reached, i
            totals.append(best + score)
            previous.append(state)
        best = max(voiced)
        stays = silent >= best - _SWITCH
        totals.append((silent if stays else best - _SWITCH) + unvoiced)
        previous.append(len(voiced) if stays else voiced.index(best))
        highest = max(totals)
        self._totals, self._octaves = [total - highest for total in totals], octaves
        return previous

    def _decide(self) -> float:
        """Return the frequency of the earliest hop, on the path that is the best now."""
        state = max(range(len(self._totals)), key=self._totals.__getitem__)
        for _, previous in list(self._hops)[:0:-1]:
            state = previous[state]
        frequencies, _ = self._hops.popleft()
        return frequencies[state]
