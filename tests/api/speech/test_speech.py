"""`POST /v1/audio/speech` over a real connection, with the bundled model."""

import base64
import io
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from engine.audio.output.mastering import loudness_of
from engine.audio.output.stream import STREAM_FORMATS, StreamEncoder
from engine.errors import EngineFailed
from studio.provenance import provenance
from tests.api.conftest import LONG, MOST_OF_LONG, TEXT, Server, bearer, decode_audio, metric, same_sound
from tests.paths import CLIP
from tests.support.waiting import until

Speak = Callable[..., httpx.Response]
WORDS = "The train was late, so we walked along the river."
FRAMES = 4  # of speeches of which only the beginning is needed
SHORT = pytest.mark.usefixtures("short_turns")
TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm;rate=24000;channels=1",
}


def length_and_rate(response: httpx.Response, format: str) -> tuple[float, int]:
    """Return the duration in seconds and the sampling rate of a response."""
    assert response.status_code == 200, response.text
    samples, rate = decode_audio(response.content, format)
    return len(samples) / rate, rate


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    assert response.headers["content-type"].startswith("text/event-stream")
    for line in response.text.split("\n\n"):
        if line:
            yield json.loads(line.removeprefix("data: "))


@pytest.fixture(scope="module")
def whole(speak: Speak) -> httpx.Response:
    return speak(response_format="wav", stream=False, max_new_tokens=FRAMES)


@pytest.fixture(scope="module")
def clara(speak: Speak) -> bytes:
    """The beginning of a speech as PCM."""
    return speak(response_format="pcm", max_new_tokens=FRAMES).content


@SHORT
@pytest.mark.parametrize("format", STREAM_FORMATS)
def test_every_format_streams_the_same_speech(speak: Speak, whole: httpx.Response, format: str) -> None:
    seconds = float(whole.headers["x-usage-seconds"])
    response = speak(response_format=format, max_new_tokens=FRAMES)
    assert response.headers["content-type"] == TYPES[format]
    assert response.headers["transfer-encoding"] == "chunked"
    assert response.headers["x-usage-characters"] == str(len(TEXT))
    assert response.headers["x-seed"] == "7"
    assert length_and_rate(response, format)[0] == pytest.approx(seconds, abs=0.1)


@SHORT
def test_each_use_of_a_voice_is_counted_for_the_owner_of_the_key(
    client: httpx.Client, speak: Speak, server: Server
) -> None:
    clara = server.storage.voices.find("Clara").id
    with server.key(owner="user:counted") as key:
        whole = speak(bearer(key), stream=False)
        speak(bearer(key), response_format="pcm")
        client.post("/v1/tts", json={"text": TEXT, "reference_id": clara}, headers=bearer(key))
        assert speak(bearer(key), input="").status_code == 400
        assert speak(bearer(key), voice="Nobody").status_code == 404
    server.storage.uses.wait()
    used = server.storage.uses.all(owner="user:counted")
    assert list(used) == [clara]
    assert used[clara].times == 3
    assert used[clara].seconds == pytest.approx(3 * float(whole.headers["x-usage-seconds"]), abs=0.1)


@SHORT
@pytest.mark.parametrize("format", ["mp3", "pcm"])
def test_events_contain_the_streamed_bytes_and_end_with_the_usage(
    speak: Speak, whole: httpx.Response, format: str
) -> None:
    *deltas, done = events(speak(response_format=format, stream_format="sse", max_new_tokens=FRAMES))
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    data = b"".join(base64.b64decode(delta["audio"]) for delta in deltas)
    assert same_sound(data, speak(response_format=format, max_new_tokens=FRAMES).content, format)
    seconds = float(whole.headers["x-usage-seconds"])
    assert done["type"] == "speech.audio.done"
    usage = done["usage"]
    assert usage["seconds"] == pytest.approx(seconds, abs=0.001)
    assert usage["input_tokens"] == usage["characters"] == len(TEXT)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_events_contain_word_times(speak: Speak) -> None:
    """Times refer to the sent audio, at half the speed too."""
    asked = {"stream_format": "sse", "response_format": "pcm", "timestamp_granularities": ["word"]}
    spoken = {speed: list(events(speak(speed=speed, **asked))) for speed in (1, 0.5)}
    words = {
        speed: [word for event in received if event["type"] == "speech.audio.words" for word in event["words"]]
        for speed, received in spoken.items()
    }
    assert [word["word"] for word in words[1]] == TEXT.split()
    assert words[0.5][-1]["end"] == pytest.approx(2 * words[1][-1]["end"], abs=0.002)
    assert 0 < words[1][-1]["end"] <= spoken[1][-1]["usage"]["seconds"]


