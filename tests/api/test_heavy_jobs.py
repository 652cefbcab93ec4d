"""Heavy jobs of one caller, more than there are threads for requests: others are answered meanwhile."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from api import check, consents, fish, heavy_jobs, voices
from engine.errors import InvalidInput
from studio import recognition
from studio.access import Caller
from studio.recognition import WhisperRecogniser
from studio.speech_service import SpeechService, VoiceChoice
from tests.api.conftest import Server
from tests.support.waiting import until

THREADS = 40  # for all requests
REQUESTS = THREADS + 8
CLIP = {"input": "Hello.", "ref_audio": "data:audio/wav;base64,AAAA"}


class Job:
    """A job that sets `begun`, blocks until `go` is set, and is then refused."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self, *_given: Any, **_named: Any) -> None:
        self.calls += 1
        self.begun.set()
        self.go.wait(60)
        raise InvalidInput("It has ended.")


@pytest.fixture
def job() -> Iterator[Job]:
    made = Job()
    yield made
    made.go.set()


def test_voices_do_not_wait_for_transcriptions(
    client: httpx.Client, server: Server, monkeypatch: pytest.MonkeyPatch, job: Job
) -> None:
    over = Job()
    over.go.set()
    monkeypatch.setattr(voices, "make_voice", over)
    monkeypatch.setattr(WhisperRecogniser, "transcript_of", job)
    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    with ThreadPoolExecutor(8) as threads, httpx.Client(base_url=server.url, timeout=60) as caller:
        waiting = [
            threads.submit(caller.post, "/v1/audio/transcriptions", files={"file": b"sound"})
            for _ in range(heavy_jobs.TRANSCRIPTIONS[2])
        ]
        try:
            until(job.begun.is_set)
            form = {"name": "Ann", "consent": "Ann"}
            saved = client.post("/v1/audio/voices", data=form, files={"audio_sample": b"sound"}, timeout=30)
            assert saved.json()["error"]["message"] == "It has ended."
        finally:
            job.go.set()
        assert {answer.result().status_code for answer in waiting} == {400}


def test_transcription_whose_client_has_left_is_not_begun(
    client: httpx.Client, server: Server, monkeypatch: pytest.MonkeyPatch, job: Job
) -> None:
    """Clients that try again after a timeout would fill their share with transcriptions that nobody reads."""
    monkeypatch.setattr(WhisperRecogniser, "transcript_of", job)
    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    path, sound = "/v1/audio/transcriptions", {"file": b"sound"}
    with ThreadPoolExecutor(1) as threads, httpx.Client(base_url=server.url, timeout=60) as caller:
        running = threads.submit(caller.post, path, files=sound)
        try:
            until(job.begun.is_set)
            with pytest.raises(httpx.ReadTimeout):
                client.post(path, files=sound, timeout=httpx.Timeout(60, read=0.3))
            until(lambda: 'operation="create_transcription",status="499"' in client.get("/metrics").text)
        finally:
            job.go.set()
        running.result()
    assert job.calls == 1


def test_clips_of_a_batch_whose_client_has_left_are_not_encoded(
    client: httpx.Client, server: Server, monkeypatch: pytest.MonkeyPatch, job: Job
) -> None:
    def left() -> list[str]:
        lines = client.get("/metrics").text.splitlines()
        return [line for line in lines if 'requests_total{operation="create_batch",status="499"' in line]

    monkeypatch.setattr(SpeechService, "speak", job)
    path, batch = "/v1/audio/speech/batch", {"items": [CLIP] * heavy_jobs.CLIPS[0]}
    with ThreadPoolExecutor(1) as threads, httpx.Client(base_url=server.url, timeout=60) as caller:
        running = threads.submit(caller.post, path, json=batch)
        try:
            until(lambda: job.calls == heavy_jobs.CLIPS[0])
            before = left()
            with pytest.raises(httpx.ReadTimeout):
                client.post(path, json=batch, timeout=httpx.Timeout(60, read=0.3))
            until(lambda: left() != before)
        finally:
            job.go.set()
        running.result()
    assert job.calls == heavy_jobs.CLIPS[0]


