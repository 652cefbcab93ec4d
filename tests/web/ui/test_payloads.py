"""Event payloads that no page sends, and private data in messages and in the log."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import gradio as gr
import httpx
import pytest
from pydantic import Field

from engine.errors import EngineFailed, InvalidCheckpoint, UnusableReference
from storage import Storage
from storage.errors import DatabaseUnavailable
from studio.tracebacks import describe_error, format_traceback
from tests.attack.inputs.events import forge_events
from tests.support.fake_engine import FakeEngine, voice
from tests.web.conftest import make_context
from tests.web.visitor import Visitor
from web.context import WebContext
from web.http.request_body import MAX_BODY
from web.page_load import PageLoadHandlers
from web.tabs.history.handlers import HistoryHandlers
from web.tabs.library.handlers import LibraryHandlers
from web.tabs.speak.handlers import SpeakHandlers
from web.tabs.speak.take_list import TakeListHandlers
from web.ui.i18n import Translations
from web.ui.messages import error_message
from web.ui.payloads import (
    MAX_IDS,
    Id,
    Ids,
    Payload,
    SelectedId,
    Ticket,
    UnexpectedPayload,
    default_if_invalid,
    parse_payload,
)

Serve = Callable[..., str]
NO_ID = "f" * 32
NO_REQUEST: Any = None
SECRET = "Quokka"  # in everything that a visitor writes or names


class Example(Payload):
    id: Id
    picked: SelectedId
    ids: Ids
    count: Annotated[int, Field(ge=0, le=9), default_if_invalid(3)] = 3
    on: bool = False


def example(**changes: Any) -> Example:
    return parse_payload(Example, gr.EventData(None, {"id": NO_ID, "picked": "", "ids": [], **changes}))


def test_valid_payload_is_parsed() -> None:
    made = example(picked=NO_ID, ids=[NO_ID], count=7, on=True)
    assert (made.id, made.picked, made.ids, made.count, made.on) == (NO_ID, NO_ID, [NO_ID], 7, True)
    assert parse_payload(Example, {"id": NO_ID, "picked": ""}, ids=[]).count == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"id": wrong} for wrong in (None, 7, "", "F" * 32, NO_ID + "\n", "\ud800" * 32, [NO_ID], {"id": NO_ID})
    ]
    + [{"on": wrong} for wrong in (1, "true", None, [])]
    + [{"more": 1}, {"__class__": 1}],
)  # fmt: skip
def test_invalid_payload_is_out_of_step(changes: dict[str, Any]) -> None:
    with pytest.raises(UnexpectedPayload, match="out_of_step") as caught:
        example(**changes)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__, "the cause would contain the payload"


@pytest.mark.parametrize("sent", ["x", 7, ["id"], True, gr.EventData(None, "x"), gr.EventData(None, [1])])
def test_payload_that_is_no_object_is_rejected(sent: Any) -> None:
    with pytest.raises(UnexpectedPayload):
        parse_payload(Example, sent)


def test_lenient_fields_replace_invalid_values() -> None:
    made = example(picked=["x"], ids=[NO_ID, 7, None, "x"] + [NO_ID] * 99, count=10**400)
    assert (made.picked, made.count, len(made.ids)) == ("", 3, MAX_IDS)
    assert example(ids={"a": 1}).ids == []


def test_ticket_format_is_validated() -> None:
    class Own(Payload):
        ticket: Ticket

    assert parse_payload(Own, ticket="a-Z0").ticket == "a-Z0"
    for wrong in ("", "a b", "x" * 65, 7, None):
        with pytest.raises(UnexpectedPayload):
            parse_payload(Own, ticket=wrong)


def test_out_of_step_message_is_in_the_readers_language() -> None:
    german: Any = gr.Request(headers={"accept-language": "de"})
    assert "Lade die Seite neu" in error_message(UnexpectedPayload(), Translations.load().texts(german))


def test_forged_events_are_answered_without_a_traceback(
    serve: Serve,
    engine: FakeEngine,
    storage: Storage,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    storage.voices.add(voice("Anna"))
    with caplog.at_level(logging.INFO, "web"):
        url = serve(engine, storage)
        check_refusals(url + "gradio_api/")
        report = forge_events(url, count=100, seed=10)
    assert report.failures == []
    assert report.statuses[200] > 15 < report.statuses[422], "both answered and refused"
    assert [record.getMessage() for record in caplog.records] == []
    assert "Traceback" not in "".join(capfd.readouterr())


def check_refusals(url: str) -> None:
    """Requests that are refused before they reach Gradio have a message, which Gradio's client shows."""
    answer = httpx.post(url + "run/predict", json={"data": [], "fn_index": 10_000, "session_hash": "x"})
    assert answer.status_code == 422
    assert answer.json()["error"] == answer.json()["detail"] == "The page is out of step with the server. Reload it."
    assert httpx.post(url + "run/predict", json=["x" * MAX_BODY]).status_code == 413
    assert httpx.post(url + "call/speak", json={"data": []}).status_code == 404
    assert httpx.post(url + "upload", files={"files": b"RIFF"}).status_code == 200
    for session in ("unknown", "", "\u0141"):
        answer = httpx.get(url + "queue/data", params={"session_hash": session})
        assert answer.status_code == 200
        assert '"session_not_found": true' in answer.text


# --- paths