@SHORT
def test_pause_tags_are_silence(speak: Speak, server: Server) -> None:
    rate = server.app.engine.info.sample_rate
    plain, paused, broken = (
        len(speak(input=text, response_format="pcm", sample_rate=rate).content) // 2
        for text in (TEXT, f"{TEXT} [pause:0.5]", f'<speak><p>{TEXT}</p><break time="500ms"/></speak>')
    )
    assert paused - plain == round(0.5 * rate)
    assert broken == paused


def test_whole_response_has_usage_and_correct_wav_header(whole: httpx.Response, server: Server) -> None:
    seconds, rate = length_and_rate(whole, "wav")
    assert rate == server.app.engine.info.sample_rate
    assert float(whole.headers["x-usage-seconds"]) == pytest.approx(seconds, abs=0.001)
    assert int(whole.headers["x-usage-frames"]) == round(seconds * server.app.engine.info.frame_rate)
    assert int.from_bytes(whole.content[4:8], "little") == len(whole.content) - 8
    samples = whole.content.index(b"data") + 8
    assert int.from_bytes(whole.content[samples - 4 : samples], "little") == len(whole.content) - samples


@SHORT
@pytest.mark.parametrize("format", ["flac", "mp3"])
def test_whole_response_has_its_length_in_the_header(speak: Speak, whole: httpx.Response, format: str) -> None:
    response = speak(stream=False, response_format=format, max_new_tokens=FRAMES)
    with soundfile.SoundFile(io.BytesIO(response.content)) as file:
        assert file.frames / file.samplerate == pytest.approx(float(whole.headers["x-usage-seconds"]), abs=0.001)


@SHORT
@pytest.mark.parametrize("speed", [0.25, 2])
def test_speed_changes_the_length_and_the_reported_seconds(speak: Speak, whole: httpx.Response, speed: float) -> None:
    changed = speak(stream=False, response_format="wav", speed=speed, max_new_tokens=FRAMES)
    seconds = length_and_rate(changed, "wav")[0]
    assert seconds == pytest.approx(length_and_rate(whole, "wav")[0] / speed, rel=0.05)
    assert float(changed.headers["x-usage-seconds"]) == pytest.approx(seconds, abs=0.001)


