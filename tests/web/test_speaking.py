import base64
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from engine.errors import EngineClosed, InvalidOption
from storage import VoiceLibrary
from tests.web.fake_engine import CHUNK, FRAME, FakeEngine, voice
from web.running import Running
from web.sentences import OUR_FAULT
from web.speaking import Speaking, file_name, speak_options

SETTINGS = ("", 0.7, 0.8, 30)


@pytest.fixture
def speaking(engine: FakeEngine, library: VoiceLibrary, tmp_path: Path) -> Speaking:
    return Speaking(engine, library, tmp_path / "served")  # type: ignore[arg-type]


@pytest.fixture
def anna(library: VoiceLibrary) -> str:
    return library.add(voice("Anna")).id


def messages(
    speaking: Speaking, text: Any, voice_id: Any, ticket: Any = "t", settings: Any = SETTINGS
) -> Iterator[dict]:
    return speaking.speak(text, voice_id, *settings, ticket, None)  # type: ignore[arg-type]


def received(sent: list[dict[str, Any]]) -> np.ndarray:
    """What a player has in the end."""
    heard = np.zeros(0, np.int16)
    for message in sent:
        if message["kind"] == "chunk":
            samples = np.frombuffer(base64.b64decode(message["pcm"]), "<i2")
            heard = np.concatenate([heard[: message["start"]], samples])
    return heard


def file_of(end: dict[str, Any]) -> np.ndarray:
    return soundfile.read(io.BytesIO(Path(end["wav"]["path"]).read_bytes()), dtype="int16")[0]


def test_a_take_starts_sends_chunks_and_ends_with_the_same_samples_in_a_file(speaking: Speaking, anna: str) -> None:
    sent = list(messages(speaking, "Hello there. How are you?", anna))
    assert [m["number"] for m in sent] == list(range(len(sent)))
    assert {m["ticket"] for m in sent} == {"t"}
    assert [m["kind"] for m in sent] == ["start", *["chunk"] * (len(sent) - 2), "end"]
    assert sent[0]["rate"] == 22_050
    end = sent[-1]
    assert end["stop_reason"] == "end"
    assert not end["problem"]
    assert end["total"] == len(received(sent)) > 0
    np.testing.assert_array_equal(file_of(end), received(sent))
    assert end["wav"]["orig_name"] == "Anna.wav"


def test_a_retried_segment_is_in_the_file_once(speaking: Speaking, engine: FakeEngine, anna: str) -> None:
    text = "One sentence to say. Another one to say. The last."
    plain = received(list(messages(speaking, text, anna)))
    engine.script.retry_at = 1
    sent = list(messages(speaking, text, anna))
    starts = [m["start"] for m in sent if m["kind"] == "chunk"]
    assert starts != sorted(starts), "the fake did not go back"
    assert len(received(sent)) == len(plain)
    np.testing.assert_array_equal(file_of(sent[-1]), received(sent))


def test_the_engine_gets_text_voice_and_settings(speaking: Speaking, engine: FakeEngine, anna: str) -> None:
    list(messages(speaking, "Hello.", anna, settings=("42", 1, 0.5, 7)))
    text, spoken_with, options = engine.asked[0]
    assert text == "Hello."
    assert spoken_with is not None
    assert spoken_with.name == "Anna"
    assert (options.seed, options.temperature, options.top_p, options.top_k) == (42, 1.0, 0.5, 7)


def test_stop_ends_its_own_take_and_keeps_what_was_spoken(speaking: Speaking, anna: str) -> None:
    mine, other = (
        messages(speaking, "Long text. " * 20, anna, "mine"),
        messages(speaking, "Hi.", anna, "other"),
    )
    sent = [next(mine), next(mine)]
    next(other)
    speaking.stop(SimpleNamespace(ticket="mine"))  # type: ignore[arg-type]
    sent += mine
    assert sent[-1]["stop_reason"] == "cancelled"
    assert sent[-1]["total"] == CHUNK * FRAME
    np.testing.assert_array_equal(file_of(sent[-1]), received(sent))
    assert list(other)[-1]["stop_reason"] == "end"


