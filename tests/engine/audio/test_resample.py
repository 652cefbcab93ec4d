"""Filter banks of the resampler are computed once per ratio, in a cache of bounded size."""

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch
import torchaudio

from engine.audio.resample import resample
from engine.byte_lru import ByteLRU

module = sys.modules["engine.audio.resample"]  # the package has a function of that name
Ratios = list[tuple[int, int]]
RATES = (8_000, 11_025, 16_000, 22_050, 44_100, 48_000)


@pytest.fixture
def ratios(monkeypatch: pytest.MonkeyPatch) -> Ratios:
    """Record the ratios of computed filter banks, starting with an empty cache."""
    computed: Ratios = []

    class Counted(torchaudio.transforms.Resample):  # type: ignore[misc]  # of a package without types
        def __init__(self, rate: int, new_rate: int, **quality: object) -> None:
            computed.append((rate, new_rate))
            super().__init__(rate, new_rate, **quality)

    monkeypatch.setattr(module, "Resample", Counted)
    monkeypatch.setattr(module, "_filters", ByteLRU(module._CACHE_BYTES))
    return computed


def test_filter_bank_of_a_ratio_is_computed_once(ratios: Ratios) -> None:
    samples = torch.randn(4_800)
    first = resample(samples, 48_000, 44_100)
    assert torch.equal(resample(samples, 48_000, 44_100), first)
    resample(samples, 96_000, 88_200)  # the same ratio
    assert ratios == [(160, 147)]
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(each, first) for each in pool.map(lambda _: resample(samples, 48_000, 44_100), range(8)))
    assert ratios == [(160, 147)]


def test_filter_bank_cache_is_bounded(ratios: Ratios) -> None:
    for rate, new_rate in product(RATES, RATES):
        resample(torch.randn(10), rate, new_rate)
    computed = len(ratios)
    assert 0 < module._filters.nbytes < module._CACHE_BYTES
    for rate, new_rate in product(RATES, RATES):
        resample(torch.randn(10), rate, new_rate)
    assert len(ratios) == computed, "the cache holds all usual rates"
    for rate in (8_026, 8_051):  # banks of many megabytes
        resample(torch.randn(10), rate, 44_100)
        assert module._filters.nbytes <= module._CACHE_BYTES


def test_cached_filter_bank_matches_torchaudio(ratios: Ratios) -> None:
    samples = torch.randn(2, 4_800)
    for _ in range(2):
        plain = torchaudio.functional.resample(samples.double(), 480, 441, **module._QUALITY)
        torch.testing.assert_close(resample(samples, 48_000, 44_100).double(), plain, rtol=0, atol=4e-6)