def levels(samples: np.ndarray, rate: int) -> np.ndarray:
    """Return the RMS of each 20 ms. Rounding may move the joins of a tempo change, but not the levels."""
    frames = samples[: len(samples) // (rate // 50) * (rate // 50)].reshape(-1, rate // 50)
    return np.sqrt(np.square(frames.astype(float)).mean(1))


def test_whole_response_has_the_requested_loudness(client: httpx.Client, speak: Speak) -> None:
    """Also with another speed, and in batches."""
    asked = {"response_format": "pcm", "speed": 0.8, "lufs": -23}
    whole = speak(stream=False, **asked)
    batch = client.post(
        "/v1/audio/speech/batch", json={"items": [{"input": TEXT, "voice": "Clara", "seed": 7}], **asked}
    )
    other = base64.b64decode(batch.json()["results"][0]["audio_data"])
    samples, rate = decode_audio(whole.content, "pcm")
    assert np.corrcoef(levels(samples, rate), levels(decode_audio(other, "pcm")[0], rate))[0, 1] > 0.95
    assert loudness_of([samples.astype(np.int16)], rate) == pytest.approx(-23, abs=0.5)
    assert len(samples) / rate == pytest.approx(float(whole.headers["x-usage-seconds"]), abs=0.1)


def test_audio_check_reads_the_origin_of_a_file(
    whole: httpx.Response, client: httpx.Client, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "watermark_installed", lambda: False)
    checked = client.post("/v1/audio/check", files={"file": whole.content}).json()
    clara = server.app.storage.voices.find("Clara").id
    assert checked["tagged"]
    assert (checked["voices"], checked["seeds"]) == ([clara], [7])
    assert checked["models"] == [server.app.engine.info.name]
    assert checked["watermark"] == "unknown"
    refused = client.post("/v1/audio/check", files={"file": b"no audio"})
    assert refused.status_code == 400
    assert "not audio" in refused.json()["error"]["message"]


def test_audio_is_streamed_during_generation(client: httpx.Client, server: Server) -> None:
    asked = {"input": f"{WORDS} " * 20, "voice": "Clara", "response_format": "pcm", "model": "tts-1"}
    with client.stream("POST", "/v1/audio/speech", json=asked) as response:
        assert response.status_code == 200, response.read()
        parts = response.iter_raw()  # closes the connection when the iterator is dropped
        assert len(next(parts)) > 0
        assert server.busy() == 1  # the engine is still speaking


@SHORT
def test_same_seed_repeats_a_speech(speak: Speak, clara: bytes) -> None:
    same, other = (speak(seed=seed, response_format="pcm", max_new_tokens=FRAMES).content for seed in (7, 2))
    assert same_sound(clara, same)
    assert not same_sound(clara, other)
    assert 0 <= int(speak(seed=None, max_new_tokens=1).headers["x-seed"]) < 2**31


def test_frame_limit_ends_a_speech(speak: Speak, server: Server) -> None:
    asked = {"response_format": "pcm", "sample_rate": server.app.engine.info.sample_rate}
    data = speak(max_new_tokens=5, **asked).content
    assert len(data) == 2 * 5 * server.app.engine.info.frame_length
    whole = speak(**asked).content
    assert len(whole) > len(data)
    assert same_sound(whole[: len(data)], data)


@SHORT
def test_audio_has_the_requested_sample_rate(speak: Speak) -> None:
    assert length_and_rate(speak(response_format="wav", sample_rate=16_000, max_new_tokens=4), "wav")[1] == 16_000
    response = speak(response_format="pcm", sample_rate=8_000, max_new_tokens=4)
    assert response.headers["content-type"] == "audio/pcm;rate=8000;channels=1"


@pytest.fixture(scope="module")
def adam(speak: Speak) -> bytes:
    return speak(voice="Adam", response_format="pcm", max_new_tokens=FRAMES).content


@SHORT
@pytest.mark.parametrize("voice", ["adam", {"id": "alloy"}])
def test_voice_is_found_by_several_names(speak: Speak, adam: bytes, voice: object) -> None:
    assert same_sound(speak(voice=voice, response_format="pcm", max_new_tokens=FRAMES).content, adam)


@SHORT
def test_key_maps_openai_names_to_its_voices(speak: Speak, server: Server, clara: bytes) -> None:
    """Without the key it is another voice's name."""
    with server.key(voices={"alloy": "Clara"}) as key:
        alloy = speak(bearer(key), voice="alloy", response_format="pcm", max_new_tokens=FRAMES).content
    assert same_sound(alloy, clara)


@SHORT
def test_reference_clip_is_used_as_the_voice(client: httpx.Client) -> None:
    url = "data:audio/flac;base64," + base64.b64encode(CLIP.read_bytes()).decode()
    numbers = {"seed": 3, "max_new_tokens": FRAMES}
    asked = {"model": "tts-1", "input": TEXT, "ref_text": WORDS, "response_format": "pcm"}
    by_url = client.post("/v1/audio/speech", json={**asked, **numbers, "ref_audio": url})
    form = {**asked, **{name: str(number) for name, number in numbers.items()}, "speed": "", "sample_rate": ""}
    by_form = client.post("/v1/audio/speech", data=form, files={"ref_audio": ("clip.flac", CLIP.read_bytes())})
    assert by_url.status_code == by_form.status_code == 200, by_form.text
    assert same_sound(by_url.content, by_form.content)
    assert np.abs(np.frombuffer(by_url.content, "<i2")).max() > 1000


@SHORT
def test_form_may_hold_a_large_data_url(client: httpx.Client) -> None:
    samples, rate = soundfile.read(CLIP)
    wav = io.BytesIO()
    soundfile.write(wav, np.stack([samples, samples], 1), rate, format="wav", subtype="DOUBLE")
    url = f"data:audio/wav;base64,{base64.b64encode(wav.getvalue()).decode()}"
    assert len(url) > 1 << 20
    form = {"model": "tts-1", "input": TEXT, "max_new_tokens": "1", "ref_text": WORDS, "ref_audio": url}
    # A file without a name is a plain field: `data` alone would be sent as another kind of form.
    answer = client.post("/v1/audio/speech", files={name: (None, value) for name, value in form.items()})
    assert answer.status_code == 200, answer.text


def test_empty_clip_is_rejected(client: httpx.Client) -> None:
    """Another voice must not speak instead of it."""
    asked = {"input": TEXT, "voice": "Clara", "ref_text": WORDS, "max_new_tokens": 1}
    form = {name: str(value) for name, value in asked.items()}
    for refused in (
        client.post("/v1/audio/speech", data=form, files={"ref_audio": ("clip.flac", b"")}),
        client.post("/v1/audio/speech", json={**asked, "ref_audio": "data:audio/wav;base64,"}),
    ):
        assert refused.status_code == 400
        assert "holds no sound" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"input": ""}, 400, "input: "),
        ({"input": "[pause:61]"}, 400, "at most 60 seconds"),
        ({"input": 'One. <break time="61s"/>'}, 400, "at most 60 seconds"),
        ({"input": "[pause:40] [pause:40]"}, 400, "no words to say"),
        ({"input": "…", "voice": "Nobody"}, 404, "no voice called “Nobody”"),
        ({"input": "x" * 10_001}, 400, "input: "),
        ({"input": "Привет"}, 400, "speaks English only"),
        ({"voice": "Nobody"}, 404, "no voice called “Nobody”"),
        ({"voice": None}, 400, "voice: name a voice"),
        ({"voice": {"name": "Clara"}}, 400, "voice: "),
        ({"model": "whisper-1"}, 404, "“whisper-1” is not loaded here"),
        ({"response_format": "midi"}, 400, "response_format: "),
        ({"speed": 5}, 400, "speed: "),
        ({"seed": -1}, 400, "seed: "),
        ({"language": "fr"}, 400, "English only, not “fr”"),
        ({"timestamp_granularities": ["word"]}, 400, "ask for them with stream_format “sse”"),
        ({"lufs": -16}, 400, "lufs: loudness is measured over the whole file"),
        ({"lufs": -16, "stream": False, "stream_format": "sse"}, 400, 'it needs "stream": false without events'),
        ({"lufs": 0, "stream": False}, 400, "lufs: "),
        ({"ref_audio": "https://example.org/a.wav", "ref_text": "Hi."}, 400, "send the clip as a data URL"),
        ({"ref_audio": "data:audio/wav;base64,!", "ref_text": "Hi."}, 400, "does not hold base64"),
        ({"ref_audio": "data:audio/wav;base64,aGVsbG8=", "ref_text": "Hi."}, 400, "not audio that can be read"),
        ({"ref_audio": "data:audio/wav;base64,aGVsbG8="}, 400, "Type the words"),
    ],
)
def test_invalid_requests_are_rejected(speak: Speak, asked: dict[str, Any], status: int, says: str) -> None:
    refused = speak(**asked)
    assert refused.status_code == status
    assert says in refused.json()["error"]["message"]