def test_stop_before_the_first_chunk_leaves_no_file(speaking: Speaking, anna: str) -> None:
    take = messages(speaking, "Hello.", anna)
    next(take)
    speaking.stop(SimpleNamespace(ticket="t"))  # type: ignore[arg-type]
    end = list(take)[-1]
    assert (end["stop_reason"], end["wav"], end["total"]) == ("cancelled", None, 0)


def test_a_page_that_leaves_ends_the_speech(speaking: Speaking, engine: FakeEngine, anna: str) -> None:
    take = messages(speaking, "Long text. " * 20, anna)
    next(take), next(take)
    take.close()  # type: ignore[attr-defined]
    assert engine.speeches[0].closed


@pytest.mark.parametrize(
    ("text", "picked", "settings", "says"),
    [
        ("  ", "anna", SETTINGS, "nothing to say"),
        (None, "anna", SETTINGS, "nothing to say"),
        ("Hi.", None, SETTINGS, "Pick a voice first"),
        ("Hi.", "no-such-voice", SETTINGS, "voice"),
        ("Hi.", ["anna"], SETTINGS, "Pick a voice first"),
        ("Hi.", "anna", ("x", 0.7, 0.8, 30), "seed is a whole number"),
        ("Hi.", "anna", ("-1", 0.7, 0.8, 30), "The seed is -1"),
        ("Hi.", "anna", ("", 9, 0.8, 30), "temperature is 9"),
        ("Hi.", "anna", ("", float("nan"), 0.8, 30), "temperature"),
    ],
)
def test_what_cannot_be_spoken_is_refused_with_a_sentence(
    speaking: Speaking, anna: str, text: Any, picked: Any, settings: Any, says: str
) -> None:
    sent = list(messages(speaking, text, anna if picked == "anna" else picked, settings=settings))
    assert says in sent[-1]["status"]
    assert sent[-1]["problem"]
    assert sent[-1]["wav"] is None


def test_another_owners_voice_is_no_voice(speaking: Speaking, library: VoiceLibrary) -> None:
    foreign = library.add(voice("Secret"), owner="somebody").id
    end = list(messages(speaking, "Hi.", foreign))[-1]
    assert end["problem"]
    assert "Secret" not in end["status"]


@pytest.mark.parametrize(
    ("failure", "says"),
    [(EngineClosed("The engine was closed."), "The engine was closed."), (KeyError("x"), OUR_FAULT)],
)
def test_an_error_on_the_way_keeps_what_was_spoken(
    speaking: Speaking, engine: FakeEngine, anna: str, failure: Exception, says: str
) -> None:
    engine.script.fail_after, engine.script.failure = 2, failure
    sent = list(messages(speaking, "Long text. " * 20, anna))
    end = sent[-1]
    assert end["status"].startswith(says)
    assert "What was spoken is kept" in end["status"]
    assert end["problem"]
    assert end["stop_reason"] is None
    np.testing.assert_array_equal(file_of(end), received(sent))
    assert engine.speeches[0].closed


@pytest.mark.parametrize(
    ("name", "file"),
    [("Anna", "Anna"), ("../a/b\\c:d", "___a_b_c_d"), ("Zoë 声", "Zoë 声"), ("", "take"), ("x" * 80, "x" * 40)],
)
def test_files_are_named_after_the_voice(name: str, file: str) -> None:
    assert file_name(name) == file


def test_a_seed_of_nothing_is_a_new_one_and_nought_is_nought() -> None:
    assert speak_options(None, 0.7, 0.8, 30).seed is None
    assert speak_options(" ", 0.7, 0.8, 30).seed is None
    assert speak_options("0", 0.7, 0.8, 30).seed == 0
    with pytest.raises(InvalidOption):
        speak_options("1.5", 0.7, 0.8, 30)


def test_stopping_while_a_speech_begins_is_not_lost() -> None:
    class Speech:
        cancelled = threading.Event()

        def cancel(self) -> None:
            self.cancelled.set()

    running, speech = Running(), Speech()
    with running.ticket("t"):
        running.stop("t")
        running.began("t", speech)  # type: ignore[arg-type]
    assert speech.cancelled.is_set()
    running.stop("t")  # a take that is over is nothing to stop
