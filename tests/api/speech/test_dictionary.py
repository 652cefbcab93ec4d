"""Texts with words of the dictionary: clients get their own words back, not those that are spoken."""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from storage.pronunciations import Pronunciation
from tests.api.conftest import Server
from tests.api.speech.test_live import live_session

ENTRIES = (
    Pronunciation("Nguyen", "win"),
    Pronunciation("tomato", "/T AH0 M EY1 T OW2/"),
    Pronunciation("BBC", "B B C"),
)
TEXT = "Nguyen likes tomato."
ASKED = {"input": TEXT, "voice": "Clara", "seed": 7, "timestamp_granularities": ["word"]}


@pytest.fixture(autouse=True)
def dictionary(server: Server) -> Iterator[None]:
    words = server.storage.pronunciations
    words.put(ENTRIES)
    yield
    for entry in ENTRIES:
        words.delete(entry.word)


def test_events_and_batch_have_the_words_of_the_text(
    speak: Callable[..., httpx.Response], client: httpx.Client
) -> None:
    lines = speak(**ASKED, stream_format="sse").text.splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line]
    words = [word for event in events for word in event.get("words", [])]
    assert [word["word"] for word in words] == TEXT.split()
    assert all(word["start"] < word["end"] for word in words)
    short = {**ASKED, "input": "Tomato."}
    answer = client.post("/v1/audio/speech/batch", json={"items": [short]}).json()
    assert [word["word"] for word in answer["results"][0]["words"]] == ["Tomato."]


def test_live_session_has_the_words_of_the_text(server: Server) -> None:
    with live_session(server) as session:
        session.configure(timestamp_granularities=["word"])
        for piece in ("Ngu", "yen has BBC. Ngu"):
            session.send("input.text", text=piece)
        sentences, words = [session.next("audio.start")["sentence_text"]], []
        for piece in ("yen likes tom", "ato."):
            session.send("input.text", text=piece)
        session.send("input.done")
        while (event := session.next("audio.start", "audio.words", "session.done"))["type"] != "session.done":
            sentences.append(event.get("sentence_text", ""))
            words += event.get("words", [])
        session.send("input.interrupt", seconds=words[2]["end"])
        told = session.next("interrupted")
    assert sentences[0] == told["heard"] == "Nguyen has BBC."
    assert " ".join(filter(None, sentences[1:])) == told["unheard"] == TEXT
    assert [word["word"] for word in words] == f"{told['heard']} {TEXT}".split()