@pytest.mark.parametrize("format", STREAM_FORMATS)
def test_text_without_words_is_silence(speak: Speak, format: str) -> None:
    """Programs check a key with “.”, and speak each sentence of a language model, which may be an emoji."""
    for text, seconds in ((".", 0.1), ("😀 …", 0.1), ("[pause:1.5]", 1.5), ('<break time="1.5s"/>', 1.5)):
        response = speak(input=text, response_format=format)
        assert response.headers["x-usage-characters"] == str(len(text))
        samples, rate = decode_audio(response.content, format)
        assert not np.abs(samples).max() > 1e-3
        assert len(samples) / rate == pytest.approx(seconds, abs=0.1)


def test_words_and_events_of_a_silence_are_empty(speak: Speak, client: httpx.Client) -> None:
    asked = {"input": ".", "timestamp_granularities": ["word"]}
    before = first_audio_times(client)
    *deltas, done = events(speak(stream_format="sse", response_format="pcm", **asked))
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert (done["usage"]["frames"], done["usage"]["seconds"]) == (0, 0.1)
    items = {"items": [{**asked, "voice": "Clara"}], "lufs": -16}
    (result,) = client.post("/v1/audio/speech/batch", json=items).json()["results"]
    assert (result["status"], result["words"], result["usage"]["seconds"]) == ("success", [], 0.1)
    assert first_audio_times(client) == before, "the model did not make it"
    assert speak(max_new_tokens=1).status_code == 200
    until(lambda: first_audio_times(client) != before)


