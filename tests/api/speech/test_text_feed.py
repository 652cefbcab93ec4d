"""The text of a client that writes it while it is spoken."""

from types import SimpleNamespace
from typing import Any

from api.speech.text_feed import TextFeed
from tests.support.looping import run


def test_a_pause_counts_from_the_last_piece() -> None:
    """Else it would end a sentence that goes on in the next one."""

    async def write() -> None:
        await feed.append("It costs 3.")
        first = feed._timer
        await feed.append("5")
        second = feed._timer
        assert first is not None
        assert second is not None
        assert (first.cancelled(), second.cancelled()) == (True, False)
        feed.finish()
        assert second.cancelled()

    done: list[str] = []
    text: Any = SimpleNamespace(pause=lambda: done.append("pause"), finish=lambda: done.append("finish"))
    service: Any = SimpleNamespace(extend=lambda _caller, _text, piece: done.append(piece))
    feed = TextFeed(service, SimpleNamespace(), text)  # type: ignore[arg-type]
    run(write)
    assert done == ["It costs 3.", "5", "finish"]
