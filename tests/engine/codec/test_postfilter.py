"""The postfilter: any chunks give the same samples, voiced sounds get cleaner, and everything else stays."""

import math
import random

import pytest
import torch
from torch import Tensor

from engine.codec.postfilter import Postfilter, PostfilterStream
from engine.errors import InvalidConfig

RATE, FRAME = 22_050, 1024


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


def below_1_khz(x: Tensor) -> Tensor:
    spectrum = torch.fft.rfft(x)
    spectrum[int(1000 / RATE * len(x)) :] = 0
    return torch.fft.irfft(spectrum, len(x))


def filtered(postfilter: Postfilter, x: Tensor, *frames: int) -> Tensor:
    """Filter a signal in chunks of so many frames; by default in one."""
    stream = PostfilterStream(postfilter)
    found = [stream.push(chunk) for chunk in x.split([FRAME * count for count in frames] or len(x))]
    return torch.cat([*found, stream.finish()])


def decibels(part: Tensor, whole: Tensor) -> float:
    return float(20 * torch.log10(part.norm() / whole.norm()))


@pytest.mark.parametrize("seed", range(4))
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
    with pytest.raises(InvalidConfig, match=r"have 1032 samples\. Remove"):
        Postfilter(RATE, 1032)


@pytest.mark.parametrize("f0", [85.0, 120.0, 210.0, 330.0])
def test_noise_between_harmonics_is_reduced(postfilter: Postfilter, f0: float) -> None:
    clean, rough = voice(30, f0), below_1_khz(noise(30))
    middle = slice(4 * FRAME, -4 * FRAME)
    found = filtered(postfilter, clean + rough)[middle]
    level = (found @ clean[middle]) / clean[middle].square().sum()
    assert decibels(found - level * clean[middle], level * rough[middle]) < -3


@pytest.mark.parametrize("f0", [85.0, 120.0, 210.0, 330.0])
def test_clean_voice_stays_in_place(postfilter: Postfilter, f0: float) -> None:
    clean = voice(30, f0)
    middle = slice(4 * FRAME, -4 * FRAME)
    assert decibels((filtered(postfilter, clean) - clean)[middle], clean[middle]) < -15


def test_noise_and_silence_stay(postfilter: Postfilter) -> None:
    x = noise(30)
    middle = slice(4 * FRAME, -4 * FRAME)
    assert decibels((filtered(postfilter, x) - x)[middle], x[middle]) < -10
    assert not filtered(postfilter, torch.zeros(8 * FRAME)).any()


def test_loud_audio_stays_in_range(postfilter: Postfilter) -> None:
    x = (30 * voice(20) + 3 * noise(20)).tanh()
    assert filtered(postfilter, x).abs().max() <= 1


def test_envelope_stays(postfilter: Postfilter) -> None:
    """Averaging over periods of a gliding pitch would weaken high harmonics; the level of each band is kept."""
    x = voice(30, glide=0.6) + 0.2 * noise(30)
    middle = slice(4 * FRAME, -4 * FRAME)
    spectra = [torch.fft.rfft(each[middle]).abs().square() for each in (x, filtered(postfilter, x))]
    bands = [spectrum[: len(spectrum) // 4].unflatten(0, (-1, 2)).sum(1).split(600) for spectrum in spectra]
    for before, after in zip(*bands, strict=True):
        assert abs(10 * math.log10(float(after.sum() / before.sum()))) < 2


def test_stream_continues_another_one(postfilter: Postfilter) -> None:
    """Only the last frames of the first stream differ: they do not know what follows."""
    x = voice(24) + noise(24)
    whole = filtered(postfilter, x)
    first = PostfilterStream(postfilter)
    before = torch.cat([first.push(x[: 12 * FRAME]), first.finish()])
    second = PostfilterStream(postfilter, first)
    after = torch.cat([second.push(x[12 * FRAME :]), second.finish()])
    assert torch.equal(before[: 9 * FRAME], whole[: 9 * FRAME])
    assert torch.equal(after[4 * FRAME :], whole[16 * FRAME :])
    assert not torch.equal(after, filtered(postfilter, x[12 * FRAME :])), "the past counts"
    again = PostfilterStream(postfilter, first)
    assert torch.equal(torch.cat([again.push(x[12 * FRAME :]), again.finish()]), after), "the first one is unchanged"
