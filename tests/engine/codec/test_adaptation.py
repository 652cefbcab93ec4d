"""What is learned from a clip and its copy brings other sounds of the same decoder nearer to the clip."""

import math

import pytest
import torch
from torch import Tensor

from engine.codec.postfilter import Postfilter, PostfilterStream, SpeakerAdaptation
from engine.codec.postfilter.adaptation import MelBands, learn_adaptation

RATE, FRAME = 22_050, 1024


@pytest.fixture(scope="module")
def postfilter() -> Postfilter:
    return Postfilter(RATE, FRAME)


def vowels(seconds: float, f0: float, formant: float = 1.0, start: float = 0.0) -> Tensor:
    """Harmonics under two formants that move; `formant` multiplies their frequencies, as a shorter vocal tract does."""
    time = start + torch.arange(round(seconds * RATE)) / RATE
    first = formant * (550 + 200 * torch.sin(2 * math.pi * 1.3 * time))
    second = formant * (1500 + 500 * torch.sin(2 * math.pi * 0.7 * time))
    sound = torch.zeros(len(time))
    for k in range(1, int(5000 / f0)):
        level = torch.exp(-(((k * f0 - first) / 150) ** 2)) + 0.5 * torch.exp(-(((k * f0 - second) / 250) ** 2))
        sound += (level + 0.003) * torch.sin(2 * math.pi * k * f0 * time)
    return 0.05 * sound + 1e-4 * torch.randn(len(time), generator=torch.Generator().manual_seed(0))