@pytest.mark.parametrize(
    ("place", "name", "path", "body", "share"),
    [
        (check, "check_file", "/v1/audio/check", {"files": {"file": b"sound"}}, heavy_jobs.CHECKS),
        (voices, "make_voice", "/v1/audio/voices",
         {"data": {"name": "Ann", "consent": "Ann"}, "files": {"audio_sample": b"sound"}}, heavy_jobs.VOICES),
        (fish, "make_voice", "/v1/references/add",
         {"data": {"id": "Ann", "consent": "Ann"}, "files": {"audio": b"sound"}}, heavy_jobs.VOICES),
        (fish, "merge_references", "/v1/tts", {"json": {"text": "Hello.", "references": [{"audio": "AAAA"}]}},
         heavy_jobs.CLIPS),
        (consents, "record_consent", "/v1/audio/voice_consents",
         {"data": {"name": "Ann", "language": "en"}, "files": {"recording": b"sound"}}, heavy_jobs.CLIPS),
        (WhisperRecogniser, "transcript_of", "/v1/audio/transcriptions", {"files": {"file": b"sound"}},
         heavy_jobs.TRANSCRIPTIONS),
        (SpeechService, "speak", "/v1/audio/speech", {"json": CLIP}, heavy_jobs.CLIPS),
    ],
)  # fmt: skip
def test_jobs_of_one_caller_delay_no_other_requests(
    client: httpx.Client,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    job: Job,
    place: Any,
    name: str,
    path: str,
    body: dict[str, Any],
    share: tuple[int, int, int],
) -> None:
    monkeypatch.setattr(place, name, job)
    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    refused = REQUESTS - share[2]
    limits = httpx.Limits(max_connections=None)
    with (
        httpx.Client(base_url=server.url, timeout=60, limits=limits) as caller,
        ThreadPoolExecutor(REQUESTS) as threads,
    ):
        try:
            answers = [threads.submit(caller.post, path, **body) for _ in range(REQUESTS)]
            until(lambda: sum(answer.done() for answer in answers) == refused)
            for other in ("/health/ready", "/v1/models", "/v1/audio/voices"):
                assert client.get(other, timeout=30).status_code == 200
        finally:
            job.go.set()
        statuses = [answer.result().status_code for answer in answers]
        busy = next(answer.result() for answer in answers if answer.result().status_code == 503)
    assert (statuses.count(503), statuses.count(400)) == (refused, share[2])
    assert busy.json()["error"]["code"] == "server_busy"
    assert busy.headers["retry-after"] == "1"


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize(
    ("path", "body"), [("/v1/tts", {"text": "Hi."}), ("/v1/audio/speech", {"input": "Hi.", "voice": "Clara"})]
)
def test_speeches_without_clips_wait_for_no_clips(
    client: httpx.Client,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    job: Job,
    path: str,
    body: dict[str, str],
) -> None:
    begin = SpeechService.speak

    def speak(service: SpeechService, caller: Caller, text: str, voice: VoiceChoice, *options: Any) -> Any:
        return job() if voice.clip else begin(service, caller, text, voice, *options)

    monkeypatch.setattr(SpeechService, "speak", speak)
    busy = heavy_jobs.CLIPS[0]
    with ThreadPoolExecutor(busy) as threads, httpx.Client(base_url=server.url, timeout=60) as caller:
        try:
            for _ in range(busy):
                threads.submit(caller.post, "/v1/audio/speech", json=CLIP)
            until(lambda: job.calls == busy)
            assert client.post(path, json=body, timeout=30).status_code == 200
        finally:
            job.go.set()


def test_speeches_that_wait_for_the_model_delay_no_other_requests(
    client: httpx.Client, server: Server, monkeypatch: pytest.MonkeyPatch, job: Job
) -> None:
    waiting = threading.Semaphore(0)

    def speak(*_given: Any, **_named: Any) -> None:
        waiting.release()
        job()

    monkeypatch.setattr(SpeechService, "speak", speak)
    limits = httpx.Limits(max_connections=None)
    with (
        httpx.Client(base_url=server.url, timeout=60, limits=limits) as caller,
        ThreadPoolExecutor(REQUESTS) as threads,
    ):
        try:
            asked = {"input": "Hello.", "voice": "Clara"}
            answers = [threads.submit(caller.post, "/v1/audio/speech", json=asked) for _ in range(REQUESTS)]
            for _ in range(THREADS):
                assert waiting.acquire(timeout=30)
            for other in ("/health/ready", "/v1/models", "/v1/audio/voices"):
                assert client.get(other, timeout=30).status_code == 200
        finally:
            job.go.set()
        assert {answer.result().status_code for answer in answers} == {400}
