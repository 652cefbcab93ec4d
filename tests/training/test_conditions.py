"""Recording conditions keep length and timing, have their spectral effect, and repeat with their seed."""

from collections.abc import Callable

import numpy as np
import pytest

from training.speech import conditions

RATE = 22050


def tone(hertz: float = 220.0, seconds: float = 1.0) -> np.ndarray:
    time = np.arange(int(seconds * RATE)) / RATE
    return (0.3 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)


def power(wave: np.ndarray, low: float, high: float) -> float:
    spectrum = np.square(np.abs(np.fft.rfft(wave)))
    at = np.fft.rfftfreq(len(wave), 1 / RATE)
    return float(spectrum[(at >= low) & (at < high)].sum())


def test_degraded_speech_repeats_with_its_seed_and_keeps_length() -> None:
    wave = tone()
    made = [conditions.degraded(wave, RATE, np.random.default_rng(seed)) for seed in range(30)]
    for made_wave in made:
        assert made_wave.dtype == np.float32
        assert made_wave.shape == wave.shape
        assert np.isfinite(made_wave).all()
        assert np.abs(made_wave).max() <= 1.2  # ripple of a codec
        assert power(made_wave, 200, 240) > 0.5 * power(made_wave, 0, RATE / 2)  # the tone still dominates
    np.testing.assert_array_equal(made[3], conditions.degraded(wave, RATE, np.random.default_rng(3)))
    assert len({made_wave.tobytes() for made_wave in made}) > 25


@pytest.mark.parametrize("condition", [conditions.in_a_room, conditions.coloured, conditions.band_limited])
def test_conditions_keep_timing(condition: Callable[..., np.ndarray]) -> None:
    """A click keeps its position, so frames keep the phones of the clean speech."""
    click = np.zeros(RATE)
    click[5000] = 1.0
    for seed in range(5):
        heard = np.abs(condition(click, RATE, np.random.default_rng(seed)))
        assert abs(int(heard.argmax()) - 5000) < 40  # 2 ms
        assert heard[:5000].max() < 1e-9


def test_room_has_decaying_reverberation() -> None:
    click = np.zeros(RATE)
    click[0] = 1.0
    heard = conditions.in_a_room(click, RATE, np.random.default_rng(0))
    assert heard[0] == pytest.approx(1.0, abs=0.05)
    assert np.square(heard[500:2000]).sum() > np.square(heard[8000:9500]).sum() > 0


def test_band_limit_removes_high_frequencies() -> None:
    noise = np.random.default_rng(0).standard_normal(RATE)
    heard = conditions.band_limited(noise, RATE, np.random.default_rng(1))
    assert power(heard, 10_000, 11_000) < 0.05 * power(noise, 10_000, 11_000)
    assert power(heard, 1000, 2000) == pytest.approx(power(noise, 1000, 2000), rel=0.2)


def test_noise_level_is_below_speech() -> None:
    wave = tone().astype(np.float64)
    for seed in range(5):
        added = conditions.noisy(wave, np.random.default_rng(seed)) - wave
        ratio = 10 * np.log10(np.square(wave).mean() / np.square(added).mean())
        assert 11.9 < ratio < 45.1


def test_compression_keeps_timing() -> None:
    wave = np.concatenate((np.zeros(6000), tone(440, 0.5), np.zeros(6000))).astype(np.float64)
    heard = conditions.compressed(wave, RATE, np.random.default_rng(0))
    assert heard.shape == wave.shape
    lag = int(np.argmax(np.correlate(heard, wave[4000:-4000], "valid"))) - 4000
    assert abs(lag) < 60


def test_telephone_limits_band_and_keeps_timing() -> None:
    noise = 0.1 * np.random.default_rng(0).standard_normal(RATE)
    heard = conditions.telephoned(noise, RATE)
    assert heard.shape == noise.shape
    assert power(heard, 4100, 11_000) < 0.01 * power(noise, 4100, 11_000)
    assert power(heard, 20, 150) < 0.1 * power(noise, 20, 150)
    assert power(heard, 600, 3000) == pytest.approx(power(noise, 600, 3000), rel=0.25)
    lag = int(np.argmax(np.correlate(heard, noise[500:-500], "valid"))) - 500
    assert abs(lag) < 20  # under a millisecond


def test_music_is_below_speech_and_tonal() -> None:
    wave = tone().astype(np.float64)
    for seed in range(3):
        added = conditions.with_music(wave, RATE, np.random.default_rng(seed)) - wave
        assert 7.9 < 10 * np.log10(np.square(wave).mean() / np.square(added).mean()) < 25.1
        spectrum = np.abs(np.fft.rfft(added * np.hanning(RATE)))
        assert spectrum.max() > 20 * np.median(spectrum[80:2000])
