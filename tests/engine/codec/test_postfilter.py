"""The postfilter: any chunks give the same samples, voiced sounds get clean and steady, and everything else stays."""

import math
import random

import pytest
import torch
from torch import Tensor

from engine.codec.postfilter import Postfilter, PostfilterStream
from engine.codec.postfilter.envelope import Envelope
from engine.codec.postfilter.pitch import DELAY, PitchAnalysis, PitchPath
from engine.errors import InvalidConfig

RATE, FRAME = 22_050, 1024
MIDDLE = slice(4 * FRAME, -4 * FRAME)


@pytest.fixture(scope="module")
def postfilter() -> Postfilter:
    return Postfilter(RATE, FRAME)


def noise(frames: int, seed: int = 0) -> Tensor:
    return 0.05 * torch.randn(frames * FRAME, generator=torch.Generator().manual_seed(seed))


def voice(frames: int, f0: float = 120.0, glide: float = 0.1) -> Tensor:
    """Harmonics under a formant, whose pitch rises by `glide` in each second."""
    time = torch.arange(frames * FRAME) / RATE
    phase = 2 * math.pi * f0 * (time + glide / 2 * time.square())
    levels = [math.exp(-(((k * f0 - 600) / 500) ** 2)) for k in range(1, 20)]
    return 0.1 * torch.stack([level * torch.sin(k * phase) for k, level in enumerate(levels, 1)]).sum(0)


def filtered(postfilter: Postfilter, x: Tensor, *frames: int) -> Tensor:
    """Filter a signal in chunks of so many frames; by default in one."""
    stream = PostfilterStream(postfilter)
    found = [stream.push(chunk) for chunk in x.split([FRAME * count for count in frames] or len(x))]
    return torch.cat([*found, stream.finish()])


def decibels(part: Tensor, whole: Tensor) -> float:
    return float(20 * torch.log10(part.norm() / whole.norm()))


@pytest.mark.parametrize("seed", range(2))
def test_chunks_do_not_change_the_samples(postfilter: Postfilter, seed: int) -> None:
    x = voice(24) + noise(24)
    sizes = random.Random(seed)
    cut = []
    while sum(cut) < 24:
        cut.append(min(sizes.randint(1, 7), 24 - sum(cut)))
    assert torch.equal(filtered(postfilter, x, *cut), filtered(postfilter, x))


@pytest.mark.parametrize("frames", [1, 2, 3, 9])
def test_frames_come_later_and_none_is_lost(postfilter: Postfilter, frames: int) -> None:
    stream, given = PostfilterStream(postfilter), 0
    for i in range(1, frames + 1):
        given += len(stream.push(voice(1)))
        assert given == FRAME * max(0, i - postfilter.lookahead)
    assert given + len(stream.finish()) == FRAME * frames


def test_lookahead_is_that_of_the_sizes(postfilter: Postfilter) -> None:
    assert postfilter.lookahead == 2
    assert Postfilter(44_100, 2048).lookahead == 2
    with pytest.raises(InvalidConfig, match=r"have 1028 samples\. Remove"):
        Postfilter(RATE, 1028)


def harmonics_and_rest(x: Tensor, f0: float) -> tuple[float, float]:
    """Return the power below 1.2 kHz near the harmonics, and of the two thirds between them."""
    power = torch.fft.rfft(x * torch.hann_window(len(x))).abs().square()
    hertz = torch.arange(len(power)) * RATE / len(x)
    power, hertz = power[hertz < 1200], hertz[hertz < 1200]
    near = (hertz - (hertz / f0).round() * f0).abs() < f0 / 6
    return float(power[near].sum()), float(power[~near].sum())


@pytest.mark.parametrize("f0", [85.0, 210.0, 450.0])
def test_noise_between_harmonics_is_reduced(postfilter: Postfilter, f0: float) -> None:
    rough = voice(30, f0, glide=0) + 0.2 * noise(30)
    (before, noise_before), (after, noise_after) = (
        harmonics_and_rest(x[MIDDLE], f0) for x in (rough, filtered(postfilter, rough))
    )
    assert 0.7 < after / before < 1.4
    assert noise_after < 0.75 * noise_before


@pytest.mark.parametrize("glide", [0.6, -0.3])
def test_pitch_stays(postfilter: Postfilter, glide: float) -> None:
    x = voice(30, 140, glide) + 0.1 * noise(30)
    before, after = (pitch(each) for each in (x, filtered(postfilter, x)))
    assert (after / before - 1).abs()[24:-24].max() < 0.02


def test_a_flutter_between_periods_is_steadied(postfilter: Postfilter) -> None:
    """Small decoders change the level of bands from frame to frame."""
    time = torch.arange(30 * FRAME) / RATE
    x = voice(30, glide=0) * (1 + 0.5 * torch.sin(2 * math.pi * 35 * time))

    def flutter(sound: Tensor) -> float:
        levels = sound[MIDDLE].unfold(0, 368, 92).square().mean(1).sqrt()  # two periods
        return float(levels.std() / levels.mean())

    assert flutter(filtered(postfilter, x)) < 0.35 * flutter(x)


