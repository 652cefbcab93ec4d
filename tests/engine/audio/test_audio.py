"""Decoding and preparation of reference clips and encoding of takes, with files written by real encoders."""

import contextlib
import importlib.util
import io
import itertools
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from engine.audio import (
    Clip,
    decode_audio,
    encode_audio,
    prepare_reference,
    resample,
    to_int16,
    transcript_for,
    wav_bytes,
)
from engine.audio.clip_length import LONGEST_USED
from engine.audio.decode import _collected
from engine.audio.excerpt import MARGIN
from engine.audio.reference import END_SILENCE, SPEECH_LEVEL
from engine.audio.vad import silero_weights, speech_probabilities, speech_spans
from engine.errors import InvalidOption, UnusableReference
from tests.paths import SPEECH
from tests.support.damaged_speech import silent_film

Samples = NDArray[np.float32]

SLT, ESPEAK = SPEECH / "flite_slt.flac", SPEECH / "espeak_en_gb.flac"
RATE = 16_000
OUT = 22_050


def read(path: Path = SLT) -> Samples:
    samples, _ = soundfile.read(path, dtype="float32")
    return np.asarray(samples, np.float32)


def clip_at(rate: int) -> Samples:
    """Return the first clip, resampled to `rate`."""
    return resample(torch.from_numpy(read()), RATE, rate).numpy()


def written(samples: np.ndarray, rate: int = RATE, format: str = "WAV", subtype: str | None = None) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=format, subtype=subtype)
    return file.getvalue()


