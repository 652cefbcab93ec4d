"""A long-term postfilter: it makes the voiced sounds of a small decoder less rough, at the cost of two frames of delay.

Each sample is averaged with those one period ahead and one to five periods before it, as far as the signal is periodic
there. Harmonics add up, and what is between them does not (Ramamoorthy and Jayant, 1984, and the long-term postfilters
of speech codecs since). Averaging also blurs formants, so each short spectrum gets the smooth envelope back that it had
before.

The period is the first high peak of the autocorrelation of 46 ms around a sample, so that it needs the sound after it,
too. Everything is computed in blocks of one frame, which makes the result independent of the chunks.

Shapes: n samples, H hops.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.codec.periods import first_high_peak, read_between
from engine.errors import InvalidConfig

_HOPS = 8  # per block
_WINDOW = 0.0464  # seconds, of the autocorrelation
_LOWEST, _HIGHEST = 70.0, 400.0  # Hz
_CUTOFF = 700.0  # Hz: the autocorrelation is of what is below
_NEARLY_HIGHEST = 0.85  # of the highest peak: multiples of the period match as well
_APERIODIC, _PERIODIC = 0.25, 0.45  # autocorrelation of a signal that stays, and of one that is averaged fully
_MEDIAN = 5  # hops
_NOW, _AHEAD, _BEFORE = 1.0, 0.7, (0.83, 0.67, 0.5, 0.33, 0.17)  # weights
_ENVELOPE = 150.0  # Hz: standard deviation of the smoothing that leaves the envelope
_POINTS = 8  # of a hop
_NEGLIGIBLE = 1e-6
_FLOOR, _LEAST_GAIN, _MOST_GAIN = 1e-7, 0.05, 8.0


class Postfilter:
    """The sizes and tables of the postfilter at one sample rate. One is shared by all streams.

    lookahead: frames that must follow a frame before it can be computed.
    """

    def __init__(self, sample_rate: int, frame_length: int) -> None:
        """Raises InvalidConfig for frames that it cannot divide."""
        if frame_length % (_HOPS * _POINTS):
            raise InvalidConfig(
                f"The postfilter divides a frame into {_HOPS * _POINTS} parts, and this codec's have {frame_length} "
                'samples. Remove "postfilter" from reprise.json.'
            )
        self.block, self.hop = frame_length, frame_length // _HOPS
        self._first, self._last = round(sample_rate / _HIGHEST), round(sample_rate / _LOWEST)
        self._span = 2 * (round(_WINDOW * sample_rate) // 2 + self._last)  # samples of an autocorrelation
        self._transform = 1 << (self._span + self._last).bit_length()
        self._shape = torch.hann_window(self._span)
        self._shape_correlation = self._correlation(torch.fft.rfft(self._shape, self._transform).abs().square())
        frequencies = torch.arange(self._transform // 2 + 1) * (sample_rate / self._transform)
        self._lowpass = 1 / (1 + (frequencies / _CUTOFF) ** 8)
        # Short spectra have four hops, and one in each hop, so that four contribute to each sample.
        self._size = 4 * self.hop
        self._window = torch.hann_window(self._size)
        bins = torch.arange(self._size // 2 + 1) * (sample_rate / self._size)
        near = torch.exp(-0.5 * ((bins[:, None] - bins) / _ENVELOPE) ** 2)
        near[near < _NEGLIGIBLE] = 0  # denormal numbers are slow to multiply
        self._smoothing = (near / near.sum(1, keepdim=True)).T.contiguous()
        self._margin = 3 * self.hop  # samples around a block that its short spectra contain
        reach = self._margin + len(_BEFORE) * self._last
        self.past_hops = -(-reach // self.hop) + _MEDIAN // 2
        self.past = self.past_hops * self.hop
        self.ahead_hops = -(-(self._margin + self._last) // self.hop) + 1 + _MEDIAN // 2
        # Periods change so little that the places one to five of them away are computed for a few points of each hop.
        spacing = self.hop // _POINTS
        self._points = torch.arange(
            self.past - self._margin, self.past + self.block + self._margin + 1, spacing, dtype=torch.float32
        )
        self._between = torch.arange(spacing) / spacing
        self.hops = self.past_hops + _HOPS + self.ahead_hops  # of the track that a block takes
        self.lookahead = -(-(self.ahead_hops * self.hop + self._span // 2) // self.block)

    def track(self, x: Tensor) -> Tensor:
        """Return the period in samples and the periodicity at the hops of a block, `[2, 8]`.

        x: the block, with half of `_span` before its first and after its last hop.
        """
        windows = x.unfold(0, self._span, self.hop)[:_HOPS]
        spectra = torch.fft.rfft(windows * self._shape, self._transform)
        power = (spectra.real.square() + spectra.imag.square()) * self._lowpass
        found = self._correlation(power) / self._shape_correlation
        periodicity = found[:, self._first :] / (found[:, :1] + _FLOOR)
        peak = first_high_peak(periodicity, share=_NEARLY_HIGHEST, spread=self._first // 3)
        peak = peak[:, None].clamp(1, periodicity.shape[1] - 2)
        a, b, c = (periodicity.gather(1, peak + offset)[:, 0] for offset in (-1, 0, 1))
        offset = (0.5 * (a - c) / (a - 2 * b + c).clamp(max=-1e-6)).clamp(-0.5, 0.5)
        return torch.stack([self._first + peak[:, 0] + offset, b])

    def filtered(self, x: Tensor, track: Tensor) -> Tensor:
        """Return a block.

        x: samples from `past` before the block to `_margin + _last + 3` after it. track: `[2, hops]`, from `past_hops`
        before the block to `ahead_hops` after its end.
        """
        period, periodicity = track
        period = F.pad(period[None, None], (_MEDIAN // 2,) * 2, mode="replicate")[0, 0]
        period = period.unfold(0, _MEDIAN, 1).median(-1).values
        gain = ((periodicity - _APERIODIC) / (_PERIODIC - _APERIODIC)).clamp(0, 1)
        track = torch.stack([period, gain])

        def at(places: Tensor) -> tuple[Tensor, Tensor]:
            """Return period and gain at places in x."""
            hops = places / self.hop
            left = hops.long().clamp(0, track.shape[1] - 2)
            found = torch.lerp(track[:, left], track[:, left + 1], hops - left)
            return found[0], found[1]

        places, weights = [self._points], [torch.full_like(self._points, _NOW)]
        for sign, taps in ((1, (_AHEAD,)), (-1, _BEFORE)):
            place, (step, sure) = self._points, at(self._points)
            for tap in taps:
                place = place + sign * step
                step, here = at(place)
                sure = torch.minimum(sure, here)
                places.append(place)
                weights.append(tap * sure)
        weight = self._at_samples(torch.stack(weights))
        averaged = (weight * read_between(x[None], self._at_samples(torch.stack(places)))).sum(0) / weight.sum(0)
        return self._with_envelope(x[self.past - self._margin : self.past + self.block + self._margin], averaged)

    def _at_samples(self, values: Tensor) -> Tensor:
        """Interpolate values `[…, points]` at all samples of a block and its margins, `[…, n]`."""
        left, right = values[..., :-1, None], values[..., 1:, None]
        return torch.lerp(left, right, self._between).flatten(-2)

    def _with_envelope(self, original: Tensor, averaged: Tensor) -> Tensor:
        """Give the short spectra of `averaged` the envelopes of those of `original`; return the block between the
        margins."""
        spectra = torch.fft.rfft(torch.stack([original, averaged]).unfold(1, self._size, self.hop) * self._window)
        power = (spectra.real.square() + spectra.imag.square()).flatten(0, 1) @ self._smoothing + _FLOOR
        before, after = power.chunk(2)
        gains = (before / after).sqrt().clamp(_LEAST_GAIN, _MOST_GAIN)
        parts = torch.fft.irfft(spectra[1] * gains, self._size) * self._window
        out = torch.zeros_like(original)
        for i, part in enumerate(parts):
            out[i * self.hop : i * self.hop + self._size] += part
        return (out[self._margin : -self._margin] / 1.5).clamp(-1, 1)  # 1.5: the sum of four squared windows

    def _correlation(self, power: Tensor) -> Tensor:
        """Return the autocorrelation up to the longest period, for power spectra."""
        found: Tensor = torch.fft.irfft(power, self._transform)
        return found[..., : self._last + 1]


class PostfilterStream:
    """The postfilter over one signal, which may continue another one.

    It gives whole frames, `lookahead` later than it gets them; the last ones when it is finished.
    """

    def __init__(self, filter: Postfilter, previous: "PostfilterStream | None" = None) -> None:
        """previous: a finished stream that this one continues."""
        self._filter = filter
        # From `past` before the next block on, and from `past_hops` before it.
        self._x, self._track = torch.zeros(filter.past), torch.zeros(2, filter.past_hops)
        if previous is not None:
            self._x = previous._x
            self._track = previous._track[:, : filter.past_hops]  # what is behind the end was computed with silence
        self._is_finished = False

    @property
    def _waiting(self) -> int:
        """Samples that have been pushed and not been returned."""
        return len(self._x) - self._filter.past

    def push(self, samples: Tensor) -> Tensor:
        """Take whole frames, float32 `[n]`. Return those that are complete by now."""
        assert not self._is_finished
        self._x = torch.cat([self._x, samples])
        size = self._filter
        return self._blocks(self._waiting // size.block - size.lookahead)

    def finish(self) -> Tensor:
        """Return the remaining frames. What follows is taken for silence."""
        self._is_finished = True
        left, size = self._waiting // self._filter.block, self._filter
        self._x = torch.cat([self._x, self._x.new_zeros(size.lookahead * size.block)])
        found = self._blocks(left)
        self._x = self._x[: size.past]
        return found

    def _blocks(self, count: int) -> Tensor:
        """Return the next blocks."""
        size, found = self._filter, []
        for _ in range(count):
            while self._track.shape[1] < size.hops:
                self._extend_track()
            found.append(size.filtered(self._x, self._track[:, : size.hops]))
            self._x, self._track = self._x[size.block :], self._track[:, _HOPS:]
        return torch.cat(found) if found else self._x.new_zeros(0)

    def _extend_track(self) -> None:
        """Compute the track at the hops of another block."""
        size = self._filter
        start = self._track.shape[1] * size.hop - size._span // 2
        found = size.track(self._x[start : start + (_HOPS - 1) * size.hop + size._span])
        self._track = torch.cat([self._track, found], dim=1)