def first_audio_times(client: httpx.Client) -> str:
    """Return the number of measured times to the first audio, as the metrics have it."""
    count = 'reprise_first_audio_seconds_count{front_end="api"}'
    (line,) = (line for line in client.get("/metrics").text.splitlines() if line.startswith(count))
    return line


@SHORT
def test_null_fields_count_as_omitted(client: httpx.Client) -> None:
    """Typed clients send null for omitted fields."""
    names = ("model", "response_format", "speed", "instructions", "language", "ref_text", "stream_format", "seed")
    asked = {"input": TEXT, "voice": "Clara", "max_new_tokens": 1, **dict.fromkeys(names)}
    assert client.post("/v1/audio/speech", json=asked).status_code == 200
    answer = client.post("/v1/audio/speech/batch", json={"items": [asked]}).json()
    assert answer["succeeded"] == 1
    assert isinstance(answer["results"][0]["seed"], int)


@pytest.mark.parametrize("model", ["", "TTS-1", "Bundled", "gpt-4o-mini-tts-2025-12-15"])
def test_choices_may_be_capitals_and_the_model_empty(speak: Speak, model: str) -> None:
    """A text without words takes no slot."""
    asked = {"input": "…", "response_format": "WAV", "stream_format": "SSE", "timestamp_granularities": ["Word"]}
    *_, done = events(speak(model=model, **asked))
    assert done["type"] == "speech.audio.done"


def test_form_requests_word_times(client: httpx.Client) -> None:
    """With either name of the field; without events it is refused, so that it has been read."""
    clip = {"ref_audio": CLIP.read_bytes()}
    asked = {"input": TEXT, "stream_format": "sse", "timestamp_granularities": "word", "ref_text": WORDS}
    response = client.post("/v1/audio/speech", data=asked, files=clip)
    assert [word["word"] for event in events(response) for word in event.get("words", [])] == TEXT.split()
    asked = {"input": TEXT, "timestamp_granularities[]": "word", "ref_text": WORDS}
    refused = client.post("/v1/audio/speech", data=asked, files=clip)
    assert refused.status_code == 400
    assert "ask for them with stream_format “sse”" in refused.json()["error"]["message"]


def test_other_bodies_are_rejected(client: httpx.Client) -> None:
    post = partial(client.post, "/v1/audio/speech")
    assert post(content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
    assert post(content=b"[]", headers={"Content-Type": "application/json"}).status_code == 400
    assert post(content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/audio/speech", b"[]", "The request: Input should be an object."),
        ("/v1/audio/speech/batch", b"null", "The request: Input should be an object."),
        ("/v1/audio/speech/batch", b'{"items": [5]}', "items.0: Input should be an object."),
        ("/v1/tts", b'"Hi."', "The request: Input should be an object."),
    ],
)
def test_values_that_are_no_objects_are_named(client: httpx.Client, path: str, body: bytes, expected: str) -> None:
    refused = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["error"]["message"]) == (400, expected)


@pytest.mark.parametrize(
    "path",
    ["/v1/audio/speech", "/v1/audio/speech/batch", "/v1/audio/voice_consents/consent", "/v1/references/update"],
)
def test_malformed_json_is_named(client: httpx.Client, path: str) -> None:
    for body in (b'{"items": x}', b'{"items": "\xff"}'):
        refused = client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert (error["message"], error["param"]) == ("The body is not JSON.", None)


