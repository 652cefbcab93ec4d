"""Long answers to the page's events are compressed."""

from pathlib import Path

import httpx

from storage import Storage
from tests.support.fake_engine import FakeEngine, voice
from tests.web.conftest import serving
from tests.web.visitor import Visitor


def test_long_answers_to_events_are_compressed(tmp_path: Path) -> None:
    answers: list[httpx.Response] = []
    with Storage.open(tmp_path / "voices.db") as storage, serving() as serve:
        for number in range(40):
            storage.voices.add(voice(f"Voice {number}", 0.2))
        visitor = Visitor(serve(FakeEngine(), storage, "local"))
        visitor.http.event_hooks["response"].append(answers.append)
        visitor.arrive()
        (listed,) = visitor.press("relist")
    assert len(listed["voices"]) == 40
    short, long = (answer for answer in answers if answer.url.path.startswith("/gradio_api/run/"))
    assert "content-encoding" not in short.headers
    assert long.headers["content-encoding"] == "gzip"
    assert int(long.headers["content-length"]) < 0.4 * len(long.content)
