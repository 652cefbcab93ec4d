"""Hostile API clients: speech, batches, voices, Fish Audio's operations and live sessions."""

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgpack
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.attack.attack import Attack, Broken
from tests.attack.inputs import clips
from tests.attack.inputs.events import NASTY
from tests.attack.live.server import shared_server

TIMEOUT = 60.0  # seconds for one answer
JSON, MSGPACK = "application/json", "application/msgpack"
BOUNDARY = "reprise"
SPEECH = {
    "model": "tts-1", "input": "Yes.", "voice": "Clara", "response_format": "pcm", "speed": 1, "instructions": "",
    "stream_format": "audio", "stream": False, "seed": 1, "ref_text": "", "language": "en", "max_new_tokens": 2,
    "sample_rate": 24_000, "timestamp_granularities": [],
}  # fmt: skip
CLIPS = (
    "data:,", "data:audio/wav;base64,", "data:audio/wav;base64,!!!", "data:audio/wav;base64," + "A" * 90_000,
    "file:///etc/passwd", "/etc/passwd", "http://127.0.0.1:9/x.wav", "https://127.0.0.1/x.wav", "ftp://a/b",
)  # fmt: skip
FISH = {"text": "Yes.", "reference_id": "Clara", "format": "pcm", "seed": 1, "references": [], "prosody": {"speed": 1}}
NAMES = (
    "", " ", "..", "../../x", "/etc/passwd", "\0", "\n", "\u202e", "Clara", "a" * 300, "a" * 100_000, "<img src=x>",
    "'; DROP TABLE voices; --", "%00", "\ufeff", "e\u0301" * 60, "\U0001f469\u200d" * 30,
)  # fmt: skip
PACKED = (
    b"", b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff\x00", b"\x91" * 2_000 + b"\x90", b"\x81\xa4text" * 600 + b"\xc0", b"\x81\xc0\xc0",
    b"\x81\x90\xc0", b"\x90", b"\xc0\xc0", b"\xc7\x0c\xff" + b"\xff" * 12, b"\xd6\xff\xff\xff\xff\xff",
    b"\x81\xa4text\xa4\xff\xfe\xff\xfe", b"\xca\x7f\xc0\0\0",
)  # fmt: skip
FRAMES: tuple[tuple[str | bytes, ...], ...] = (
    *((nasty,) for nasty in NASTY),
    *((f'{{"type":"session.config","voice":"Clara","{key}":{nasty}}}',)
      for nasty in NASTY for key in ("voice", "response_format", "type")),
    *((f'{{"type":"input.text","text":{nasty}}}', '{"type":"input.done"}') for nasty in NASTY),
    *((f'{{"type":"input.interrupt","seconds":{nasty}}}',) for nasty in NASTY),
    (b"",), (b"\0" * 70_000,), ("",), ("{",), ('{"type":"input.done"}',) * 50, ('{"type":"input.interrupt"}',) * 50,
    ('{"type":"session.config","voice":"Clara"}',) * 50, ('{"type":"session.config","voice":"Nobody"}',),
)  # fmt: skip


@dataclass(frozen=True)
class HostileCall:
    """A request, or the messages of a live session, which has no body. label: for the report."""

    label: str
    path: str = ""
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    messages: tuple[str | bytes, ...] = ()


def _cases(seed: int, count: int) -> Iterator[HostileCall]:
    """Yield calls of each kind in turn, so that a few cases cover all kinds."""
    kinds = [list(kind) for kind in (_speech(), _batches(), _voices(seed), _fish(seed), _sessions())]
    chance = random.Random(seed)
    for kind in kinds:
        chance.shuffle(kind)
    mixed = (call for turn in itertools.zip_longest(*kinds) for call in turn if call is not None)
    yield from itertools.islice(mixed, count)


def _json(label: str, path: str, body: str) -> HostileCall:
    return HostileCall(label, path, body.encode("utf-8", "surrogatepass"), {"Content-Type": JSON})


def _with(values: dict[str, Any], key: str, nasty: str) -> str:
    """Return an object as JSON with one value given as JSON text."""
    rest = json.dumps({name: value for name, value in values.items() if name != key})[1:-1]
    return f'{{{rest}{"," if rest else ""}"{key}":{nasty}}}'


def _speech() -> Iterator[HostileCall]:
    for nasty in NASTY:
        yield _json(f"a speech that is {nasty[:40]}", "v1/audio/speech", nasty)
        for key in SPEECH:
            yield _json(f"{key} is {nasty[:40]}", "v1/audio/speech", _with(SPEECH, key, nasty))
    for clip in CLIPS:
        yield _json(f"a clip {clip[:40]}", "v1/audio/speech", _with(SPEECH, "ref_audio", json.dumps(clip)))
    for kind in ("", "text/plain", "application/xml", "multipart/form-data", "application/json; charset=utf-7", "\t"):
        yield HostileCall(f"a body of type {kind!r}", "v1/audio/speech", b'{"input": "Yes."}', {"Content-Type": kind})


