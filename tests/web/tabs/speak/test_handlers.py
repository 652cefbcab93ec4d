import base64
import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gradio as gr
import numpy as np
import pytest
import soundfile

from engine.errors import EngineFailed, InvalidOption
from storage import Storage, VoiceLibrary
from storage.repositories.pronunciations import Pronunciation
from storage.voices.library import LOCAL
from studio.error_sentences import OUR_FAULT
from studio.takes.running import RunningTakes
from tests.support.fake_engine import CHUNK, FRAME, FakeEngine, voice
from tests.support.waiting import until
from web.context import WebContext
from web.tabs.history.handlers import HistoryHandlers
from web.tabs.speak.handlers import SpeakHandlers, parse_options
from web.tabs.speak.settings import NAMES, SettingsHandlers
from web.ui.i18n import Translations

WORDS = Translations.load().words(None)
SETTINGS = ("", 0.7, 0.8, 30, 0, "", "fake")


@pytest.fixture
def speaking(context: WebContext) -> SpeakHandlers:
    return SpeakHandlers(context)


@pytest.fixture
def anna(library: VoiceLibrary) -> str:
    return library.add(voice("Anna")).id


def messages(
    speaking: SpeakHandlers, text: Any, voice_id: Any, ticket: Any = "t", settings: Any = SETTINGS
) -> Iterator[dict]:
    return speaking.speak(text, voice_id, *settings, None, ticket, None)  # type: ignore[arg-type]


def received(sent: list[dict[str, Any]]) -> np.ndarray:
    """What a player has in the end."""
    heard = np.zeros(0, np.int16)
    for message in sent:
        if message["kind"] == "chunk":
            samples = np.frombuffer(base64.b64decode(message["pcm"]), "<i2")
            heard = np.concatenate([heard[: message["start"]], samples])
    return heard


def again(speaking: SpeakHandlers, take: str, same: bool) -> list[dict[str, Any]]:
    event = gr.EventData(None, {"id": take, "same": same, "ticket": "t"})
    return list(speaking.speak_again(None, None, event))  # type: ignore[arg-type]


def kept(context: WebContext, end: dict[str, Any]) -> np.ndarray:
    """The samples of what was kept."""
    return soundfile.read(io.BytesIO(context.takes.audio(end["take"], owner=LOCAL)), dtype="int16")[0]


def test_a_take_starts_sends_chunks_and_ends_with_the_same_samples_kept(
    speaking: SpeakHandlers, context: WebContext, anna: str
) -> None:
    sent = list(messages(speaking, "Hello there. How are you?", anna))
    assert [m["number"] for m in sent] == list(range(len(sent)))
    assert {m["ticket"] for m in sent} == {"t"}
    assert [m["kind"] for m in sent] == ["start", *["chunk"] * (len(sent) - 2), "end"]
    assert sent[0]["rate"] == 22_050
    end = sent[-1]
    assert end["stop_reason"] == "end"
    assert not end["problem"]
    assert end["total"] == len(received(sent)) > 0
    np.testing.assert_array_equal(kept(context, end), received(sent))
    assert end["wav"]["name"] == "Anna – Hello there. How are you.wav"
    assert end["wav"]["url"].startswith("/reprise/files/")
    assert not list(context.folder.iterdir()), "nothing lies where files are served"


def test_a_retried_segment_is_kept_once(
    speaking: SpeakHandlers, context: WebContext, engine: FakeEngine, anna: str
) -> None:
    text = "One sentence to say. Another one to say. The last."
    plain = received(list(messages(speaking, text, anna)))
    engine.script.retry_at = 1
    sent = list(messages(speaking, text, anna))
    starts = [m["start"] for m in sent if m["kind"] == "chunk"]
    assert starts != sorted(starts), "the fake did not go back"
    assert len(received(sent)) == len(plain)
    np.testing.assert_array_equal(kept(context, sent[-1]), received(sent))


