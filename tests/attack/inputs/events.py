"""Forged events: every event and server function of the page with values that the page never sends.

    report = forge_events(url, count=1_000, seed=1)
    assert report.failures == []

A forged call may be refused (4xx) or answered with a sentence. It fails when the server answers 5xx, when it breaks the
connection, or when a queued event ends in an error instead of an answer.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.web.visitor import page_config

JSON = {"content-type": "application/json"}
TIMEOUT = 30.0  # seconds for one answer
NO_ID = "f" * 32
FILE = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}
FAR_FILE = {**FILE, "path": "http://127.0.0.1:9/x.wav", "url": "http://127.0.0.1:9/x.wav"}
# JSON text, because `json.dumps` cannot produce some of the values.
NASTY = (
    "null", "true", "0", "-1", "1e308", "-1e309", "NaN", "Infinity", "9" * 400, "9" * 5_000, "0.1e-9999", '""',
    r'"\u0000"', r'"\ud800"', r'"\udfff\ud800"', json.dumps("x" * 100_000), '"../../etc/passwd"', '"<img src=x>"',
    f'"{NO_ID}"', json.dumps("F" * 32), "[]", "[[],{},null,1]", "{}", '{"id":{"id":{}}}', "[" * 60 + "]" * 60,
    "[" * 20_000 + "]" * 20_000, '{"a":' * 500 + "1" + "}" * 500, json.dumps([NO_ID] * 5_000), json.dumps(FILE),
    json.dumps(FAR_FILE), '{"path":"\\u0000","meta":{"_type":"gradio.FileData"}}', '{"path":"x","meta":null}',
    '{"path":7,"meta":{"_type":"gradio.FileData"}}', '{"__type__":"update","visible":false}', '{"__proto__":{}}',
)  # fmt: skip
TICKET = "0123456789abcdef"
# Event data by element and event name.
SENT: dict[tuple[str, str], dict[str, Any]] = {
    ("rp-player-block", "stop_speech"): {"ticket": TICKET, "unheard": True},
    ("rp-takes", "renew_links"): {"ids": [NO_ID]},
    ("rp-takes", "star"): {"ids": [NO_ID], "id": NO_ID, "starred": True},
    ("rp-takes", "erase"): {"ids": [NO_ID], "id": NO_ID},
    ("rp-takes", "seed"): {"seed": 7},
    ("rp-takes", "again"): {"id": NO_ID, "same": True, "ticket": TICKET},
    ("rp-takes", "speak_more"): {"tickets": [TICKET]},
    ("rp-takes", "stop_speech"): {"tickets": [TICKET], "unheard": True},
    ("rp-voices", "mark"): {"id": NO_ID, "marked": True},
    ("rp-dictionary", "save_entry"): {"word": "a", "spoken": "b", "language": "", "match_case": False},
    ("rp-dictionary", "erase"): {"word": "a", "spoken": "b", "match_case": False, "language": ""},
    ("rp-dictionary", "import_entries"): {"text": "a,b"},
    ("rp-history", "star"): {"id": NO_ID, "starred": True},
    ("rp-history", "withdraw"): {"id": NO_ID},
    ("rp-history", "again"): {"id": NO_ID},
    ("rp-library", "revise"): {"id": NO_ID, "name": "A", "language": "en", "description": "", "tags": ["a"]},
    ("rp-library", "duplicate"): {"id": NO_ID},
    ("rp-library", "remove"): {"id": NO_ID},
    ("rp-library", "restore"): {"id": NO_ID, "replacement": NO_ID},
    ("rp-library", "speak_with"): {"id": NO_ID},
    ("rp-script-editor", "bring"): {"path": "/tmp/none", "name": "a.txt"},
    ("rp-library", "import_files"): {"files": [{"path": "/tmp/none", "name": "a.voice"}]},
}
ACTIONS = (
    "list", "open", "poll", "takes", "listen", "peaks", "save", "rename", "discard", "speak", "stop", "redo", "cast",
    "edit", "speaker", "voice", "pause", "speed", "chapter", "paragraphs",
    "lock", "move", "insert", "split", "merge", "remove", "choose",
)  # fmt: skip
VALUES = {
    "id": NO_ID, "card": NO_ID, "take": NO_ID, "voice": NO_ID, "text": "Hello.", "name": "A", "speaker": "Ann",
    "format": "wav", "seconds": 0.5, "speed": 1.5, "locked": True, "position": 1, "at": 1,
}  # fmt: skip
CLIP = {"path": "/tmp/none.wav", "name": "a.wav", "seconds": 3.0, "words": "Hello.", "start": 0, "end": None}
INPUTS: dict[str, Any] = {
    "rp-text": "Hi.", "rp-seed": "", "rp-temperature": 0.7, "rp-top-p": 0.8, "rp-top-k": 30,
    "rp-paragraph-pause": 0, "rp-take-speed": 1, "rp-picker": NO_ID,
    "rp-player-block": TICKET, "rp-name": "A", "rp-speaker": "", "rp-consent": True, "rp-script-text": "Hi.",
    "rp-clip-block": {"chosen": 0, "clips": [CLIP]}, "rp-history-search": "", "rp-history-voice": "", "number": 20,
    "rp-history-starred": False, "rp-history-keep": True, "rp-history-days": 30,
}  # fmt: skip


@dataclass(frozen=True)
class Forgery:
    """One call. `label`: what is forged, for the report. `session`: set if the answer comes through the queue."""

    label: str
    path: str
    body: str
    session: str = ""


@dataclass
class Report:
    """Results of the calls."""

    calls: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def forge_events(url: str, *, count: int, seed: int, headers: dict[str, str] | None = None) -> Report:
    """Make `count` forged calls, chosen by `seed`, to a page at `url` that needs no login beyond `headers`."""
    report, chance = Report(), random.Random(seed)
    with httpx.Client(base_url=url, timeout=TIMEOUT, headers=headers or {}) as http:
        config = page_config(http.get("").text)
        calls = list(forgeries(config))
        for forgery in chance.choices(calls, k=count) if count > len(calls) else chance.sample(calls, count):
            _call(http, forgery, report)
    return report


def forgeries(config: dict[str, Any]) -> Iterator[Forgery]:
    """All forged calls for a page with this configuration."""
    parts = {part["id"]: part["props"].get("elem_id") or part["type"] for part in config["components"]}
    for event in config["dependencies"]:
        yield from _of_event(event, parts)
    for part in config["components"]:
        for name in part["props"].get("server_fns") or ():
            yield from _of_server_function(part["id"], name)
    yield from _of_bodies()


def _of_event(event: dict[str, Any], parts: dict[int, str]) -> Iterator[Forgery]:
    target, kind = event["targets"][0]
    name = f"{parts.get(target, '')}.{kind}"
    inputs = [json.dumps(INPUTS.get(parts[part])) for part in event["inputs"]]
    asked = [{"number": 1, "do": do, "script": "", "version": "", "values": VALUES} for do in ACTIONS]
    sent = asked if kind == "act" else [SENT.get((parts.get(target, ""), kind))]

    def call(label: str, data: list[str], event_data: str, session: str = f'"{TICKET}"', more: str = "") -> Forgery:
        start = f'"data":[{",".join(data)}],"fn_index":{event["id"]},"session_hash":{session}'
        body = f'{{{start},"event_data":{event_data}{more}}}'
        path = "queue/join" if event["queue"] else "run/predict"
        return Forgery(f"{name}: {label}", path, body, TICKET if event["queue"] else "")

    event_data = json.dumps(sent[0])
    yield call("as it is", inputs, event_data)
    yield call("no inputs", [], event_data)
    yield call("too many inputs", [*inputs, *["null"] * 40], event_data)
    for nasty in NASTY:
        for place in range(len(inputs)):
            yield call(
                f"input {place} is {nasty[:40]}",
                [*inputs[:place], nasty, *inputs[place + 1 :]],
                event_data,
                more=',"trigger_id":1',
            )
        yield call(f"event data is {nasty[:40]}", inputs, nasty)
        yield call(f"session is {nasty[:40]}", inputs, event_data, session=nasty)
        yield call(f"trigger is {nasty[:40]}", inputs, event_data, more=f',"trigger_id":{nasty}')
        yield call(f"there is more: {nasty[:40]}", inputs, event_data, more=f',"batched":{nasty},"request":{nasty}')
        for each in sent:
            for key, damaged in _damaged(each or {}, nasty):
                yield call(f"{(each or {}).get('do', '')} {key} is {nasty[:40]}", inputs, damaged)


def _damaged(sent: dict[str, Any], nasty: str) -> Iterator[tuple[str, str]]:
    """The payload with one value replaced or removed, as JSON."""
    for key, value in sent.items():
        rest = {name: kept for name, kept in sent.items() if name != key}
        inside = json.dumps(rest)[1:-1]
        yield key, f'{{{inside}{"," if inside else ""}"{key}":{nasty}}}'
        if isinstance(value, dict):
            for name, damaged in _damaged(value, nasty):
                yield f"{key}.{name}", f'{{{inside}{"," if inside else ""}"{key}":{damaged}}}'
        if isinstance(value, list):
            yield f"{key}[]", f'{{{inside}{"," if inside else ""}"{key}":[{nasty}]}}'
    if sent:
        key = next(iter(sent))
        yield f"no {key}", json.dumps({name: kept for name, kept in sent.items() if name != key})


def _of_server_function(part: int, name: str) -> Iterator[Forgery]:
    def call(label: str, data: str, part: str = str(part), fn: str = name, session: str = f'"{TICKET}"') -> Forgery:
        body = f'{{"data":{data},"component_id":{part},"fn_name":{json.dumps(fn)},"session_hash":{session}}}'
        return Forgery(f"{name}: {label}", "component_server", body)

    clip = json.dumps(CLIP)
    yield call("as it is", clip)
    for fn in ("", "__init__", "__class__", "no_such", "x" * 10_000, "\0"):
        yield call(f"function {fn[:20]}", clip, fn=fn)
    for nasty in NASTY:
        yield call(f"value is {nasty[:40]}", nasty)
        yield call(f"component is {nasty[:40]}", clip, part=nasty)
        yield call(f"session is {nasty[:40]}", clip, session=nasty)
        for key, damaged in _damaged({**CLIP, "fix": "level", "spoken": 3.0}, nasty):
            yield call(f"{key} is {nasty[:40]}", damaged)


def _of_bodies() -> Iterator[Forgery]:
    """Bodies that are not events."""
    paths = (
        "run/predict",
        "queue/join",
        "component_server",
        "cancel",
        "reset",
        "run/no_such",
        "call/speak",
        "call/v2/x",
    )
    for path in paths:
        for nasty in ("", "{", "[1", '"', "\0", "\ufeff{}", *NASTY):
            yield Forgery(f"{path}: the body is {nasty[:40]}", path, nasty)
            for key in ("fn_index", "data", "session_hash", "event_id", "fn_name", "component_id", "simple_format"):
                whole = {"data": "[]", "fn_index": "7", "session_hash": '"s"', "event_id": '"e"', "fn_name": '"x"'}
                whole |= {"component_id": "1", key: nasty or "null"}
                body = "{" + ",".join(f'"{name}":{value}' for name, value in whole.items()) + "}"
                yield Forgery(f"{path}: {key} is {nasty[:40]}", path, body)


def _call(http: httpx.Client, forgery: Forgery, report: Report) -> None:
    report.calls += 1
    try:
        body = forgery.body.encode("utf-8", "surrogatepass")
        answer = http.post(f"gradio_api/{forgery.path}", content=body, headers=JSON)
        report.statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            report.failures.append(f"{answer.status_code}: {forgery.label}: {answer.text[:200]}")
        elif answer.status_code == 200 and forgery.session and (trouble := _queue_error(http, forgery.session)):
            report.failures.append(f"queue: {forgery.label}: {trouble}")
    except httpx.HTTPError as error:
        report.failures.append(f"{type(error).__name__}: {forgery.label}")


def _queue_error(http: httpx.Client, session: str) -> str:
    """The error with which a queued event ended; "" if it was answered."""
    with http.stream("GET", "gradio_api/queue/data", params={"session_hash": session}) as events:
        for line in events.iter_lines():
            message = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if message.get("msg") in ("process_completed", "unexpected_error"):
                return "" if message.get("success") else str(message)[:200]
    return "no answer"