def test_noise_and_silence_stay(postfilter: Postfilter) -> None:
    x = noise(30)
    assert decibels((filtered(postfilter, x) - x)[MIDDLE], x[MIDDLE]) < -10
    assert not filtered(postfilter, torch.zeros(8 * FRAME)).any()


def test_loud_audio_stays_in_range(postfilter: Postfilter) -> None:
    x = (30 * voice(20) + 3 * noise(20)).tanh()
    assert filtered(postfilter, x).abs().max() <= 1


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1e30])
def test_a_broken_sample_does_no_lasting_harm(postfilter: Postfilter, wrong: float) -> None:
    x = voice(24)
    before = filtered(postfilter, x)
    x[8 * FRAME] = wrong
    after = filtered(postfilter, x)
    assert after.isfinite().all()
    assert decibels((after - before)[20 * FRAME :], before[20 * FRAME :]) < -20


def test_envelope_stays(postfilter: Postfilter) -> None:
    x = voice(30, glide=0.6) + 0.2 * noise(30)
    spectra = [torch.fft.rfft(each[MIDDLE]).abs().square() for each in (x, filtered(postfilter, x))]
    bands = [spectrum[: len(spectrum) // 4].unflatten(0, (-1, 2)).sum(1).split(600) for spectrum in spectra]
    for before, after in zip(*bands, strict=True):
        assert abs(10 * math.log10(float(after.sum() / before.sum()))) < 2


def test_stream_continues_another_one(postfilter: Postfilter) -> None:
    """The last frames of the first stream do not know what follows. Behind the next pause nothing differs."""
    x = voice(30) + noise(30)
    x[18 * FRAME : 20 * FRAME] = 0
    whole = filtered(postfilter, x)
    first = PostfilterStream(postfilter)
    before = torch.cat([first.push(x[: 12 * FRAME]), first.finish()])
    second = PostfilterStream(postfilter, first)
    after = torch.cat([second.push(x[12 * FRAME :]), second.finish()])
    assert torch.equal(before[: 9 * FRAME], whole[: 9 * FRAME])
    assert torch.equal(after[9 * FRAME :], whole[21 * FRAME :])
    assert not torch.equal(after, filtered(postfilter, x[12 * FRAME :])), "the past counts"
    again = PostfilterStream(postfilter, first)
    assert torch.equal(torch.cat([again.push(x[12 * FRAME :]), again.finish()]), after), "the first one is unchanged"


def pitch(x: Tensor) -> Tensor:
    """Return the frequencies of a signal every 128 samples, 0 for unvoiced hops."""
    analysis = PitchAnalysis(RATE)
    return torch.tensor(PitchPath().extend(analysis.candidates(x.unfold(0, analysis.span, 128))))


@pytest.mark.parametrize("f0", [70.0, 85.0, 120.0, 210.0, 330.0, 480.0])
def test_pitch_of_a_voice(f0: float) -> None:
    found = pitch(voice(10, f0, glide=0) + 0.1 * noise(10))
    assert ((found / f0 - 1).abs() < 0.02).all()


def test_silence_has_no_pitch() -> None:
    assert not pitch(torch.zeros(10 * FRAME)).any()
    assert not pitch(1e-4 * noise(10)).any(), "an inaudible noise"


def test_a_hop_is_decided_when_enough_follow() -> None:
    analysis, path = PitchAnalysis(RATE), PitchPath()
    found = analysis.candidates(voice(8).unfold(0, analysis.span, 128)[: DELAY + 3])
    assert len(path.extend(found)) == 3


def test_one_doubtful_hop_does_not_leave_the_path() -> None:
    """A hop whose best candidate is an octave higher follows its neighbours."""
    analysis = PitchAnalysis(RATE)
    found = analysis.candidates((voice(8, 120, glide=0) + 0.1 * noise(8)).unfold(0, analysis.span, 128)[:40])
    octave = (found.frequencies[20] / 240 - 1).abs().argmin()
    found.frequencies[20, octave], found.scores[20, octave] = 240.0, found.scores[20].max() + 0.1
    assert abs(PitchPath().extend(found)[20] - 120) < 3


@pytest.mark.parametrize("f0", [80.0, 150.0, 260.0, 400.0])
def test_envelope_does_not_show_the_harmonics(f0: float) -> None:
    """Pulses through a formant have the formant's envelope, whatever their frequency and wherever the hop is."""
    envelope = Envelope(RATE)
    formant = 1 / (1 + ((envelope.frequencies - 1500) / 600) ** 2)
    time = torch.arange(4 * FRAME) / RATE
    count = int(RATE / 2 / f0)
    levels = [float(1 / (1 + ((k * f0 - 1500) / 600) ** 2)) for k in range(1, count)]
    x = torch.stack([level * torch.cos(2 * math.pi * k * f0 * time) for k, level in enumerate(levels, 1)]).sum(0)
    windows = x.unfold(0, 2 * envelope.reach, 37)[:20]
    power = envelope.power(windows, torch.full((20,), f0))
    wanted = formant.square() / 2 * (RATE / 2 / f0)  # a harmonic has the power of noise in f0 Hz
    heard = (envelope.frequencies > 500) & (envelope.frequencies < 4000)
    difference = (10 * (power / wanted).log10())[:, heard]
    assert difference.abs().max() < 0.6
    assert difference.std(0).max() < 0.3
