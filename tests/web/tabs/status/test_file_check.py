"""Checks of uploaded files, without a browser."""

import inspect
import threading
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from engine.errors import InvalidInput
from tests.support.looping import run_beside_two
from tests.web.conftest import store_upload
from web.context import WebContext
from web.tabs.status import file_check
from web.tabs.status.file_check import FileCheckHandlers

REQUEST: Any = SimpleNamespace(headers={"accept-language": "en"}, username=None)


def test_files_are_checked_on_few_threads_of_their_own(context: WebContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each address, two are checked or wait."""
    events, go = FileCheckHandlers(context), threading.Event()
    assert inspect.iscoroutinefunction(events.check_file), "Gradio would run it on its own threads"

    def check_slowly(_path: object) -> None:
        go.wait(30)
        raise InvalidInput("It was checked.")

    monkeypatch.setattr(file_check, "check_file", check_slowly)

    async def check() -> dict[str, Any]:
        upload = {"path": str(store_upload(context.folder, "a.wav", b"")), "name": "a.wav"}
        return await events.check_file(None, gr.EventData(None, upload), REQUEST)

    answers = run_beside_two(check, go)
    assert [answer["verdict"] for answer in answers] == ["bad"] * 3
    assert "busy with other files" in answers[0]["lines"][0]
    assert [answer["lines"] for answer in answers[1:]] == [["It was checked."]] * 2
    assert list(context.folder.iterdir()) == [], "uploads are deleted"
