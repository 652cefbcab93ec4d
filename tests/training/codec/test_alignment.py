"""Originals whose periods are moved to those of a copy."""

import math

import pytest
import torch
from torch import Tensor

from training.codec.losses.alignment import aligned_with

RATE, N = 22_050, 22_050


def voice(f0: float, *, phase: float = 0.0, drift: float = 0.0, blend: float = 1.0) -> Tensor:
    """Eight harmonics of a gliding tone `[1, 1, n]`; `drift` in periods within the second, `blend` of the harmonics."""
    time = torch.arange(N) / RATE
    cycles = f0 * time + 0.1 * f0 * time.square() + phase + drift * time
    tones = [torch.sin(2 * math.pi * k * cycles) * (1.0 if k == 1 else blend) / k for k in range(1, 9)]
    return 0.1 * torch.stack(tones).sum(0)[None, None]


def likeness(a: Tensor, b: Tensor) -> float:
    middle = slice(N // 10, -N // 10)
    a, b = a[..., middle], b[..., middle]
    return float((a * b).sum() / (a.norm() * b.norm()))


@pytest.mark.parametrize("f0", [85.0, 130.0, 240.0])
@pytest.mark.parametrize("phase", [0.2, 0.5, 0.9])
def test_periods_are_moved_to_those_of_the_copy(f0: float, phase: float) -> None:
    original, copy = voice(f0), voice(f0, phase=phase)
    assert likeness(copy, original) < 0.7
    assert likeness(copy, aligned_with(copy, original, RATE)) > 0.98


def test_phase_is_followed_while_it_drifts() -> None:
    original, copy = voice(150.0), voice(150.0, drift=1.2)
    aligned = aligned_with(copy, original, RATE)
    assert likeness(copy, aligned) > 0.98
    # No jumps: where periods are skipped or repeated, the difference of two samples would be as large as a pulse.
    assert aligned.diff().abs().max() < 1.1 * original.diff().abs().max()


def test_only_the_copys_fundamental_counts() -> None:
    original, copy = voice(150.0), voice(150.0, phase=0.3, blend=0.0)
    assert likeness(voice(150.0, phase=0.3), aligned_with(copy, original, RATE)) > 0.98


def test_equal_audio_noise_and_silence_stay() -> None:
    original = voice(150.0)
    torch.testing.assert_close(aligned_with(original, original, RATE), original, atol=1e-4, rtol=0)
    noise = 0.1 * torch.randn(1, 1, N, generator=torch.Generator().manual_seed(0))
    assert torch.equal(aligned_with(original, noise, RATE), noise)
    silence = torch.zeros(1, 1, N)
    assert not aligned_with(original, silence, RATE).any()
    assert aligned_with(silence, original, RATE).isfinite().all()


def test_rows_are_independent() -> None:
    originals, copies = torch.cat([voice(100.0), voice(220.0)]), torch.cat([voice(100.0, phase=0.4), voice(220.0)])
    both = aligned_with(copies, originals, RATE)
    for row in range(2):
        alone = aligned_with(copies[row : row + 1], originals[row : row + 1], RATE)
        torch.testing.assert_close(both[row : row + 1], alone, atol=1e-4, rtol=0)