def filtered(postfilter: Postfilter, x: Tensor, adaptation: SpeakerAdaptation | None, *frames: int) -> Tensor:
    stream = PostfilterStream(postfilter, adaptation=adaptation)
    x = x[: len(x) // FRAME * FRAME]
    found = [stream.push(chunk) for chunk in x.split([FRAME * count for count in frames] or len(x))]
    return torch.cat([*found, stream.finish()])


def distance(postfilter: Postfilter, one: Tensor, other: Tensor) -> float:
    """Mean difference of the envelopes in mel bands, nepers, where both are voiced, without that of the loudness."""
    bands = MelBands(postfilter.envelope.frequencies)
    shared = min(len(one), len(other))
    (f0_one, a), (f0_other, b) = (postfilter.analysed_whole(x[:shared]) for x in (one, other))
    voiced = (f0_one > 0) & (f0_other > 0)
    assert int(voiced.sum()) > 100
    difference = bands.levels(a[voiced]) - bands.levels(b[voiced])
    return float((difference - difference.mean(1, keepdim=True)).abs().mean())


def pitch(postfilter: Postfilter, x: Tensor) -> float:
    f0, _ = postfilter.analysed_whole(x)
    return float(f0[f0 > 0].median())


@pytest.fixture(scope="module")
def adaptation(postfilter: Postfilter) -> SpeakerAdaptation:
    """Of a decoder that makes the vocal tract shorter and raises the pitch by a tenth."""
    found = postfilter.adaptation(vowels(4, 110), vowels(4, 121, 1.12))
    assert found is not None
    return found


def test_other_speech_gets_the_timbre_and_the_pitch_of_the_clip(
    postfilter: Postfilter, adaptation: SpeakerAdaptation
) -> None:
    wanted, decoded = vowels(2, 110, start=20), vowels(2, 121, 1.12, start=20)
    plain, adapted = (filtered(postfilter, decoded, each) for each in (None, adaptation))
    assert distance(postfilter, adapted, wanted) < 0.8 * distance(postfilter, plain, wanted)
    assert pitch(postfilter, plain) == pytest.approx(121, rel=0.01)
    assert pitch(postfilter, adapted) == pytest.approx(110, rel=0.01)


def test_a_perfect_copy_changes_nothing(postfilter: Postfilter) -> None:
    clip = vowels(2, 140)
    adaptation = postfilter.adaptation(clip, clip)
    assert adaptation is not None
    assert adaptation.pitch == 1
    x = vowels(1, 140, start=9)
    difference = filtered(postfilter, x, adaptation) - filtered(postfilter, x, None)
    assert float(difference.abs().max()) < 1e-5


def test_chunks_do_not_change_the_samples(postfilter: Postfilter, adaptation: SpeakerAdaptation) -> None:
    x = vowels(1.2, 121, 1.12)
    frames = len(x) // FRAME
    whole = filtered(postfilter, x, adaptation)
    assert torch.allclose(filtered(postfilter, x, adaptation, 1, 4, 7, frames - 12), whole, atol=1e-6)


def test_voices_without_enough_voiced_sound_are_not_adapted(postfilter: Postfilter) -> None:
    noise = 0.05 * torch.randn(4 * RATE, generator=torch.Generator().manual_seed(1))
    assert postfilter.adaptation(noise, noise) is None
    assert postfilter.adaptation(vowels(0.3, 120), vowels(0.3, 120)) is None
    assert postfilter.adaptation(torch.zeros(0), torch.zeros(0)) is None


def test_differences_are_limited(postfilter: Postfilter) -> None:
    """A clip that is not the codes' own, or of an octave's error, spoils nothing beyond recognition."""
    bands = MelBands(postfilter.envelope.frequencies)
    shape = 200, len(postfilter.envelope.frequencies)
    clip = torch.full((200,), 400.0), 20 * torch.randn(shape, generator=torch.Generator().manual_seed(1))
    copy = torch.full((200,), 100.0), 20 * torch.randn(shape, generator=torch.Generator().manual_seed(2))
    adaptation = learn_adaptation(bands, clip, copy)
    assert adaptation is not None
    f0, envelopes = adaptation.adapted(*copy)
    assert float((f0 / 100).log2().abs().max()) < 0.5
    assert float((envelopes - copy[1]).abs().max()) < 2 * math.log(4.01)
    assert torch.allclose(envelopes.logsumexp(1), copy[1].logsumexp(1), atol=1e-3)


def test_only_the_beginning_of_a_long_clip_is_learned_from(postfilter: Postfilter) -> None:
    begin = postfilter.frames_learned * FRAME
    seconds = begin / RATE + 1
    clip, copy = vowels(seconds, 110), vowels(seconds, 121, 1.12)
    short, whole = (postfilter.adaptation(clip[:end], copy[:end]) for end in (begin, len(clip)))
    assert short is not None
    assert whole is not None
    assert short.nbytes == whole.nbytes
    assert short.pitch == whole.pitch


@pytest.mark.parametrize(("decibels", "cutoff", "changed"), [(7.0, RATE, True), (40.0, RATE, False), (7.0, 8000, True)])
def test_the_timbre_of_a_clip_unlike_its_copy_is_not_carried_over(
    postfilter: Postfilter, decibels: float, cutoff: float, changed: bool
) -> None:
    """The speech should lack what a copy lacks, such as noise. But a recording of 16 kHz is a clean one."""
    bands = MelBands(postfilter.envelope.frequencies)
    random = torch.Generator().manual_seed(1)
    envelopes = 3 * torch.randn(200, 1, generator=random) * torch.linspace(1, -1, 513)
    lowpass = -(torch.linspace(0, 2 * decibels, 513) + 70 * (postfilter.envelope.frequencies > cutoff)) / 4.343
    adaptation = learn_adaptation(
        bands, (torch.full((200,), 110.0), envelopes + lowpass), (torch.full((200,), 100.0), envelopes)
    )
    assert adaptation is not None
    f0, adapted = adaptation.adapted(torch.full((200,), 100.0), envelopes)
    assert bool((adapted - envelopes).abs().max() > 0.3) is changed
    assert torch.allclose(f0, torch.tensor(110.0))


@pytest.mark.parametrize(("spread", "pitch"), [(0.05, 1.1), (0.4, 1.0)])
def test_a_pitch_that_the_hops_do_not_agree_on_is_left_alone(
    postfilter: Postfilter, spread: float, pitch: float
) -> None:
    bands = MelBands(postfilter.envelope.frequencies)
    envelopes = torch.randn(301, 513, generator=torch.Generator().manual_seed(1))
    ratios = 1.1 * torch.exp(spread * torch.linspace(-1, 1, 301))
    adaptation = learn_adaptation(bands, (100 * ratios, envelopes), (torch.full((301,), 100.0), envelopes))
    assert adaptation is not None
    assert adaptation.pitch == pytest.approx(pitch)