def test_the_engine_gets_text_voice_and_settings(speaking: SpeakHandlers, engine: FakeEngine, anna: str) -> None:
    list(messages(speaking, "Hello.", anna, settings=("42", 1, 0.5, 7, 0, "", "fake")))
    text, spoken_with, options = engine.asked[0]
    assert text == "Hello."
    assert spoken_with is not None
    assert spoken_with.name == "Anna"
    assert (options.seed, options.temperature, options.top_p, options.top_k) == (42, 1.0, 0.5, 7)


def test_paragraphs_are_held_apart_also_in_the_next_take(
    speaking: SpeakHandlers, context: WebContext, engine: FakeEngine, anna: str
) -> None:
    end = list(messages(speaking, "One.\n\nTwo.", anna, settings=("", 0.7, 0.8, 30, 1.5, "", "fake")))[-1]
    assert context.takes.get(end["take"], owner=LOCAL).text == "One.\n\nTwo."
    again = gr.EventData(None, {"id": end["take"], "same": True, "ticket": "u"})
    list(speaking.speak_again(None, None, again))  # type: ignore[arg-type]
    assert [text for text, *_ in engine.asked] == ["One.\n[pause:1.5]\nTwo."] * 2


def test_stop_ends_its_own_take_and_keeps_what_was_spoken(
    speaking: SpeakHandlers, context: WebContext, anna: str
) -> None:
    mine, other = (
        messages(speaking, "Long text. " * 20, anna, "mine"),
        messages(speaking, "Hi.", anna, "other"),
    )
    sent = [next(mine), next(mine)]
    next(other)
    speaking.stop(gr.EventData(None, {"ticket": "mine"}))
    sent += mine
    assert sent[-1]["stop_reason"] == "cancelled"
    assert sent[-1]["total"] == CHUNK * FRAME
    np.testing.assert_array_equal(kept(context, sent[-1]), received(sent))
    assert list(other)[-1]["stop_reason"] == "end"
    record = context.takes.get(sent[-1]["take"], owner=LOCAL)
    assert (record.stop_reason, record.duration) == ("cancelled", pytest.approx(CHUNK * FRAME / 22_050))


def test_stop_before_the_first_chunk_keeps_nothing(speaking: SpeakHandlers, anna: str) -> None:
    take = messages(speaking, "Hello.", anna)
    next(take)
    speaking.stop(gr.EventData(None, {"ticket": "t"}))
    end = list(take)[-1]
    assert (end["stop_reason"], end["wav"], end["take"], end["total"]) == ("cancelled", None, None, 0)


def test_a_page_that_leaves_ends_the_speech_and_what_was_spoken_is_kept(
    speaking: SpeakHandlers, engine: FakeEngine, storage: Storage, anna: str
) -> None:
    take = messages(speaking, "Long text. " * 20, anna)
    next(take), next(take)
    take.close()  # type: ignore[attr-defined]
    assert engine.speeches[0].closed
    until(lambda: storage.history.page().total)
    (left,) = storage.history.page().records
    assert (left.stop_reason, left.text) == ("cancelled", "Long text. " * 20)
    assert left.duration == pytest.approx(CHUNK * FRAME / 22_050)


def test_a_page_that_leaves_after_the_end_has_its_take_once(
    speaking: SpeakHandlers, storage: Storage, anna: str
) -> None:
    take = messages(speaking, "Hi.", anna)
    while next(take)["kind"] != "end":
        pass
    take.close()  # type: ignore[attr-defined]
    assert storage.history.page().total == 1


def test_a_take_under_way_when_everything_is_forgotten_is_not_kept(
    speaking: SpeakHandlers, context: WebContext, storage: Storage, anna: str
) -> None:
    take = messages(speaking, "Long text. " * 5, anna)
    next(take), next(take)
    HistoryHandlers(context).delete_everything(None, None)  # type: ignore[arg-type]
    end = list(take)[-1]
    assert (end["take"], end["wav"]["url"], end["stop_reason"]) == (None, None, "end")
    assert "deleted in the meantime" in end["status"]
    assert storage.history.page().total == 0


