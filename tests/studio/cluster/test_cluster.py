"""Two local replicas: concurrent streams, kills, a rolling update, and a shared library."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from engine import Engine, SpeakOptions
from engine.errors import EngineBusy, EngineFailed, InvalidInput, InvalidText, UnusableReference
from engine.outputs import AudioChunk, SegmentResult, SpeechResult, SpokenSegment
from engine.voice import Voice
from storage import Storage
from storage.voices.sample_voices import install_samples, read_sample_voices
from studio.cluster.messages import SpeakRequest
from studio.cluster.speech import ClusterRequest
from studio.context import AppContext
from studio.engines.model_manager import ModelManager
from tests.studio.cluster.conftest import settings
from tests.support.waiting import until

if TYPE_CHECKING:
    from studio.cluster.engine import ClusterEngine
    from studio.engines.speech_engine import SpeechEngine

pytestmark = pytest.mark.cluster

LONG = "The rain has stopped. The children play in the garden. The old dog sleeps near the door. We walk to the river."
PAUSED = f"The rain has stopped. [pause:5] {LONG} {LONG}"
SEEDED = SpeakOptions(seed=7)
LOST = "A replica was lost while it spoke"  # in the log
# Between two engines: sums are rounded in another order when chunks or batches differ; the postfilter amplifies that.
ROUNDING = 5e-4


@pytest.fixture(scope="module")
def voices() -> list[Voice]:
    return [sample.voice for sample in read_sample_voices()]


def read_speech(speech: Any, samples: np.ndarray | None = None) -> tuple[np.ndarray, SpeechResult]:
    """Read a speech to its end. Returns its samples, appended to `samples`, and its result."""
    samples = np.zeros(0, np.float32) if samples is None else samples
    for chunk in speech:
        samples = np.concatenate([samples[: chunk.start], chunk.samples])
    return samples, speech.result


@pytest.fixture(scope="module")
def paused(cluster: ClusterEngine, voices: list[Voice]) -> tuple[np.ndarray, SpeechResult]:
    """Samples and result of PAUSED, of a speech that nothing disturbs."""
    return read_speech(cluster.speak(PAUSED, voices[0], SEEDED))


def test_cluster_output_equals_the_local_engine(
    cluster: ClusterEngine, bundled_engine: Engine, voices: list[Voice]
) -> None:
    here, there = ([read_speech(engine.speak("The rain has stopped.", voice, SEEDED)) for voice in voices[:2]]
                   for engine in (bundled_engine, cluster))  # fmt: skip
    for (expected, result), (got, other) in zip(here, there, strict=True):
        np.testing.assert_allclose(got, expected, atol=ROUNDING)
        assert (other.stop_reason, other.frames, other.seed) == (result.stop_reason, result.frames, 7)
        assert other.segments == result.segments


def test_requests_go_to_the_replica_that_caches_the_voice(cluster: ClusterEngine, voices: list[Voice]) -> None:
    from studio.cluster.messages import voice_key

    for _ in range(2):
        for voice in voices[2:6]:
            read_speech(cluster.speak("Hello there.", voice, SEEDED))
    held = [each.voices for each in cluster.replicas()]
    keys = [voice_key([cluster._with_own_codes(voice)]) for voice in voices[2:6]]
    assert [sum(key in voices_held for voices_held in held) for key in keys] == [1, 1, 1, 1]


def test_replicas_share_a_gpu(cluster: ClusterEngine) -> None:
    """The GPU is logical; the machine may have none."""
    assert [each.gpus for each in cluster.replicas()] == [("0",), ("0",)]


def test_concurrent_streams_use_both_replicas(cluster: ClusterEngine, voices: list[Voice]) -> None:
    with ThreadPoolExecutor(6) as pool:
        takes = list(pool.map(lambda voice: read_speech(cluster.speak("The rain has stopped.", voice)), voices))
    assert all(result.stop_reason in ("end", "short") for _, result in takes)
    assert len(cluster.replicas()) == 2
    assert cluster.status().slots == 4


def read_and_kill(cluster: ClusterEngine, speech: Any) -> tuple[np.ndarray, list[int]]:
    """Read a speech and kill its replica when the second segment begins. Returns the samples and each chunk's start.

    A replica does not wait for its reader, so it is looked up while the first segment is read.
    """
    samples, starts, killed = np.zeros(0, np.float32), [], False
    with ThreadPoolExecutor(1) as pool:
        speaking = pool.submit(find_speaking_replica, cluster)
        for chunk in speech:
            starts.append(chunk.start)
            samples = np.concatenate([samples[: chunk.start], chunk.samples])
            if chunk.segment >= 1 and chunk.frames and not killed:
                killed = True
                os.kill(speaking.result(), signal.SIGKILL)
    assert killed
    return samples, starts


def find_speaking_replica(cluster: ClusterEngine) -> int:
    """Wait until a single replica speaks; returns its process id."""
    found: list[int] = []

    def speaking() -> bool:
        found[:] = [each.pid for each in cluster.replicas() if each.status.speaking]
        return len(found) == 1

    until(speaking)
    return found[0]


def test_killed_replica_causes_a_wait_but_no_error_and_no_lost_words(
    cluster: ClusterEngine,
    voices: list[Voice],
    paused: tuple[np.ndarray, SpeechResult],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The killed replica was in its second segment; the pause before it does not count as an arrived segment."""
    expected, whole = paused
    speech = cluster.speak(PAUSED, voices[0], SEEDED)
    samples, starts = read_and_kill(cluster, speech)
    assert LOST in caplog.text
    assert speech.result is not None
    assert speech.result.stop_reason == whole.stop_reason
    assert [segment.frames for segment in speech.result.segments] == [segment.frames for segment in whole.segments]
    assert len(samples) == len(expected)
    begin = whole.segments[0].frames * cluster.info.frame_length + 5 * cluster.info.sample_rate
    np.testing.assert_allclose(samples[:begin], expected[:begin], atol=ROUNDING)
    assert min(starts[starts.index(begin) :]) == begin  # from the interrupted segment on
    # The codec and the phase of a voice restart with the segment, which changes no levels.
    loud, wanted = (np.square(each[: len(each) // 512 * 512]).reshape(-1, 512).mean(1) for each in (samples, expected))
    assert np.corrcoef(loud, wanted)[0, 1] > 0.999
    assert np.corrcoef(samples, expected)[0, 1] > 0.9


def test_full_cluster_raises_busy(cluster: ClusterEngine, voices: list[Voice], monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.serve.exceptions import BackPressureError

    def full(_request: SpeakRequest) -> None:
        raise BackPressureError(64, 64)

    monkeypatch.setattr(cluster, "stream", full)
    with pytest.raises(EngineBusy, match="the limit is 64"):
        read_speech(cluster.speak("The rain has stopped.", voices[0]))


def test_segment_has_arrived_when_its_own_frames_have(cluster: ClusterEngine) -> None:
    request = ClusterRequest(cluster.stream, cluster.info, SpeakRequest("", (), SEEDED, "owner"))
    for at, frames in enumerate((4, 6)):
        request._spoken.append(SpokenSegment(SegmentResult("word", "end", frames, 1), np.zeros((1, frames), np.int64)))
        silence = AudioChunk(
            np.zeros(200 * cluster.info.frame_length, np.float32), request._arrived.end, 0, 0.0, at, 2, "word"
        )
        sound = AudioChunk(np.zeros(4 * cluster.info.frame_length, np.float32), 0, 4, 0.0, at, 2, "word")
        request._chunk(silence)
        request._chunk(replace(sound, start=request._arrived.end))
    assert request._arrived_segments() == request._spoken[:1]
    assert request.result("cancelled").frames == 8
    request._chunk(replace(sound, start=request._arrived.end - len(sound.samples)))  # the second segment is repeated
    assert request.result("cancelled").frames == 8


# ---- the common interface: an engine in this process and a cluster


@pytest.fixture(params=["here", "cluster"])
def engine(request: pytest.FixtureRequest) -> SpeechEngine:
    made: SpeechEngine = request.getfixturevalue({"here": "bundled_engine"}.get(request.param, request.param))
    return made


def test_growing_text_is_one_speech(engine: SpeechEngine, voices: list[Voice]) -> None:
    text = engine.growing_text()
    with pytest.raises(InvalidText):
        text.append("привет")
    text.append("The rain has stopped. The children")
    speech = engine.speak(text, voices[0], SEEDED)
    first = next(speech)
    text.append(" play in the garden.")
    text.finish()
    samples, result = read_speech(speech, first.samples)
    assert first.start == 0
    assert [segment.text for segment in result.segments] == [
        "The rain has stopped.",
        "The children play in the garden.",
    ]
    assert result.frames == sum(segment.frames for segment in result.segments)
    silence = round(0.25 * engine.info.sample_rate)  # the pause of the bundled model between two sentences
    assert len(samples) == result.frames * engine.info.frame_length + silence


def test_invalid_text_and_clip_raise(engine: SpeechEngine, voices: list[Voice]) -> None:
    with pytest.raises(InvalidText, match="English"):
        read_speech(engine.speak("привет", voices[0]))
    with pytest.raises(UnusableReference):
        engine.encode_voice("Ada", [(b"no clip", "Hello.")])
    with pytest.raises(InvalidInput):
        engine.encode_voice("Ada", [])


def test_word_times_and_pause_lengths(engine: SpeechEngine, voices: list[Voice]) -> None:
    how = replace(SEEDED, word_times=True)
    chunks = list(engine.speak("The rain [pause:1.5] has stopped.", voices[0], how))
    words = [word for chunk in chunks for word in chunk.words]
    assert [word.text for word in words] == ["The", "rain", "has", "stopped."]
    silent = [len(chunk.samples) for chunk in chunks if len(chunk.samples) and not chunk.frames]
    assert sum(silent) == 1.5 * engine.info.sample_rate
    assert words[2].start - words[1].end > 1.4


def test_cancelled_speech_frees_its_slot(engine: SpeechEngine, voices: list[Voice]) -> None:
    for end in ("cancel", "close", "drop"):
        speech = engine.speak(LONG, voices[0], SEEDED)
        next(speech)
        if end == "cancel":
            speech.cancel()
            _, result = read_speech(speech)
            assert result.stop_reason == "cancelled"
        elif end == "close":
            speech.close()
            assert list(speech) == []
        del speech
        until(lambda: not engine.status().speaking)


def test_voice_is_encoded_reencoded_and_reconstructed(engine: SpeechEngine, voices: list[Voice]) -> None:
    reference = voices[0].references[0]
    made = engine.encode_voice("Ada", [(reference.clip, reference.transcript)], language="en-GB").voice
    assert (made.name, made.language, made.codec_fingerprint) == ("Ada", "en-GB", engine.info.codec_fingerprint)
    again = engine.reencode(replace(made, codec_fingerprint="another"))
    np.testing.assert_array_equal(again.references[0].codes, made.references[0].codes)
    samples = engine.reconstruct(made)
    assert len(samples) == made.references[0].codes.shape[1] * engine.info.frame_length
    engine.forget(made)


def test_errors_of_replicas_that_cannot_forget_a_voice_are_logged(
    voices: list[Voice], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from studio.cluster.engine import ClusterEngine

    engine = object.__new__(ClusterEngine)
    monkeypatch.setattr(engine, "_broadcast", lambda *_: [None, EngineFailed("engine.failed"), None])
    engine.forget(voices[0])
    assert [record.args for record in caplog.records] == [("EngineFailed",)]


# ---- clusters only


def test_voice_saved_by_one_server_is_usable_by_another(cluster: ClusterEngine, postgresql: str) -> None:
    """Two services, as in two processes, share one database and one cluster."""
    clip = read_sample_voices()[0].voice.references[0]
    with Storage.open(postgresql) as one, Storage.open(postgresql) as other:
        made = AppContext.create(ModelManager(cluster), one).engine.encode_voice("Ada", [(clip.clip, clip.transcript)])
        saved = one.voices.add(made.voice)
        voice = other.voices.ready(saved.id, cluster.info.codec_fingerprint, cluster.reencode)
        _, result = read_speech(
            AppContext.create(ModelManager(cluster), other).engine.speak("Hello there.", voice, SEEDED)
        )
        assert result.frames > 0


def wait_for_stable_replicas(cluster: ClusterEngine) -> set[int]:
    """Wait until both replicas are stable; returns their process ids."""
    seen: list[set[int]] = [set()]

    def same() -> bool:
        seen.append({each.pid for each in cluster.replicas()})
        return len(seen[-1]) == 2 and seen[-1] == seen[-2]

    until(same)
    return seen[-1]


def test_api_output_of_a_cluster_equals_the_local_engine(
    cluster: ClusterEngine, bundled_engine: Engine, tmp_path: Path
) -> None:
    from fastapi.testclient import TestClient

    from api.app import create_api

    asked = {"input": LONG, "voice": "Clara", "seed": 7, "response_format": "pcm", "stream": False}
    heard = []
    for engine in (bundled_engine, cluster):
        with Storage.open(tmp_path / f"{type(engine).__name__}.db") as storage:
            install_samples(storage.voices)
            app = AppContext.create(ModelManager(engine), storage)
            with TestClient(create_api(app, lambda *_: True)) as client:
                spoken = client.post("/v1/audio/speech", json=asked)
                assert (spoken.status_code, spoken.headers["x-seed"]) == (200, "7"), spoken.text
                heard.append((np.frombuffer(spoken.content, "<i2").astype(float), spoken.headers["x-usage-frames"]))
                refused = client.post("/v1/audio/speech", json={**asked, "input": "привет"})
                assert refused.status_code == 400
                assert client.get("/health/ready").status_code == 200
                assert client.get("/v1/models").json()["data"][0]["id"] == engine.info.name
    (here, frames), (there, same) = heard
    assert (len(there), same) == (len(here), frames)
    assert np.abs(there - here).max() <= 32768 * ROUNDING


def test_rolling_update_lets_speeches_finish(
    cluster: ClusterEngine,
    voices: list[Voice],
    paused: tuple[np.ndarray, SpeechResult],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Both replicas are replaced, by one, while one of them speaks."""
    from ray import serve

    from studio.cluster.deployment import _deploy

    before = wait_for_stable_replicas(cluster)
    others = replace(settings(), replicas=(1, 1))
    _deploy(serve, settings(), attach=False)
    _deploy(serve, others, attach=True)
    assert {each.pid for each in cluster.replicas()} == before, "unchanged settings do not restart replicas"
    speech = cluster.speak(PAUSED, voices[0], SEEDED)
    first = next(speech).samples
    with ThreadPoolExecutor(1) as pool:
        update = pool.submit(_deploy, serve, others, attach=False)
        samples, result = read_speech(speech, first)
        update.result()
    until(lambda: not before & {each.pid for each in cluster.replicas()})
    assert result is not None
    assert LOST not in caplog.text
    np.testing.assert_allclose(samples, paused[0], atol=ROUNDING)
    assert read_speech(cluster.speak("Hello there.", voices[0]))[1].frames > 0


def test_lost_head_node_raises_and_keeps_the_library(
    cluster: ClusterEngine, postgresql: str, voices: list[Voice]
) -> None:
    """This test is last because it kills the cluster's control store."""
    from ray._private.worker import _global_node

    known = cluster.status().slots
    with Storage.open(postgresql) as storage:
        saved = storage.voices.add(voices[0])
        speech = cluster.speak(LONG * 5, voices[0], SEEDED)
        next(speech)
        (control,) = _global_node.all_processes["gcs_server"]
        os.kill(control.process.pid, signal.SIGKILL)
        with pytest.raises(EngineFailed, match=r"does not answer any more\. Saved voices and takes are safe"):
            read_speech(speech)
        with pytest.raises(EngineFailed, match="does not answer any more"):
            cluster.speak("Hello there.", voices[0])
        with pytest.raises(EngineFailed, match="does not answer any more"):
            cluster.reencode(voices[0])
        assert cluster.status().slots == known >= 2  # the last known status
        assert storage.voices.load(saved.id).references == voices[0].references
