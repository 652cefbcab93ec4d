"""The postfilter over blocks of one frame, so that the result does not depend on the chunks of a signal.

Shapes: n samples, H hops, P pulses, B bins.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.codec.postfilter.adaptation import CLIP_SECONDS, FEWEST_HOPS, MelBands, SpeakerAdaptation, learn_adaptation
from engine.codec.postfilter.envelope import Envelope, read_between
from engine.codec.postfilter.pitch import DELAY, HIGHEST, LOWEST, PitchAnalysis, PitchPath
from engine.errors import InvalidConfig

_HOPS = 8  # per block
_AT_ONCE = 64  # hops of a whole sound, so that its length does not determine the memory
_AROUND = 2  # hops on each side, with which envelopes are averaged, and over which voiced sounds fade in and out
_LOUDER = 0.7  # how much louder averages may be than a hop: natural logarithm of a ratio of power
# Amplitude of the decoded sound in voiced sounds, by Hz. Pulses have the rest of the power.
_BREATH_HERTZ = (0.0, 2000.0, 4000.0, 8000.0, 11_025.0, math.inf)
_BREATH = (0.02, 0.1, 0.3, 0.7, 0.9, 0.9)
_BREATH_SECONDS = 0.0058  # on each side, of the filter that takes it from the decoded sound
# A sound is voiced if so much of its power below `_HIGH` is below `_MIDDLE`, Hz (a stricter share than Morise's, 2016).
_VOICED_SHARE = 0.93
_LOW, _MIDDLE, _HIGH = 100.0, 4000.0, 7900.0
# Samples by which all pulses are late, because the sound of one between two samples begins before it.
_LEAD = 8
_LOWEST_SOUND = 50.0  # Hz: pulses have nothing below it, so that they add no steps
_SILENT = 1e-12


class Postfilter:
    """The sizes and tables of the postfilter at one sample rate. One is shared by all streams.

    lookahead: frames that must follow a frame before it can be computed. frames_learned: of a clip, by `adaptation`.
    """

    def __init__(self, sample_rate: int, frame_length: int) -> None:
        """Raises InvalidConfig for frames that it cannot divide."""
        if frame_length % _HOPS:
            raise InvalidConfig(
                f"The postfilter divides a frame into {_HOPS} parts, and this codec's have {frame_length} samples. "
                'Remove "postfilter" from reprise.json.'
            )
        self.rate, self.block, self.hop = sample_rate, frame_length, frame_length // _HOPS
        self.pitch, self.envelope = PitchAnalysis(sample_rate), Envelope(sample_rate)
        reach = max(self.pitch.span // 2, self.envelope.reach)
        self.past = _AROUND * self.hop + reach
        self.lookahead = math.ceil(((_HOPS + _AROUND + DELAY) * self.hop + reach) / self.block) - 1
        self.frames_learned = math.ceil(CLIP_SECONDS * sample_rate / frame_length)
        self._bands = MelBands(self.envelope.frequencies)
        self._half = self.envelope.transform // 2
        frequencies = self.envelope.frequencies
        breath = _breath_at(frequencies)
        hertz = frequencies / _LOWEST_SOUND
        highpass = (hertz.square() / (1 + hertz.square().square()).sqrt()).clamp(min=1e-3)
        self._voice = (1 - breath.square()).log() / 2 + highpass.log()  # logarithm of the pulses' amplitude
        self._taps = round(_BREATH_SECONDS * sample_rate)
        response = torch.fft.irfft(breath, self.envelope.transform).roll(self._taps)[: 2 * self._taps + 1]
        self._breath = response * _window(self._taps)
        self._low = (frequencies >= _LOW) & (frequencies <= _MIDDLE)
        self._high = (frequencies >= _LOW) & (frequencies <= _HIGH)
        self._weights = _window(_AROUND) / _window(_AROUND).sum()
        bins = torch.arange(self._half + 1, dtype=torch.float32)
        self._turns = -2j * math.pi * bins / self.envelope.transform  # of a sample's delay
        self._between = torch.arange(self.hop, dtype=torch.float32) / self.hop

    def adaptation(self, clip: Tensor, copy: Tensor) -> SpeakerAdaptation | None:
        """Learn what the codec changes in a voice from a clip `[n]` and its decoded copy, from the same sample on.

        Returns None if too little of them is voiced.
        """
        shared = min(len(clip), len(copy), self.frames_learned * self.block)
        if shared < FEWEST_HOPS * self.hop:
            return None
        return learn_adaptation(self._bands, self.analysed_whole(clip[:shared]), self.analysed_whole(copy[:shared]))

    def analysed_whole(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return f0 `[H]` and logarithmic envelopes `[H, B]` of a whole sound."""
        x, hops, span = _finite(x), len(x) // self.hop, self.pitch.span
        heard = F.pad(x, (span // 2, span // 2 + DELAY * self.hop)).unfold(0, span, self.hop)[: hops + DELAY]
        path = PitchPath()
        decided = [each for part in heard.split(_AT_ONCE) for each in path.extend(self.pitch.candidates(part))]
        f0 = torch.tensor(decided, dtype=torch.float32)
        around = F.pad(x, (self.envelope.reach, self.envelope.reach))
        parts = [self.analysed(around[i * self.hop :], f0[i : i + _AT_ONCE]) for i in range(0, hops, _AT_ONCE)]
        return torch.cat([voiced for voiced, _ in parts]), torch.cat([envelopes for _, envelopes in parts])

    def analysed(self, x: Tensor, f0: Tensor) -> tuple[Tensor, Tensor]:
        """Return f0 without sounds that are not voiced `[H]`, and the logarithms of the envelopes `[H, B]`.

        x: from `envelope.reach` samples before the first hop on, `[n]`. f0: Hz, 0 for unvoiced hops, `[H]`.
        """
        windows = x.unfold(0, 2 * self.envelope.reach, self.hop)[: len(f0)]
        power = self.envelope.power(windows, f0.clamp(min=LOWEST))
        voiced = (power * self._low).sum(1) > _VOICED_SHARE * (power * self._high).sum(1)
        return f0 * voiced, power.log()

    def filtered(
        self, x: Tensor, f0: Tensor, envelopes: Tensor, phase: Tensor, tail: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return a block, and phase and tail after it.

        x: from `past` samples before the block on. f0, envelopes: as from `analysed`, of the hops from the block's
        first to the next one's, and `_AROUND` more on each side. phase: periods since the last pulse, less than 1.
        tail: what earlier pulses sound like from the block's first sample on, `[transform]`.
        """
        voiced = (f0 > 0).float()
        near = self._weights * voiced.unfold(0, len(self._weights), 1)  # of the hops around each of the block
        gain = self._at_samples(near.sum(1))
        steps = self._at_samples(_held(f0)[_AROUND:-_AROUND]) / self.rate
        periods = phase + steps.cumsum(0)
        periods -= torch.where(gain > 0, 0.0, periods).cummax(0).values  # a voiced sound begins with a new period
        whole = periods.floor()
        at = (whole > F.pad(whole[:-1], (1, 0))).nonzero()[:, 0]
        late = ((periods - whole) / steps)[at]  # samples from a pulse to the next sample
        sound = F.pad(tail, (0, self.block))
        if len(at):
            smooth = _averaged(envelopes, near)
            here = read_between(smooth.T, ((at - late) / self.hop).expand(smooth.shape[1], -1)).T
            for place, response in zip(at.tolist(), self._responses(here, late, steps[at]), strict=True):
                sound[place : place + len(response)] += response
        around = x[self.past - self._taps : self.past + self.block + self._taps]
        breath = F.conv1d(around[None, None], self._breath[None, None])[0, 0]
        decoded = x[self.past : self.past + self.block]
        out = gain.sqrt() * (sound[: self.block] + breath) + (1 - gain).sqrt() * decoded
        return out.clamp(-1, 1), periods[-1] - whole[-1], sound[self.block :]

    def _responses(self, log_power: Tensor, late: Tensor, steps: Tensor) -> Tensor:
        """Return the sounds of pulses `[P, transform]`, from the sample after a pulse on, `_LEAD` samples late.

        log_power: of the envelopes at the pulses `[P, B]`. late: samples from the pulses to their next samples `[P]`.
        steps: periods in a sample `[P]`.
        """
        cepstra = torch.fft.irfft((log_power - steps.log()[:, None]) / 2 + self._voice)
        # Minimum phase: all of the sound comes after its pulse.
        cepstra[:, 1 : self._half] *= 2
        cepstra[:, self._half + 1 :] = 0
        spectra = torch.exp(torch.fft.rfft(cepstra) + self._turns * (_LEAD - late)[:, None])
        found: Tensor = torch.fft.irfft(spectra)
        return found

    def _at_samples(self, values: Tensor) -> Tensor:
        """Interpolate values at the hops from a block's first to the next one's at the block's samples."""
        return torch.lerp(values[:-1, None], values[1:, None], self._between).flatten()


class PostfilterStream:
    """The postfilter over one signal, which may continue another one.

    It gives whole frames, `lookahead` later than it gets them; the last ones when it is finished.
    """

    def __init__(
        self,
        filter: Postfilter,
        previous: "PostfilterStream | None" = None,
        adaptation: SpeakerAdaptation | None = None,
    ) -> None:
        """previous: a finished stream that this one continues. adaptation: to the speaker; None for none."""
        self._filter, self._path, self._adaptation = filter, PitchPath(), adaptation
        self._heard = 0  # hops from the next block's first on that the path has
        # From `past` samples and from `_AROUND` hops before the next block on.
        zeros = partial(torch.zeros, dtype=torch.float32)
        self._x = zeros(filter.past)
        self._f0, self._envelopes = zeros(_AROUND), zeros(_AROUND, len(filter.envelope.frequencies))
        self._phase, self._tail = zeros(()), zeros(filter.envelope.transform)
        if previous is not None:
            self._x, self._phase, self._tail = previous._x, previous._phase, previous._tail
            self._f0, self._envelopes = previous._f0[:_AROUND], previous._envelopes[:_AROUND]
        self._is_finished = False

    @property
    def _waiting(self) -> int:
        """Samples that have been pushed and not been returned."""
        return len(self._x) - self._filter.past

    def push(self, samples: Tensor) -> Tensor:
        """Take whole frames, float32 `[n]`, clipped to ±1, NaN as silence. Return those that are complete by now."""
        assert not self._is_finished
        self._x = torch.cat([self._x, _finite(samples)])
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
            self._analyse()
            block, self._phase, self._tail = size.filtered(self._x, self._f0, self._envelopes, self._phase, self._tail)
            found.append(block)
            self._x = self._x[size.block :]
            self._f0, self._envelopes = self._f0[_HOPS:], self._envelopes[_HOPS:]
            self._heard -= _HOPS
        return torch.cat(found) if found else self._x.new_zeros(0)

    def _analyse(self) -> None:
        """Analyse the hops that the next block needs."""
        size, span = self._filter, self._filter.pitch.span
        new = _HOPS + 1 + _AROUND + DELAY - self._heard
        start = size.past + self._heard * size.hop - span // 2
        heard = self._x[start : start + (new - 1) * size.hop + span]
        decided = self._path.extend(size.pitch.candidates(heard.unfold(0, span, size.hop)))
        self._heard += new
        first = size.past + (len(self._f0) - _AROUND) * size.hop - size.envelope.reach
        f0, envelopes = size.analysed(self._x[first:], torch.tensor(decided, dtype=torch.float32))
        if self._adaptation is not None:
            f0, envelopes = self._adaptation.adapted(f0, envelopes)
        self._f0, self._envelopes = torch.cat([self._f0, f0]), torch.cat([self._envelopes, envelopes])


def _finite(samples: Tensor) -> Tensor:
    """Return samples clipped to ±1, NaN as silence."""
    return samples.nan_to_num().clamp(-1, 1)


def _held(f0: Tensor) -> Tensor:
    """Return f0 `[H]`, where unvoiced hops have that of the last voiced one, or of the first one."""
    voiced = f0 > 0
    if not voiced.any():
        return torch.full_like(f0, HIGHEST)
    last = torch.where(voiced, torch.arange(len(f0)), -1).cummax(0).values
    return f0[torch.where(last < 0, voiced.int().argmax(), last)]


def _averaged(envelopes: Tensor, near: Tensor) -> Tensor:
    """Return the averages around all hops but the outer ones `[H - 2 × _AROUND, B]`.

    envelopes: logarithmic, `[H, B]`. near: weights of the hops around each `[H - 2 × _AROUND, 2 × _AROUND + 1]`.
    """
    average = torch.einsum("hk,hbk->hb", near, envelopes.unfold(0, near.shape[1], 1))
    average /= near.sum(1, keepdim=True).clamp(min=_SILENT)
    # A closure between two vowels stays quiet.
    louder = average.logsumexp(1) - envelopes[_AROUND:-_AROUND].logsumexp(1)
    return average - (louder - _LOUDER).clamp(min=0)[:, None]


def _window(reach: int) -> Tensor:
    """Return a Hann window of `reach` values on each side of its centre."""
    return torch.hann_window(2 * reach + 3, periodic=False, dtype=torch.float32)[1:-1]


def _breath_at(frequencies: Tensor) -> Tensor:
    """Return `_BREATH` at frequencies."""
    hertz, breath = torch.tensor(_BREATH_HERTZ, dtype=torch.float32), torch.tensor(_BREATH, dtype=torch.float32)
    left = torch.searchsorted(hertz, frequencies, right=True) - 1
    share = (frequencies - hertz[left]) / (hertz[left + 1] - hertz[left])
    return torch.lerp(breath[left], breath[left + 1], share)