@pytest.mark.parametrize(
    ("text", "picked", "settings", "says"),
    [
        ("  ", "anna", SETTINGS, "nothing to say"),
        (None, "anna", SETTINGS, "nothing to say"),
        ("Hi.", None, SETTINGS, "Pick a voice first"),
        ("Hi.", "no-such-voice", SETTINGS, "voice"),
        ("Hi.", ["anna"], SETTINGS, "Pick a voice first"),
        ("Hi.", "anna", ("x", 0.7, 0.8, 30, 0, "", "fake"), "seed must be a whole number"),
        ("Hi.", "anna", ("-1", 0.7, 0.8, 30, 0, "", "fake"), "seed must be a whole number"),
        ("Hi.", "anna", ("2147483648", 0.7, 0.8, 30, 0, "", "fake"), "from 0 to 2147483647"),
        ("Hi.", "anna", ("", "much", 0.8, 30, 0, "", "fake"), "out of step"),
        ("x" * 500_001, "anna", SETTINGS, "more than 500,000 characters"),
        ("Hi.", "anna", ("", 9, 0.8, 30, 0, "", "fake"), "temperature is 9"),
        ("Hi.", "anna", ("", float("nan"), 0.8, 30, 0, "", "fake"), "temperature"),
    ],
)
def test_what_cannot_be_spoken_is_refused_with_a_sentence(
    speaking: SpeakHandlers, anna: str, text: Any, picked: Any, settings: Any, says: str
) -> None:
    sent = list(messages(speaking, text, anna if picked == "anna" else picked, settings=settings))
    assert says in sent[-1]["status"]
    assert sent[-1]["problem"]
    assert sent[-1]["wav"] is None


def test_another_owners_voice_is_no_voice(speaking: SpeakHandlers, library: VoiceLibrary) -> None:
    foreign = library.add(voice("Secret"), owner="somebody").id
    end = list(messages(speaking, "Hi.", foreign))[-1]
    assert end["problem"]
    assert "Secret" not in end["status"]


@pytest.mark.parametrize(
    ("failure", "says"),
    [(EngineFailed("The model failed."), "The model failed."), (KeyError("x"), str(OUR_FAULT))],
)
def test_an_error_on_the_way_keeps_what_was_spoken(
    speaking: SpeakHandlers, context: WebContext, engine: FakeEngine, anna: str, failure: Exception, says: str
) -> None:
    engine.script.fail_after, engine.script.failure = 2, failure
    sent = list(messages(speaking, "Long text. " * 20, anna))
    end = sent[-1]
    assert end["status"].startswith(says)
    assert "What was spoken is kept" in end["status"]
    assert end["problem"]
    assert end["stop_reason"] is None
    np.testing.assert_array_equal(kept(context, end), received(sent))
    assert context.takes.get(end["take"], owner=LOCAL).stop_reason == "error"
    assert engine.speeches[0].closed


def test_a_chosen_language_is_spoken_kept_and_asked_for_again(
    speaking: SpeakHandlers, engine: FakeEngine, storage: Storage, anna: str
) -> None:
    """It is also the one of the dictionary, whatever the voice's is."""
    storage.pronunciations.put([Pronunciation("Gift", "poison", language="de")])
    end = list(messages(speaking, "A Gift.", anna, settings=("", 0.9, 0.5, 7, 0, "de", "fake")))[-1]
    (record,) = storage.history.page().records
    assert record.settings["language"] == "de"
    again(speaking, end["take"], same=True)
    assert [(text, options.language) for text, _, options in engine.asked] == [("A poison.", "de")] * 2


def test_settings_of_another_model_are_not_used(speaking: SpeakHandlers, engine: FakeEngine, anna: str) -> None:
    """The page was opened before the model was changed."""
    list(messages(speaking, "Hello.", anna, settings=("42", 0.3, 0.4, 5, 0, "de", "another")))
    options = engine.asked[0][2]
    defaults = engine.default_options
    expected = (42, defaults.temperature, defaults.top_p, defaults.top_k, "")
    assert (options.seed, options.temperature, options.top_p, options.top_k, options.language) == expected