def _batches() -> Iterator[HostileCall]:
    for nasty in NASTY:
        yield _json(f"items are {nasty[:40]}", "v1/audio/speech/batch", _with(SPEECH, "items", nasty))
        item = f'[{{"input": {nasty}}}]'
        yield _json(f"an item of {nasty[:40]}", "v1/audio/speech/batch", _with(SPEECH, "items", item))
    some: tuple[list[object], ...] = ([], [{"input": "Yes."}] * 33, [[]] * 5, [{"items": [{"items": []}]}])
    for items in some:
        yield _json(f"{len(items)} items", "v1/audio/speech/batch", _with(SPEECH, "items", json.dumps(items)))


def _voices(seed: int) -> Iterator[HostileCall]:
    usual = {"name": "Bad", "consent": "Ann", "ref_text": "Yes."}
    for sound, name in zip(clips.cases(seed, 30), itertools.cycle(NAMES), strict=False):
        yield _form(f"a voice called {name!r:.40}", {**usual, "name": name}, sound)
    for file in (*NAMES, '"; filename="/etc/passwd', "a.wav\r\nX-Bad: 1"):
        yield _form(f"a file called {file!r:.40}", usual, b"RIFF", file)
    for key in ("consent", "ref_text", "language", "description", "name"):
        for text in NAMES:
            yield _form(f"{key} is {text!r:.40}", {"name": "Bad", "consent": "Ann", key: text}, b"RIFF")
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="name"\r\n\r\n'.encode()
    for body in (b"", b"--", head, head * 200, b"--" + b"-" * 90_000, head + b"\xff" * 5_000, head.replace(b"\r", b"")):
        yield HostileCall(f"a form {body[:40]!r}", "v1/audio/voices", body, _form_type())
    yield HostileCall("a form without boundary", "v1/audio/voices", head, {"Content-Type": "multipart/form-data"})


def _form_type() -> dict[str, str]:
    return {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def _form(label: str, fields: dict[str, str], sound: bytes, file: str = "a.wav") -> HostileCall:
    parts = [f'name="{name}"\r\n\r\n{text}'.encode("utf-8", "surrogatepass") for name, text in fields.items()]
    parts.append(f'name="audio_sample"; filename="{file}"\r\n\r\n'.encode() + sound)
    body = b"".join(f"--{BOUNDARY}\r\nContent-Disposition: form-data; ".encode() + part + b"\r\n" for part in parts)
    return HostileCall(label, "v1/audio/voices", body + f"--{BOUNDARY}--\r\n".encode(), _form_type())


def _fish(seed: int) -> Iterator[HostileCall]:
    whole = msgpack.packb({**FISH, "references": [{"audio": b"RIFF", "text": "Yes."}]})
    damaged = (_damaged(whole, random.Random(f"{seed}:{index}")) for index in range(150))
    for body in (*PACKED, *(whole[:end] for end in range(len(whole))), *damaged):
        yield HostileCall(f"MessagePack {body[:40]!r}", "v1/tts", body, {"Content-Type": MSGPACK})
    for nasty in NASTY:
        for key in FISH:
            yield _json(f"Fish's {key} is {nasty[:40]}", "v1/tts", _with(FISH, key, nasty))


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with a few changed, removed or inserted."""
    bytes_ = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(bytes_))
        bytes_[at : at + chance.randrange(2)] = chance.randbytes(chance.randrange(3))
    return bytes(bytes_)


def _sessions() -> Iterator[HostileCall]:
    for messages in FRAMES:
        configured = ('{"type":"session.config","voice":"Clara","max_new_tokens":2}', *messages)
        for sent in (messages, configured):
            yield HostileCall(f"a session with {sent[-1][:60]!r}", messages=sent)


def _run(call: HostileCall) -> None:
    server = shared_server("--owners", "browser")
    if call.path:
        _post(server.url, call)
    else:
        _talk(server.url, call)
    server.check_log("root:x:")


def _post(url: str, call: HostileCall) -> None:
    with httpx.Client(base_url=url, timeout=TIMEOUT) as http:
        answer = http.post(call.path, content=call.body, headers=call.headers)
    if answer.is_success:
        return
    if answer.status_code >= 500:
        raise Broken(f"{call.label}: {answer.status_code} {answer.text[:300]}")
    try:
        sentence = answer.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        raise Broken(f"{call.label}: {answer.status_code} without a sentence: {answer.text[:300]}") from None
    _check_sentence(call, sentence)


def _talk(url: str, call: HostileCall) -> None:
    with connect(url.replace("http", "ws", 1) + "v1/audio/speech/stream", open_timeout=TIMEOUT) as socket:
        try:
            for message in (*call.messages, '{"type":"session.close"}'):
                socket.send(message)
            while True:
                received = socket.recv(timeout=TIMEOUT)
                if isinstance(received, str) and (content := json.loads(received))["type"] == "error":
                    _check_sentence(call, content["error"]["message"])
        except ConnectionClosed as closed:
            if closed.rcvd is None or closed.rcvd.code >= 1011:
                raise Broken(f"{call.label}: the session was closed with {closed}") from closed
        except TimeoutError:
            raise Broken(f"{call.label}: the session did not end") from None


def _check_sentence(call: HostileCall, sentence: object) -> None:
    if not isinstance(sentence, str) or not sentence or len(sentence) > 2_000 or "Traceback" in sentence:
        raise Broken(f"{call.label}: this is no sentence: {str(sentence)[:300]}")


WHAT = "hostile speech, batches, voices, MessagePack and live sessions for the API"
PROGRAMS = Attack("programs", WHAT, _cases, _run, 400, 120.0, None, alone=True)
