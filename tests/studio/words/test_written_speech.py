"""Chunks of a respelled speech as written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.outputs import AudioChunk
from engine.text import GrowingText, Respelling, Segmentation
from engine.text.tags import word_spans
from storage.pronunciations import Pronunciation
from studio.pronunciation import respell
from studio.words.written_speech import WrittenSpeech
from tests.support.fake_engine import words_of

ENTRIES = (
    Pronunciation("Nguyen", "Win"),
    Pronunciation("AWS", "A W S"),
    Pronunciation("New York", "nooyork"),
    Pronunciation("東京", "とうきょう"),
    Pronunciation("tomato", "/T AH0 M EY1 T OW2/"),
)
ONE = Segmentation(max_sentences=1)


def chunks(texts: list[str]) -> list[AudioChunk]:
    """Return a chunk with all words for each segment; a segment takes as many seconds as its number."""
    return [
        AudioChunk(np.zeros(0, np.float32), 0, 0, 0.0, at, len(texts), text, words=words_of(text, at, at, 1.0))
        for at, text in enumerate(texts)
    ]


def restored(said: Respelling, segmentation: Segmentation = ONE) -> list[AudioChunk]:
    speech = WrittenSpeech([said])
    segments = segmentation.plan(said.spoken)
    return [speech.restore(chunk) for chunk in chunks([segment.text for segment in segments])]


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("Nguyen likes tomato soup.", ["Nguyen likes tomato soup."]),
        ("We use AWS. AWS, too. Do we? Nguyen’s (AWS).", ["We use AWS.", "AWS, too.", "Do we?", "Nguyen’s (AWS)."]),
        ("We win. Nguyen wins. They win.", ["We win.", "Nguyen wins.", "They win."]),
        ("In New York, yes.\n\n[pause:1] In New York -- now.", ["In New York, yes.", "In New York — now."]),
        ("[sad] Nguyen left. [sigh] AWS-Nguyen", ["[sad] Nguyen left.", "[sigh] AWS-Nguyen"]),
        ("東京は大きい。東京へ行く。", ["東京は大きい。", "東京へ行く。"]),
        ("Nothing “here”.", ['Nothing "here".']),
    ],
)
def test_segments_and_words_are_as_written(text: str, segments: list[str]) -> None:
    told = restored(respell(text, ENTRIES, "en", phones=True))
    assert [chunk.text for chunk in told] == segments
    for chunk in told:
        for word in chunk.words:
            assert chunk.text[word.offset :].startswith(word.text)
        assert [word.start for word in chunk.words[1:]] == pytest.approx([word.end for word in chunk.words[:-1]])
        assert [word.text for word in chunk.words] == [chunk.text[a:b] for a, b in word_spans(chunk.text)]


def test_words_of_one_respelling_share_its_time() -> None:
    said = Respelling((("In ", "In "), ("nooyork", "New York"), (" a w s", " AWS")))
    (chunk,) = restored(said)
    assert [word.text for word in chunk.words] == ["In", "New", "York", "AWS"]
    times = [word.start for word in chunk.words] + [chunk.words[-1].end]
    begin, step = 0.75, 0.25 / 4  # as the fake engine divides the time of five words
    assert times == pytest.approx([0, begin, begin + step * 3 / 7, begin + step, 1.0])


def test_respelling_that_two_segments_share_is_told_once() -> None:
    said = Respelling((("See ", "See "), ("one. Two", "OT"), (" here.", " here.")))
    assert [chunk.text for chunk in restored(said)] == ["See OT", " here."]


def test_repeated_segment_is_the_same() -> None:
    said = respell("AWS and Nguyen.", ENTRIES)
    speech = WrittenSpeech([said])
    (chunk,) = chunks([said.spoken])
    first, again = speech.restore(chunk), speech.restore(chunk)
    assert (first.text, first.words) == (again.text, again.words)


def test_growing_text_is_told_as_it_was_taken() -> None:
    text = GrowingText(ONE)
    text.respell = lambda piece: respell(piece, ENTRIES)
    speech = WrittenSpeech(text.taken)
    said, told = [], []
    for piece in ("… ", "We use AWS. Ngu", "yen is", " here, in New York. AWS. ", "The end."):
        text.append(piece)
        for segment in text.take():
            said.append(segment.text)
            told.append(speech.restore(chunks(said)[-1]).text)
    text.finish()
    said += [segment.text for segment in text.take()]
    told.append(speech.restore(chunks(said)[-1]).text)
    assert said == ["… We use A W S.", "Win is here, in nooyork.", "A W S.", "The end."]
    assert told == ["… We use AWS.", "Nguyen is here, in New York.", "AWS.", "The end."]
    assert len(text) == len("… We use AWS. Nguyen is here, in New York. AWS. The end.")


@given(st.lists(st.sampled_from(["AWS", "New York", "Nguyen’s", "a", "w", "win", "so,", "no.", "東京"]), min_size=1))
@settings(max_examples=60, deadline=None)
def test_whole_text_is_told(words: list[str]) -> None:
    text = " ".join(words)
    assert " ".join(chunk.text for chunk in restored(respell(text, ENTRIES))) == text.replace("’", "'").replace(
        "Nguyen's", "Nguyen’s"
    )