def test_the_settings_follow_the_loaded_model(context: WebContext, engine: FakeEngine) -> None:
    events, asked = SettingsHandlers(context), SimpleNamespace(headers={"accept-language": "de"})
    defaults = engine.default_options
    *sampling, language, model = events.follow_model("", "fake", asked)  # type: ignore[arg-type]
    assert (sampling, model, language.visible) == ([gr.skip()] * 3, "fake", False)
    engine.abilities = replace(engine.abilities, languages=("english", "german", "klingon"))
    *sampling, language, model = events.follow_model("de", "another", asked)  # type: ignore[arg-type]
    assert (sampling, model) == ([defaults.temperature, defaults.top_p, defaults.top_k], "fake")
    assert (language.value, language.visible) == ("de", True)
    assert language.choices == [("Vom Modell erkannt", ""), ("Deutsch", "de"), ("English", "en")]
    assert events.follow_model("ja", "fake", asked)[3].value == "", "the model does not have it"  # type: ignore[arg-type]
    seed, *rest = events.defaults(asked)  # type: ignore[arg-type]
    assert (seed, rest[-1], len(rest) + 1) == ("", "fake", len(NAMES))


def test_the_history_has_what_it_takes_to_say_it_again(speaking: SpeakHandlers, storage: Storage, anna: str) -> None:
    end = list(messages(speaking, "Hello there.", anna, settings=("", 0.9, 0.5, 7, 0, "", "fake")))[-1]
    (record,) = storage.history.page().records
    assert record.id == end["take"]
    assert (record.text, record.voice_id, record.voice_name) == ("Hello there.", anna, "Anna")
    assert (record.seed, record.model, record.stop_reason) == (7, "fake", "end")
    assert dict(record.settings) == {"temperature": 0.9, "top_p": 0.5, "top_k": 7}
    assert record.real_time_factor is not None
    assert record.first_audio is not None


def test_without_a_history_the_take_is_kept_for_its_page_alone(
    speaking: SpeakHandlers, context: WebContext, storage: Storage, anna: str
) -> None:
    storage.history.change_settings(history=False)
    sent = list(messages(speaking, "Hello there.", anna))
    np.testing.assert_array_equal(kept(context, sent[-1]), received(sent))
    assert storage.history.page().total == 0


def test_the_same_again_and_another_take(speaking: SpeakHandlers, engine: FakeEngine, anna: str) -> None:
    end = list(messages(speaking, "Hello there.", anna, settings=("42", 0.9, 0.5, 9, 0, "", "fake")))[-1]
    assert again(speaking, end["take"], same=True)[-1]["stop_reason"] == "end"
    assert again(speaking, end["take"], same=False)[-1]["stop_reason"] == "end"
    (text, _, first), (same_text, _, same), (_, _, another) = engine.asked
    assert (same_text, same) == (text, first)
    assert (another.seed, another.temperature, another.top_k) == (None, 0.9, 9)


def test_what_cannot_be_said_again_is_said(
    speaking: SpeakHandlers, context: WebContext, library: VoiceLibrary, anna: str
) -> None:
    end = list(messages(speaking, "Hello there.", anna))[-1]
    library.delete(anna)
    gone = again(speaking, end["take"], same=True)[-1]
    assert "no such voice" in gone["status"]
    assert gone["problem"]
    context.takes.delete(end["take"], owner=LOCAL)
    assert "no such take" in again(speaking, end["take"], same=True)[-1]["status"]
    assert again(speaking, "../../etc", same=True)[-1]["problem"]


def test_a_seed_of_nothing_is_a_new_one_and_nought_is_nought() -> None:
    assert parse_options(None, 0.7, 0.8, 30, WORDS).seed is None
    assert parse_options(" ", 0.7, 0.8, 30, WORDS).seed is None
    assert parse_options("0", 0.7, 0.8, 30, WORDS).seed == 0
    assert parse_options(0, 0.7, 0.8, 30, WORDS).seed == 0
    with pytest.raises(InvalidOption):
        parse_options("1.5", 0.7, 0.8, 30, WORDS)


def test_stopping_while_a_speech_begins_is_not_lost() -> None:
    class Speech:
        cancelled = threading.Event()

        def cancel(self) -> None:
            self.cancelled.set()

    running, speech = RunningTakes(), Speech()
    with running.register("t"):
        running.stop("t")
        running.attach("t", speech)  # type: ignore[arg-type]
    assert speech.cancelled.is_set()
    running.stop("t")  # a take that is over is nothing to stop