FAILURES = [
    DatabaseUnavailable("The voice library /srv/my.data/reprise/voices.db cannot be used: disk I/O error."),
    UnusableReference(
        "The file /tmp/reprise-x1/ab12/clip.wav cannot be opened: [Errno 2] No such file: '/tmp/a/b.wav'."
    ),
    InvalidCheckpoint(f"The codec {Path.home()}/my models/codec.safetensors is cut short."),
    EngineFailed("A step failed at /usr/lib/python3/torch/x.py."),
    OSError(28, "No space left on device", "/tmp/reprise-x1/upload"),
    ValueError("/tmp/reprise-x1/upload"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_no_handler_reveals_paths_of_the_server(
    context: WebContext, engine: FakeEngine, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = context.storage.voices.add(voice("Anna"))
    sent = error_message(failure, Translations.load().texts(None))
    assert sent
    engine.script.fail_after, engine.script.failure = 0, failure

    def fail(*_args: Any, **_more: Any) -> Any:
        raise failure

    outputs: list[Any] = [
        list(SpeakHandlers(context).speak(NO_REQUEST, "Hi.", anna.id, "", 0.7, 0.8, 30, 0, 1, "", "fake", None, "t"))
    ]
    for name in ("list", "get", "update", "trash", "duplicate", "trashed"):
        monkeypatch.setattr(context.storage.voices, name, fail)
    for name in ("star", "get", "page", "settings", "clear"):
        monkeypatch.setattr(context.storage.history, name, fail)
    event = gr.EventData(None, {"id": anna.id})
    outputs += [
        LibraryHandlers(context).update_voice(gr.EventData(None, {"id": anna.id, "name": "Ben"}), None, NO_REQUEST),
        LibraryHandlers(context).delete_voice(event, anna.id, None, NO_REQUEST),
        LibraryHandlers(context).speak_with_voice(event, None, NO_REQUEST),
        HistoryHandlers(context).reuse_entry(None, event, NO_REQUEST),
        HistoryHandlers(context).clear_history(None, NO_REQUEST),
        TakeListHandlers(context).delete_take(None, NO_REQUEST, gr.EventData(None, {"id": NO_ID, "ids": []})),
    ]
    if isinstance(failure, DatabaseUnavailable):
        outputs += [
            PageLoadHandlers(context).load_page(None, None, NO_REQUEST),
            PageLoadHandlers(context).refresh_page(None, None, NO_REQUEST),
            LibraryHandlers(context).list_voices(None, NO_REQUEST),
            SpeakHandlers(context).show_voice(anna.id, None, NO_REQUEST),
            HistoryHandlers(context).show_tab("", "", False, 20, None, NO_REQUEST),
        ]
    for text in [sent, *map(str, outputs)]:
        for place in ("/srv", "/tmp", "/usr", str(Path.home()), "my models"):
            assert place not in text, text


def test_messages_keep_only_the_file_name_of_a_path() -> None:
    texts = Translations.load().texts(None)
    assert error_message(FAILURES[0], texts) == "The voice library voices.db cannot be used: disk I/O error."
    assert error_message(UnusableReference("At 16,000 Hz and/or 8 kHz, see https://a.example/b."), texts) == (
        "At 16,000 Hz and/or 8 kHz, see https://a.example/b."
    )


# --- the log


def test_visitors_data_is_not_logged(
    serve: Serve,
    engine: FakeEngine,
    storage: Storage,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    url = serve(engine, storage, "browser")
    with caplog.at_level(logging.INFO, "web"):
        visitor = Visitor(url)
        visitor.arrive()
        owner = make_context(engine, storage, Path(), "browser").owner(visitor.token, NO_REQUEST)
        anna = storage.voices.add(voice(f"{SECRET} voice"), owner=owner.key)
        link = visitor.speak(f"{SECRET} speaks.", anna.id)["wav"]["url"]
        assert httpx.get(url.rstrip("/") + link).status_code == 200
        assert httpx.get(url.rstrip("/") + link + "x").status_code == 403
        visitor.press("revise", id=anna.id, name=f"{SECRET}\0", description=SECRET)
        visitor.press("revise", id=anna.id, name=f"{SECRET} again", description=SECRET)
        visitor.event("click", "rp-script-make", [f"{SECRET}: Hello.", anna.id, visitor.token])
        visitor.event("refresh", "rp-history", [SECRET, "", False, 20, visitor.token])
        for failure in (KeyError(SECRET), ValueError(f"no {SECRET}"), OSError(28, "disk full", f"/tmp/{SECRET}.wav")):
            engine.script.fail_after, engine.script.failure = 1, failure
            assert visitor.speak(f"{SECRET} speaks.", anna.id)["problem"]
    logged = caplog.text + "".join(capfd.readouterr())
    assert "KeyError" in logged
    assert "disk full" in logged
    assert "fake_engine.py" in logged, "the source of the error is logged"
    for marker in (SECRET, visitor.token, link, link.rpartition("/")[2], anna.id):
        assert marker not in logged


def test_trace_has_location_and_type_without_values() -> None:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise RuntimeError("CUDA error") from error
    except RuntimeError as error:
        trace = format_traceback(error)
    assert "test_payloads.py" in trace
    assert trace.splitlines()[-1] == "RuntimeError: CUDA error"
    assert "KeyError" in trace
    assert f"KeyError: {SECRET}" not in trace
    assert describe_error(OSError(2, "No such file", SECRET)) == "FileNotFoundError: No such file"
    assert describe_error(UnusableReference(SECRET)) == "UnusableReference"