def encoded_by_av(samples: Samples, rate: int, container: str, codec: str, layout: str = "mono") -> bytes:
    """Encode `samples`, [n] or [n, 2] for stereo, with PyAV."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate, layout=layout)
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(to_int16(samples).reshape(1, -1), format="s16", layout=layout)
        frame.sample_rate = rate
        for packet in itertools.chain(stream.encode(frame), stream.encode(None)):
            output.mux(packet)
    return file.getvalue()


def conversation(sentences: int, pause: float = 0.4, then: float = 1.0) -> Samples:
    """Repeat one sentence, with a longer pause of `then` seconds after every fourth."""
    sentence = read()[2_800:48_200]
    gaps = [np.zeros(int((then if i % 4 == 3 else pause) * RATE), np.float32) for i in range(sentences)]
    return np.concatenate([part for gap in gaps for part in (sentence, gap)])


def best_correlation(clip: Clip, other: Clip) -> float:
    """Return the best correlation of two clips over lags of up to 0.15 s, since encoders delay the signal."""
    a, b = clip.samples.numpy(), other.samples.numpy()
    size = 1 << (len(a) + len(b)).bit_length()
    product = np.fft.irfft(np.fft.rfft(a, size) * np.conj(np.fft.rfft(b, size)))
    near = np.concatenate((product[:3_300], product[-3_300:]))
    return float(near.max() / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.fixture(scope="module")
def slt_clip() -> Clip:
    return prepare_reference(SLT, OUT)


WAVS = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW")
FILES = {
    **{f"wav {kind}": ("WAV", kind) for kind in WAVS},
    **{f"flac {kind}": ("FLAC", kind) for kind in ("PCM_S8", "PCM_16", "PCM_24")},
    "ogg vorbis": ("OGG", "VORBIS"),
    "ogg opus": ("OGG", "OPUS"),
    "mp3": ("MP3", None),
    "aiff": ("AIFF", None),
}
AV_FILES = {
    "m4a": (44_100, "ipod", "aac"),
    "mp4": (22_050, "mp4", "aac"),
    "aac": (48_000, "adts", "aac"),
    "webm": (48_000, "webm", "libopus"),
    "ogg opus of a browser": (48_000, "ogg", "libopus"),
    "wav adpcm": (22_050, "wav", "adpcm_ms"),
}


@pytest.mark.parametrize("kind", FILES)
def test_formats_of_soundfile_are_read(kind: str, slt_clip: Clip) -> None:
    container, subtype = FILES[kind]
    clip = prepare_reference(written(read(), RATE, container, subtype), OUT)
    assert clip.duration == pytest.approx(slt_clip.duration, abs=0.12)
    assert best_correlation(clip, slt_clip) > 0.9
    assert clip.notes == ()


@pytest.mark.parametrize("kind", AV_FILES)
def test_formats_of_av_are_read(kind: str, slt_clip: Clip) -> None:
    rate, container, codec = AV_FILES[kind]
    clip = prepare_reference(encoded_by_av(clip_at(rate), rate, container, codec), OUT)
    assert clip.duration == pytest.approx(slt_clip.duration, abs=0.12)
    assert best_correlation(clip, slt_clip) > 0.9


@pytest.mark.parametrize(
    ("container", "codec"),
    [("mov", "pcm_s16le"), ("mov", "pcm_s24le"), ("mov", "pcm_f32le"), ("avi", "pcm_u8"), ("mp4", "aac")],
)
def test_stereo_of_any_sample_layout_is_mixed(container: str, codec: str, slt_clip: Clip) -> None:
    channels = clip_at(22_050)[:, None] * np.array([0.9, 0.3], np.float32)
    data = encoded_by_av(channels, 22_050, container, codec, "stereo")
    assert float(decode_audio(data, OUT).abs().max()) == pytest.approx(0.6 * np.abs(clip_at(22_050)).max(), rel=0.1)
    clip = prepare_reference(data, OUT)
    assert clip.duration == pytest.approx(slt_clip.duration, abs=0.12)
    assert best_correlation(clip, slt_clip) > 0.95


@pytest.mark.parametrize("rate", [8_000, 44_101, 192_000])
def test_any_sample_rate_is_resampled(rate: int, slt_clip: Clip) -> None:
    clip = prepare_reference(written(clip_at(rate), rate, "WAV", "PCM_24"), OUT)
    assert clip.sample_rate == OUT
    assert clip.duration == pytest.approx(slt_clip.duration, abs=0.12)
    assert best_correlation(clip, slt_clip) > 0.9


@pytest.mark.parametrize("weights", [(1, 1), (1, 0), (0.3, 0.2, 0, 0.5, 0.1, 0.4)])
def test_channels_are_mixed_to_mono(weights: tuple[float, ...], slt_clip: Clip) -> None:
    channels = read()[:, None] * np.asarray(weights, np.float32)
    assert best_correlation(prepare_reference(written(channels), OUT), slt_clip) > 0.99


@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_inverted_channels_do_not_cancel_each_other(noise: float, slt_clip: Clip) -> None:
    """As from a microphone with a miswired cable, with the noise of each channel's own amplifier."""
    channels = read()[:, None] * np.array([1, -1], np.float32)
    channels += np.random.default_rng(0).normal(0, noise, channels.shape).astype(np.float32)
    assert best_correlation(prepare_reference(written(channels), OUT), slt_clip) > 0.97


@pytest.mark.parametrize("codec", ["mp3", "vorbis", "opus"])
def test_joined_files_are_read_to_the_end(codec: str) -> None:
    """Players play such files, as many programs join mp3 files byte by byte, and ogg allows it."""
    container = "MP3" if codec == "mp3" else "OGG"
    part = written(clip_at(24_000), 24_000, container, None if codec == "mp3" else codec.upper())
    assert len(decode_audio(part + part, OUT)) == pytest.approx(2 * len(decode_audio(part, OUT)), rel=0.02)


@pytest.mark.parametrize("codec", ["mp3", "vorbis", "aac"])
def test_joined_files_of_different_rates_are_refused(codec: str) -> None:
    def part(rate: int) -> bytes:
        if codec == "aac":
            return encoded_by_av(clip_at(rate), rate, "adts", "aac")
        return written(clip_at(rate), rate, *(("MP3", None) if codec == "mp3" else ("OGG", "VORBIS")))

    with pytest.raises(UnusableReference, match="different sampling rates"):
        decode_audio(part(22_050) + part(44_100), OUT)


def test_channels_near_float_max_are_mixed(slt_clip: Clip) -> None:
    full = read()[:, None] / np.abs(read()).max()
    loud = np.repeat(full * np.float32(3e38), 2, axis=1)
    assert best_correlation(prepare_reference(written(loud, subtype="FLOAT"), OUT), slt_clip) > 0.99