@SHORT
@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json", ""]
)
def test_json_has_several_content_types(client: httpx.Client, kind: str) -> None:
    body = json.dumps({"input": TEXT, "voice": "Clara", "max_new_tokens": 1})
    answer = client.post("/v1/audio/speech", content=body, headers={"Content-Type": kind} if kind else {})
    assert answer.status_code == 200, answer.text


@SHORT
def test_supported_languages_are_accepted(speak: Speak) -> None:
    for language in ("en-GB", "English", "Auto", ""):
        assert speak(language=language, max_new_tokens=1).status_code == 200


@pytest.mark.parametrize("asked", [{"stream": True}, {"stream": False}, {"stream_format": "sse"}])
def test_disconnected_client_frees_its_slot(client: httpx.Client, server: Server, asked: dict[str, Any]) -> None:
    """The whole text would take minutes."""
    before, frames = metric("cancelled", client), metric("frames", client)
    until(lambda: server.busy() == 0)
    with unread_request(server, {"input": LONG, "voice": "Clara", **asked}) as connection:
        until(server.speaking)
        if asked != {"stream": False}:
            assert connection.getresponse().read(1)
        assert server.busy() == 1
    until(lambda: server.busy() == 0)
    until(lambda: metric("cancelled", client) == before + 1)
    assert metric("frames", client) - frames < MOST_OF_LONG, "it was not spoken to the end"


def test_disconnected_client_leaves_the_queue(client: httpx.Client, server: Server) -> None:
    asked = {"input": LONG, "voice": "Clara", "model": "tts-1"}
    frames = metric("frames", client)
    slots = server.app.engine.info.slots
    speeches = [client.build_request("POST", "/v1/audio/speech", json=asked) for _ in range(slots)]
    opened = [client.send(request, stream=True) for request in speeches]
    with unread_request(server, asked):
        until(lambda: server.busy() == slots + 1)
    until(lambda: server.busy() == slots)
    for response in opened:
        response.close()
    until(lambda: server.busy() == 0)
    assert metric("frames", client) - frames < MOST_OF_LONG


@contextmanager
def unread_request(server: Server, asked: dict[str, Any]) -> Iterator[HTTPConnection]:
    """Ask for speech on a connection of its own, which is closed at the end; the response is left to the caller."""
    with closing(HTTPConnection(server.url.removeprefix("http://"), timeout=30)) as connection:
        connection.request("POST", "/v1/audio/speech", json.dumps(asked), {"Content-Type": "application/json"})
        yield connection


@SHORT
@pytest.mark.parametrize("after", [0, 1])
def test_failed_speech_is_reported(
    speak: Speak, client: httpx.Client, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """As a status before the first audio, otherwise as the last event; and in the metrics."""
    encode, calls, before = StreamEncoder.encode, [], metric("failed", client)

    def failing(encoder: StreamEncoder, samples: np.ndarray) -> bytes:
        calls.append(len(samples))
        if len(calls) > after:
            raise EngineFailed("engine.codec_failed", why="it is a test")
        return encode(encoder, samples)

    monkeypatch.setattr(StreamEncoder, "encode", failing)
    response = speak(input=WORDS, stream_format="sse", response_format="pcm")
    if after:
        *_, last = events(response)
        assert (last["type"], "it is a test" in last["error"]["message"]) == ("error", True)
    else:
        assert (response.status_code, "it is a test" in response.json()["error"]["message"]) == (500, True)
    assert metric("failed", client) == before + 1


@SHORT
def test_concurrent_speeches_do_not_mix(speak: Speak) -> None:
    """More speeches than slots."""

    def speech(seed: int) -> bytes:
        return speak(seed=seed, response_format="pcm", max_new_tokens=FRAMES).content

    seeds = range(3)
    alone = [speech(seed) for seed in seeds]
    with ThreadPoolExecutor(len(seeds)) as pool:
        together = list(pool.map(speech, seeds))
    assert all(same_sound(one, other) for one, other in zip(together, alone, strict=True))
