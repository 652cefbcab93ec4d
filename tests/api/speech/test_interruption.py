"""Interruptions of live sessions: which words were heard, with the times that the bundled model tells."""

import time

import pytest

from tests.api.conftest import Server
from tests.api.speech.test_live import live_session
from tests.support.waiting import until

REPLY = "The rain has stopped at last. We can go out now, if you like. "
SHORT = "It is late now. We can go out. "


def test_interruption_reports_the_heard_words(server: Server) -> None:
    with live_session(server) as session:
        session.configure()
        session.send("input.text", text=SHORT * 12)
        first = session.next("audio.done")["seconds"]
        session.next("audio.start")
        session.send("input.interrupt", seconds=first / 2)
        interrupted = session.next("interrupted")
        words = " ".join(SHORT.split())
        assert interrupted["seconds"] == pytest.approx(first / 2, abs=0.001)
        assert words.startswith(interrupted["heard"])
        assert 1 <= len(interrupted["heard"].split()) < len(words.split())
        assert f"{interrupted['heard']} {interrupted['unheard']}".startswith(words)
        until(lambda: server.busy() == 0)  # the rest of the reply is discarded
        session.send("input.text", text="Go ")  # the next reply begins
        session.send("input.text", text="on.")
        session.send("input.done")
        assert session.next()["sentence_text"] == "Go on."
        session.next("session.done")
        session.send("input.interrupt", seconds=60.0)  # its playback has ended
        whole = session.next("interrupted")
        assert (whole["heard"], whole["unheard"]) == ("Go on.", "")


def test_interruption_without_position_uses_the_clock(server: Server) -> None:
    """Without a position, the time since the first audio counts as played."""
    with live_session(server) as session:
        session.configure()
        session.send("input.text", text="The rain has")  # no sentence: nothing is spoken yet
        session.send("input.interrupt")
        nothing = session.next("interrupted")
        assert (nothing["seconds"], nothing["heard"]) == (0, ""), "before any audio"
        asked = time.monotonic()
        session.send("input.text", text=REPLY)
        session.next("audio.done")  # a whole sentence has been sent
        sent = time.monotonic()
        until(lambda: time.monotonic() - sent > 0.6)
        session.send("input.interrupt")
        interrupted = session.next("interrupted")
        assert 0.5 < interrupted["seconds"] < time.monotonic() - asked
        assert interrupted["heard"].startswith("The rain")
        assert " ".join(REPLY.split()).startswith(interrupted["heard"])