@pytest.mark.parametrize("gain", [1e-3, 0.02, 3.0, 32_768.0, 1e30])
def test_level_is_normalised_for_any_scale(gain: float, slt_clip: Clip) -> None:
    clip = prepare_reference(written((read() * gain).astype(np.float32), subtype="FLOAT"), OUT)
    assert torch.allclose(clip.samples, slt_clip.samples, atol=2e-4)


@pytest.mark.parametrize("path", [SLT, ESPEAK])
def test_prepared_clip_has_fixed_level_and_end_silence(path: Path) -> None:
    clip = prepare_reference(path, OUT)
    samples = clip.samples
    assert samples.dtype == torch.float32
    assert samples.ndim == 1
    silence = int(END_SILENCE * OUT)
    assert not samples[-silence:].any()
    assert samples[-2 * silence : -silence].any()
    assert samples.abs().max() <= 0.99
    assert abs(float(samples.mean())) < 1e-3
    loud = samples[samples.abs() > samples.abs().max() * 0.02]
    assert float(loud.square().mean().sqrt()) == pytest.approx(SPEECH_LEVEL, rel=0.25)
    assert clip.speech_kept == 1
    added = clip.duration - (clip.used[1] - clip.used[0])
    assert END_SILENCE - 0.01 < added < MARGIN + END_SILENCE + 0.01


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.005])
@pytest.mark.parametrize("path", [SLT, ESPEAK])
def test_silence_is_trimmed_without_cutting_words(path: Path, noise: float) -> None:
    rate = soundfile.info(path).samplerate
    speech = read(path)
    around = np.pad(speech, (2 * rate, 3 * rate // 2))
    around += np.random.default_rng(1).normal(0, noise, len(around)).astype(np.float32) + 0.05
    start, end = prepare_reference(written(around, rate, subtype="FLOAT"), OUT).used
    audible = np.flatnonzero(np.abs(speech) > max(0.02 * np.abs(speech).max(), 4 * noise)) / rate + 2
    assert audible[0] - 0.4 < start <= audible[0] - 0.02
    assert audible[-1] + 0.02 <= end < audible[-1] + 0.5


def test_clip_that_begins_with_its_first_word_gets_silence_before_it() -> None:
    speech = read()
    first = np.flatnonzero(np.abs(speech) > 0.1 * np.abs(speech).max())[0]
    clip = prepare_reference(written(speech[first:]), OUT)
    silence = int(MARGIN * OUT)
    assert clip.used[0] == 0
    assert not clip.samples[: silence - OUT // 100].any()
    assert clip.samples[silence : 2 * silence].any()
    assert clip.duration == pytest.approx(clip.used[1] + MARGIN + END_SILENCE, abs=0.02)
    long = prepare_reference(written(np.tile(speech[first:], 6)), OUT)
    assert long.duration <= LONGEST_USED


def test_soft_beginning_and_end_are_kept() -> None:
    """A fricative like s or f, 35 dB below the voice, is kept although the detector alone does not find it."""
    samples = np.pad(read()[3_400:47_400], 2 * RATE)
    hiss = np.random.default_rng(2).normal(0, 0.02 * np.abs(samples).max(), RATE // 4).astype(np.float32)
    first, last = 2 * RATE - len(hiss), len(samples) - 2 * RATE
    samples[first : first + len(hiss)] += hiss
    samples[last : last + len(hiss)] += hiss
    start, end = prepare_reference(written(samples), OUT).used
    assert start <= first / RATE
    assert end >= (last + len(hiss)) / RATE


def test_first_words_of_a_very_deep_voice_are_detected() -> None:
    """The detector alone misses the first 1.5 seconds of this voice."""
    giant = torch.from_numpy(read(SPEECH / "flite_rms_story.flac")[3_000:60_000])
    slow = resample(giant, 6, 10)
    start, _ = speech_spans(slow * (0.3 / slow.abs().quantile(0.99)))[0]
    assert start < 0.3


@pytest.mark.parametrize("length", [1, 300])
def test_knock_does_not_hide_quiet_speech(length: int) -> None:
    """Levels follow the voice, not the loudest sample: all words are found, and have the level of other clips."""
    quiet = np.pad(read()[3_400:47_400] * 0.02, 2 * RATE)
    clean = prepare_reference(written(quiet, subtype="FLOAT"), OUT)
    for start in (RATE, 2 * RATE + 20_000):
        quiet[start : start + length] = 0.9
    clip = prepare_reference(written(quiet, subtype="FLOAT"), OUT)
    assert clip.used[0] < 2.05
    assert clip.used[1] > len(quiet) / RATE - 2.1
    assert 0.9 < clip.samples.abs().max() <= 0.99
    assert clip.samples.abs().median() > 0.8 * clean.samples.abs().median()


def test_loud_word_in_quiet_speech_is_not_clipped() -> None:
    speech = read() * 0.9
    loud = len(speech) // 2, len(speech) // 2 + RATE // 3
    speech[: loud[0]] *= 0.06
    speech[loud[1] :] *= 0.06
    clip = prepare_reference(written(speech, subtype="FLOAT"), OUT)
    assert (clip.samples.abs() > 0.98).sum() < 0.01 * OUT / 3


@pytest.mark.parametrize("length", [1, 8, 32, 48, 80])
def test_knock_in_quiet_speech_is_not_clipping(length: int) -> None:
    quiet = read() * 0.03
    quiet[30_000 : 30_000 + length] = np.resize([0.99, 0.99, -0.99, -0.99], length)
    assert prepare_reference(written(quiet), OUT).notes == ()


@pytest.mark.parametrize("pause", [0.5, 6.0, 25.0])
def test_speech_has_its_level_between_long_pauses(pause: float, slt_clip: Clip) -> None:
    speech = read()[3_400:47_400]
    clip = prepare_reference(
        written(np.concatenate((speech[:13_000], np.zeros(int(pause * RATE)), speech[13_000:]))), OUT
    )
    assert clip.samples.abs().max() == pytest.approx(slt_clip.samples.abs().max().item(), rel=0.3)


def test_background_noise_fades_in_and_out() -> None:
    samples = np.pad(read(), RATE)
    samples += np.random.default_rng(4).normal(0, 0.02, len(samples)).astype(np.float32)
    clip = prepare_reference(written(samples), OUT).samples[: -int(END_SILENCE * OUT)].abs()
    assert clip[1_000:1_500].mean() > 0.001
    assert max(clip[0], clip[-1]) == 0
    assert max(clip[:10].max(), clip[-10:].max()) < clip[1_000:1_500].max() / 3


def test_inner_pauses_are_kept() -> None:
    clip = prepare_reference(written(conversation(2, pause=4.0)), OUT)
    assert clip.duration > 2 * 2.7 + 4
    assert clip.speech_kept == 1


def test_prepared_clip_survives_flac_exactly(slt_clip: Clip) -> None:
    flac = encode_audio(slt_clip.samples.numpy(), OUT, "flac")
    assert torch.equal(decode_audio(flac, OUT), slt_clip.samples)


def test_format_is_detected_for_any_file_name(tmp_path: Path, slt_clip: Clip) -> None:
    for name in ("clip.raw", "clip.txt", "Aufnahme ü.mp3"):
        path = tmp_path / name
        path.write_bytes(SLT.read_bytes())
        assert torch.equal(prepare_reference(str(path), OUT).samples, slt_clip.samples)


def test_long_clip_is_cut_at_a_pause_before_thirty_seconds() -> None:
    samples = conversation(12)
    clip = prepare_reference(written(samples), OUT)
    assert 20 < clip.duration <= LONGEST_USED
    assert 0 < clip.speech_kept < 1
    end = int(clip.used[1] * RATE)
    assert not samples[end : end + int(0.7 * RATE)].any()  # the longest of the pauses, not the last
    assert len(clip.notes) == 1
    assert "transcript must hold" in str(clip.notes[0])
    sentence = "The train was late, so we walked along the river."
    text, note = transcript_for(clip, " ".join([sentence] * 12))
    spoken = round(clip.speech_kept * 12)
    assert text == " ".join([sentence] * spoken)
    assert note is not None
    assert "along the river." in str(note)


def test_long_clip_without_pauses_is_cut_at_a_quiet_place() -> None:
    samples = conversation(12, 0.0, 0.0)
    clip = prepare_reference(written(samples), OUT)
    assert 20 < clip.duration <= LONGEST_USED
    end = int(clip.used[1] * RATE)
    assert np.abs(samples[end - 200 : end + 200]).max() < 0.2 * np.abs(samples).max()


def test_long_clip_does_not_end_with_a_long_pause() -> None:
    """The only pause starts long before the longest excerpt ends."""
    speech = conversation(12, 0.0, 0.0)
    samples = np.concatenate((speech[: 18 * RATE], np.zeros(9 * RATE, np.float32), speech[18 * RATE :]))
    samples += np.random.default_rng(5).normal(0, 3e-4, len(samples)).astype(np.float32)
    clip = prepare_reference(written(samples), OUT)
    assert 17.9 < clip.used[1] < 18.3


def test_transcript_is_kept_when_only_silence_is_trimmed() -> None:
    clip = prepare_reference(written(np.pad(read(), RATE)), OUT)
    assert transcript_for(clip, "  All of it.\n") == ("All of it.", None)


def tone(*frequencies: float) -> Samples:
    time = np.arange(4 * RATE) / RATE
    return sum((0.15 * np.sin(2 * np.pi * f * time) for f in frequencies), np.zeros(len(time))).astype(np.float32)


def tune() -> Samples:
    time = np.arange(RATE // 2) / RATE
    notes = (262, 330, 392, 523, 392, 330, 262, 294)
    plucked = [np.sin(2 * np.pi * f * time) * np.exp(-4 * time) for f in notes]
    return (0.5 * np.concatenate(plucked)).astype(np.float32)


def noise(level: float) -> Samples:
    return np.random.default_rng(0).normal(0, level, 4 * RATE).astype(np.float32)


def knocks() -> Samples:
    samples = noise(1e-4)
    samples[::7_000] = 0.9
    return samples


def poisoned(value: float) -> Samples:
    samples = read().copy()
    samples[20_000] = value
    return samples


REFUSED = {
    "no bytes": (b"", "holds no sound"),
    "no samples": (written(np.zeros(0, np.float32)), "holds no sound"),
    "a silent film": (silent_film(), "holds no sound"),
    "text": (b"Dear Sir or Madam, " * 400, "not audio"),
    "random bytes": (np.random.default_rng(3).bytes(50_000), "not audio"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(4_000), "not audio"),
    "a playlist": (f"#EXTM3U\n#EXTINF:4,\nfile://{SLT}\n#EXT-X-ENDLIST\n".encode(), "not audio"),
    "a script of files": (f"ffconcat version 1.0\nfile '{SLT}'\n".encode(), "not audio"),
    "a stream that nothing decodes": (
        encoded_by_av(read(), 48_000, "webm", "libopus").replace(b"A_OPUS", b"A_NONE"),
        "not audio",
    ),
    "half a header": (SLT.read_bytes()[:30], "not audio"),
    "silence": (written(np.zeros(4 * RATE, np.float32)), "silent"),
    "the noise of a muted microphone": (written(noise(2e-5), subtype="FLOAT"), "silent"),
    "an offset alone": (written(np.full(4 * RATE, 0.5, np.float32)), "silent"),
    "noise": (written(noise(0.1)), "No speech"),
    "hum": (written(tone(50, 100)), "No speech"),
    "a chord": (written(tone(220, 277, 330, 440)), "No speech"),
    "a tune": (written(tune()), "No speech"),
    "knocks": (written(knocks()), "No speech"),
    "one word": (written(np.pad(read()[4_000:13_000], RATE)), "seconds of speech: record at least 5"),
    "NaN": (written(poisoned(np.nan), subtype="FLOAT"), "NaN"),
    "infinity": (written(poisoned(-np.inf), subtype="FLOAT"), "NaN or infinity"),
    "beyond 32 bits": (written(read().astype(np.float64) * 1e39, format="CAF", subtype="DOUBLE"), "NaN or infinity"),
    "clipped": (written(np.clip(read() * 20, -1, 1)), "clipped beyond use"),
    "clipped, then mp3": (written(np.clip(read() * 20, -1, 1), format="MP3"), "clipped beyond use"),
    "clipped, then quieter": (written(np.clip(read() * 20, -1, 1) * 0.1), "clipped beyond use"),
    "too low a rate": (written(read()[::4], 4_000), "4,000 samples a second"),
    "too high a rate": (written(read(), 384_000), "384,000 samples a second"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_unusable_clip_is_rejected_with_one_sentence(kind: str) -> None:
    assert_rejected(*REFUSED[kind])


@pytest.mark.parametrize("by_av", [False, True])
def test_clip_of_ninety_one_seconds_is_rejected_with_one_sentence(by_av: bool) -> None:
    samples = np.resize(read(), 91 * RATE)
    source = encoded_by_av(samples, RATE, "adts", "aac") if by_av else written(samples, format="FLAC")
    assert_rejected(source, "longer than 90 seconds")


def assert_rejected(source: bytes, says: str) -> None:
    with pytest.raises(UnusableReference, match=says) as raised:
        prepare_reference(source, OUT)
    message = str(raised.value)
    assert message.endswith(".")
    assert ". " not in message


def test_missing_file_is_named_without_its_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.wav", tmp_path):
        with pytest.raises(UnusableReference, match=r"cannot be opened") as raised:
            prepare_reference(path, OUT)
        assert path.name in str(raised.value)
        assert str(path) not in str(raised.value)


def test_clip_of_ninety_seconds_is_accepted() -> None:
    clip = prepare_reference(written(np.resize(read(), 90 * RATE), format="MP3"), OUT)
    assert clip.duration <= LONGEST_USED


def test_slight_clipping_gives_a_note() -> None:
    clip = prepare_reference(written(np.clip(read() * 3, -1, 1)), OUT)
    assert any("clipped in places" in str(note) for note in clip.notes)


def test_clip_that_ends_inside_a_word_gets_a_note() -> None:
    samples = read(SPEECH / "flite_rms_story.flac")
    clip = prepare_reference(written(samples[: 3 * RATE]), OUT)
    assert [note.key for note in clip.notes] == ["doctor.edges_end"]
    begun = prepare_reference(written(samples[3 * RATE :]), OUT)
    assert [note.key for note in begun.notes] == ["doctor.edges_start"]
    assert prepare_reference(written(samples), OUT).notes == ()


def test_decoding_stops_at_the_limit() -> None:
    """The length limit applies to decoded blocks, not to the length in the header."""
    taken = 0

    def endless() -> Iterator[Samples]:
        nonlocal taken
        while True:
            taken += 1
            yield np.zeros((2, 8_000), np.float32)

    with pytest.raises(UnusableReference, match="longer"):
        _collected(endless(), 8_000)
    assert taken == 91


@pytest.mark.parametrize("part", [1, 5, 9])
def test_damaged_packet_does_not_affect_the_rest(slt_clip: Clip, part: int) -> None:
    data = bytearray(encoded_by_av(clip_at(44_100), 44_100, "ipod", "aac"))
    sound = data.index(b"moov") - 4
    place = sound * part // 10
    data[place : place + 60] = b"\xff" * 60
    assert prepare_reference(bytes(data), OUT).duration == pytest.approx(slt_clip.duration, abs=0.12)


@given(st.binary(min_size=1, max_size=400), st.sampled_from([0, 4, 40, 200, 3_000]))
def test_damaged_files_decode_or_raise_unusable_reference(damage: bytes, place: int) -> None:
    for whole in (DAMAGED_M4A, DAMAGED_WAV):
        data = whole[:place] + damage + whole[place + len(damage) :]
        with contextlib.suppress(UnusableReference):
            assert len(decode_audio(data, RATE)) > 0


DAMAGED_M4A = encoded_by_av(read()[:RATE], RATE, "ipod", "aac")
DAMAGED_WAV = written(read()[:RATE])


def test_detector_is_thread_safe_and_keeps_thread_count(slt_clip: Clip) -> None:
    before = torch.get_num_threads()
    with ThreadPoolExecutor(4) as pool:
        clips = list(pool.map(lambda _: prepare_reference(SLT, OUT), range(8)))
    assert all(torch.equal(clip.samples, slt_clip.samples) for clip in clips)
    assert torch.get_num_threads() == before
    assert "silero_vad" not in sys.modules  # its import sets torch's thread count to 1 for the whole process


def test_detector_matches_silero_jit_model() -> None:
    """With the weights of the scripted model of the silero_vad wheel, our detector gives the same probabilities."""
    spec = importlib.util.find_spec("silero_vad")
    assert spec is not None
    assert spec.submodule_search_locations
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.load(Path(spec.submodule_search_locations[0]) / "data" / "silero_vad.jit")
    theirs = {name.removeprefix("_model."): tensor for name, tensor in scripted.state_dict().items()}
    kinds = ("weight", "bias")
    gates = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    names = {
        "stft_conv.weight": "stft.forward_basis_buffer",
        **{f"conv{i + 1}.{kind}": f"encoder.{i}.reparam_conv.{kind}" for i in range(4) for kind in kinds},
        **{f"lstm_cell.{gate}": f"decoder.rnn.{gate}" for gate in gates},
        **{f"final_conv.{kind}": f"decoder.decoder.2.{kind}" for kind in kinds},
    }
    assert set(names) == set(silero_weights())
    samples = torch.from_numpy(read())
    ours = speech_probabilities(samples, {name: theirs[other] for name, other in names.items()})
    windows = torch.nn.functional.pad(samples, (0, -len(samples) % 512)).split(512)
    expected = torch.tensor([scripted(window, RATE).item() for window in windows])
    assert torch.allclose(ours, expected, atol=1e-4)


def test_detector_separates_sentences() -> None:
    spans = speech_spans(torch.from_numpy(conversation(3, 0.6, 0.6)))
    assert len(spans) == 3
    assert all(b[0] - a[1] > 0.3 for a, b in itertools.pairwise(spans))


@pytest.mark.parametrize("rate", [22_050, 24_000, 44_100])
@pytest.mark.parametrize("format", ["wav", "flac", "mp3", "opus"])
def test_encoded_takes_decode_to_the_same_audio(format: str, rate: int) -> None:
    samples = clip_at(rate)
    back = decode_audio(encode_audio(samples, rate, format), rate).numpy()  # type: ignore[arg-type]
    assert len(back) == pytest.approx(len(samples), abs=0.1 * rate)
    if format in ("wav", "flac"):
        assert np.abs(back - samples).max() <= 0.5 / 32768 + 1e-7
    else:
        assert (
            best_correlation(
                Clip(torch.from_numpy(back), rate, (), (0, 0)),
                Clip(torch.from_numpy(samples), rate, (), (0, 0)),
            )
            > 0.95
        )


@given(arrays.arrays(np.int16, st.integers(1, 50)))
def test_int16_samples_survive_encoding_exactly(values: NDArray[np.int16]) -> None:
    samples = values.astype(np.float32) / 32768
    assert encode_audio(samples, OUT, "pcm") == values.astype("<i2").tobytes()
    assert np.array_equal(to_int16(decode_audio(wav_bytes(samples, OUT), OUT).numpy()), values)


@pytest.mark.parametrize("format", ["wav", "flac", "mp3", "opus", "pcm"])
def test_non_finite_and_empty_samples_are_encoded(format: str) -> None:
    samples = np.tile(np.array([np.nan, np.inf, -np.inf, 7.0, -7.0, 0.5], np.float32), 4_000)
    assert len(encode_audio(samples, OUT, format)) > 100  # type: ignore[arg-type]
    encode_audio(np.zeros(0, np.float32), OUT, format)  # type: ignore[arg-type]
    assert to_int16(samples[:6]).tolist() == [0, 32767, -32768, 32767, -32768, 16384]


def test_unknown_output_format_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"“aiff”.*use wav"):
        encode_audio(np.zeros(10, np.float32), OUT, "aiff")  # type: ignore[arg-type]
