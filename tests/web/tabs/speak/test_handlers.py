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

from engine.errors import EngineFailed, InvalidOption, InvalidText
from engine.text import speaking_time
from storage import Storage, VoiceLibrary
from storage.errors import LibraryError
from storage.repositories.pronunciations import Pronunciation
from storage.validation import LOCAL
from studio.takes.running import RunningTakes
from studio.user_messages import OUR_FAULT
from tests.studio.engines.test_speech_metrics import counted
from tests.support.fake_engine import CHUNK, FRAME, FakeEngine, voice
from tests.support.waiting import until
from web.context import WebContext
from web.tabs.history.handlers import HistoryHandlers
from web.tabs.speak.handlers import SpeakHandlers, parse_options
from web.tabs.speak.settings import NAMES, SettingsHandlers
from web.ui.i18n import Translations

TEXTS = Translations.load().texts(None)
SETTINGS = ("", 0.7, 0.8, 30, 0, 1, "", "fake")


@pytest.fixture
def speaking(context: WebContext) -> SpeakHandlers:
    return SpeakHandlers(context)


@pytest.fixture
def anna(library: VoiceLibrary) -> str:
    return library.add(voice("Anna")).id


def messages(
    speaking: SpeakHandlers, text: Any, voice_id: Any, ticket: Any = "t", settings: Any = SETTINGS
) -> Iterator[dict[str, Any]]:
    return speaking.speak(None, text, voice_id, *settings, None, ticket)  # type: ignore[arg-type]


def received(sent: list[dict[str, Any]]) -> np.ndarray:
    """Return the samples that a player has in the end."""
    heard = np.zeros(0, np.int16)
    for message in sent:
        if message["kind"] == "chunk":
            samples = np.frombuffer(base64.b64decode(message["pcm"]), "<i2")
            heard = np.concatenate([heard[: message["start"]], samples])
    return heard


def repeat_take(speaking: SpeakHandlers, take: str, same: bool) -> list[dict[str, Any]]:
    event = gr.EventData(None, {"id": take, "same": same, "ticket": "t"})
    return list(speaking.speak_again(None, None, event))  # type: ignore[arg-type]


def stored_samples(context: WebContext, end: dict[str, Any]) -> np.ndarray:
    """Return the stored samples of the take."""
    return soundfile.read(io.BytesIO(context.takes.audio(end["take"], owner=LOCAL)), dtype="int16")[0]


def test_take_streams_chunks_and_stores_the_same_samples(
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
    np.testing.assert_array_equal(stored_samples(context, end), received(sent))
    assert counted(context.engine.metrics)["speeches"] == 1
    assert end["wav"]["name"] == "Anna – Hello there. How are you.wav"
    assert end["wav"]["url"].startswith("/reprise/files/")
    assert not list(context.folder.iterdir()), "the served folder is empty"


def test_retried_segment_is_stored_once(
    speaking: SpeakHandlers, context: WebContext, engine: FakeEngine, anna: str
) -> None:
    text = "One sentence to say. Another one to say. The last."
    plain = received(list(messages(speaking, text, anna)))
    engine.script.retry_at = 1
    sent = list(messages(speaking, text, anna))
    starts = [m["start"] for m in sent if m["kind"] == "chunk"]
    assert starts != sorted(starts), "the fake engine did not go back"
    assert len(received(sent)) == len(plain)
    np.testing.assert_array_equal(stored_samples(context, sent[-1]), received(sent))


@pytest.mark.parametrize("top_k", [7, 6.6])  # a slider's field takes any number
def test_engine_receives_text_voice_and_settings(
    speaking: SpeakHandlers, engine: FakeEngine, anna: str, top_k: float
) -> None:
    list(messages(speaking, "Hello.", anna, settings=("42", 1, 0.5, top_k, 0, 1, "", "fake")))
    text, spoken_with, options = engine.asked[0]
    assert text == "Hello."
    assert spoken_with is not None
    assert spoken_with.name == "Anna"
    assert (options.seed, options.temperature, options.top_p, options.top_k) == (42, 1.0, 0.5, 7)


def test_take_is_not_played_at_the_rate_of_the_model_before(
    speaking: SpeakHandlers, context: WebContext, engine: FakeEngine, anna: str
) -> None:
    """A switch of models may end while a take begins."""
    sent = messages(speaking, "Hello.", anna)
    assert next(sent)["rate"] == 22_050
    engine.sample_rate = 44_100
    (end,) = sent
    assert (end["kind"], end["problem"], end["take"]) == ("end", True, None)
    assert "Another model is being loaded" in end["status"]
    assert engine.speeches[0].closed


def test_paragraph_pause_applies_to_repeated_takes(
    speaking: SpeakHandlers, context: WebContext, engine: FakeEngine, anna: str
) -> None:
    end = list(messages(speaking, "One.\n\nTwo.", anna, settings=("", 0.7, 0.8, 30, 1.5, 1, "", "fake")))[-1]
    assert context.takes.get(end["take"], owner=LOCAL).text == "One.\n\nTwo."
    again = gr.EventData(None, {"id": end["take"], "same": True, "ticket": "u"})
    list(speaking.speak_again(None, None, again))  # type: ignore[arg-type]
    assert [text for text, *_ in engine.asked] == ["One.\n[pause:1.5]\nTwo."] * 2


def test_take_at_a_speed_is_streamed_and_stored_as_such_and_repeated(
    speaking: SpeakHandlers, context: WebContext, engine: FakeEngine, storage: Storage, anna: str
) -> None:
    text = "Hello there, and a good morning to all of you."
    usual = received(list(messages(speaking, text, anna)))
    sent = list(messages(speaking, text, anna, settings=("", 0.7, 0.8, 30, 0, 1.25, "", "fake")))
    assert len(received(sent)) == round(len(usual) / 1.25)
    assert sent[0]["expected"] == pytest.approx(speaking_time(text) / 1.25)
    np.testing.assert_array_equal(stored_samples(context, sent[-1]), received(sent))
    record = storage.history.get(sent[-1]["take"])
    assert (record.settings["speed"], sent[-1]["facts"]["settings"]["speed"]) == (1.25, 1.25)
    assert record.duration == pytest.approx(len(usual) / 1.25 / engine.sample_rate, abs=1e-3)
    assert len(received(repeat_take(speaking, record.id, same=True))) == len(received(sent))


def test_take_of_ssml_has_the_text_without_markup(
    speaking: SpeakHandlers, context: WebContext, engine: FakeEngine, anna: str
) -> None:
    *_, end = messages(speaking, '<speak>Hello. <break time="1s"/>Salt &amp; pepper.</speak>', anna)
    assert context.takes.get(end["take"], owner=LOCAL).text == "Hello. [pause:1s]Salt & pepper."
    assert engine.asked[0][0] == "Hello. [pause:1s]Salt & pepper."


def test_stop_ends_only_its_take_and_keeps_the_spoken_part(
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
    np.testing.assert_array_equal(stored_samples(context, sent[-1]), received(sent))
    assert list(other)[-1]["stop_reason"] == "end"
    record = context.takes.get(sent[-1]["take"], owner=LOCAL)
    assert (record.stop_reason, record.duration) == ("cancelled", pytest.approx(CHUNK * FRAME / 22_050))


def test_stop_before_the_first_chunk_keeps_nothing(speaking: SpeakHandlers, anna: str) -> None:
    take = messages(speaking, "Hello.", anna)
    next(take)
    speaking.stop(gr.EventData(None, {"ticket": "t"}))
    end = list(take)[-1]
    assert (end["stop_reason"], end["wav"], end["take"], end["total"]) == ("cancelled", None, None, 0)


@pytest.mark.parametrize("left", [False, True])
def test_take_that_its_page_has_given_up_unheard_is_not_stored(
    speaking: SpeakHandlers, context: WebContext, storage: Storage, anna: str, left: bool
) -> None:
    take = messages(speaking, "Long text. " * 20, anna)
    next(take), next(take)
    speaking.stop(gr.EventData(None, {"ticket": "t"}))
    speaking.stop(gr.EventData(None, {"ticket": "t", "unheard": True}))
    if left:
        take.close()  # type: ignore[attr-defined]
        until(lambda: not any(thread.name == "reprise-keep" for thread in threading.enumerate()))
    else:
        assert list(take)[-1]["take"] is None
    assert storage.history.page().total == 0


def test_leaving_the_page_ends_the_take_and_keeps_the_spoken_part(
    speaking: SpeakHandlers, engine: FakeEngine, storage: Storage, anna: str
) -> None:
    take = messages(speaking, "Long text. " * 20, anna)
    start, _ = next(take), next(take)
    take.close()  # type: ignore[attr-defined]
    assert engine.speeches[0].closed
    until(lambda: storage.history.page().total)
    (left,) = storage.history.page().records
    assert (left.id, left.stop_reason, left.text) == (start["take"], "disconnected", "Long text. " * 20)
    assert left.duration == pytest.approx(CHUNK * FRAME / 22_050)


@pytest.mark.parametrize(("stopped", "reason"), [(False, "disconnected"), (True, "cancelled")])
def test_stop_reason_of_a_take_tells_who_stopped_it_first(
    speaking: SpeakHandlers, context: WebContext, storage: Storage, anna: str, stopped: bool, reason: str
) -> None:
    """The speech may end, as it is cancelled, before the generator of a page that was left is closed."""
    take = messages(speaking, "Long text. " * 20, anna)
    next(take), next(take)
    if stopped:
        speaking.stop(gr.EventData(None, {"ticket": "t"}))
    context.running.stop("t", "disconnected")
    list(take)
    assert storage.history.page().records[0].stop_reason == reason


def test_leaving_after_the_end_stores_the_take_once(speaking: SpeakHandlers, storage: Storage, anna: str) -> None:
    take = messages(speaking, "Hi.", anna)
    while next(take)["kind"] != "end":
        pass
    take.close()  # type: ignore[attr-defined]
    assert storage.history.page().total == 1


def test_running_take_is_not_stored_after_all_data_is_deleted(
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
        ("Hi.", "anna", ("x", 0.7, 0.8, 30, 0, 1, "", "fake"), "seed must be a whole number"),
        ("Hi.", "anna", ("-1", 0.7, 0.8, 30, 0, 1, "", "fake"), "seed must be a whole number"),
        ("Hi.", "anna", ("2147483648", 0.7, 0.8, 30, 0, 1, "", "fake"), "from 0 to 2147483647"),
        ("Hi.", "anna", ("", "much", 0.8, 30, 0, 1, "", "fake"), "out of step"),
        ("Hi.", "anna", ("", 0.7, 0.8, float("inf"), 0, 1, "", "fake"), "out of step"),
        ("x" * 500_001, "anna", SETTINGS, "more than 500,000 characters"),
        ("Hi.", "anna", ("", 9, 0.8, 30, 0, 1, "", "fake"), "temperature is 9"),
        ("Hi.", "anna", ("", float("nan"), 0.8, 30, 0, 1, "", "fake"), "temperature"),
        ("Hi.", "anna", ("", 0.7, 0.8, 30, 0, 2.1, "", "fake"), "out of step"),
        ("Hi.", "anna", ("", 0.7, 0.8, 30, 0, float("nan"), "", "fake"), "out of step"),
    ],
)
def test_invalid_requests_are_rejected(
    speaking: SpeakHandlers, anna: str, text: Any, picked: Any, settings: Any, says: str
) -> None:
    sent = list(messages(speaking, text, anna if picked == "anna" else picked, settings=settings))
    assert says in sent[-1]["status"]
    assert sent[-1]["problem"]
    assert sent[-1]["wav"] is None


def test_voice_of_another_owner_is_unknown(speaking: SpeakHandlers, library: VoiceLibrary) -> None:
    foreign = library.add(voice("Secret"), owner="somebody").id
    end = list(messages(speaking, "Hi.", foreign))[-1]
    assert end["problem"]
    assert "Secret" not in end["status"]


@pytest.mark.parametrize(
    ("failure", "says", "speed"),
    [(EngineFailed("The model failed."), "The model failed.", 1), (KeyError("x"), str(OUR_FAULT), 1.25)],
)
def test_error_during_speech_keeps_the_spoken_part(
    speaking: SpeakHandlers,
    context: WebContext,
    engine: FakeEngine,
    anna: str,
    failure: Exception,
    says: str,
    speed: float,
) -> None:
    engine.script.fail_after, engine.script.failure = 2, failure
    sent = list(messages(speaking, "Long text " * 20, anna, settings=("", 0.7, 0.8, 30, 0, speed, "", "fake")))
    end = sent[-1]
    assert end["status"].startswith(says)
    assert "What was spoken is kept" in end["status"]
    assert end["problem"]
    assert end["stop_reason"] is None
    assert end["total"] == len(received(sent)) == round(2 * CHUNK * FRAME / speed)
    np.testing.assert_array_equal(stored_samples(context, end), received(sent))
    assert context.takes.get(end["take"], owner=LOCAL).stop_reason == "error"
    assert engine.speeches[0].closed


def test_text_without_words_is_named_as_the_reason(speaking: SpeakHandlers, engine: FakeEngine, anna: str) -> None:
    engine.script.fail_after, engine.script.failure = 0, InvalidText("text.no_words")
    end = list(messages(speaking, "…", anna))[-1]
    assert (end["unspeakable"], end["problem"], end["total"]) == (True, True, 0)
    engine.script.failure = EngineFailed("The model failed.")
    assert "unspeakable" not in list(messages(speaking, "…", anna))[-1]


def test_take_that_cannot_be_kept_is_offered_for_download(
    speaking: SpeakHandlers, context: WebContext, anna: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(*_take: Any, **_to: Any) -> None:
        raise LibraryError("Too large.")

    monkeypatch.setattr(context.takes, "save", save)
    sent = list(messages(speaking, "Hello there.", anna))
    end = sent[-1]
    assert end["status"].endswith("The server could not keep this take: download it now.")
    assert (end["take"], end["wav"]["url"], end["problem"]) == (None, None, False)
    assert end["total"] == len(received(sent))


def test_chosen_language_is_spoken_stored_and_reused(
    speaking: SpeakHandlers, engine: FakeEngine, storage: Storage, anna: str
) -> None:
    """It also selects the dictionary, regardless of the voice's language."""
    storage.pronunciations.put([Pronunciation("Gift", "poison", language="de")])
    end = list(messages(speaking, "A Gift.", anna, settings=("", 0.9, 0.5, 7, 0, 1, "de", "fake")))[-1]
    (record,) = storage.history.page().records
    assert record.settings["language"] == "de"
    repeat_take(speaking, end["take"], same=True)
    assert [(text, options.language) for text, _, options in engine.asked] == [("A poison.", "de")] * 2


def test_settings_of_another_model_are_ignored(speaking: SpeakHandlers, engine: FakeEngine, anna: str) -> None:
    """The page was opened before the model was changed."""
    list(messages(speaking, "Hello.", anna, settings=("42", 0.3, 0.4, 5, 0, 1, "de", "another")))
    options = engine.asked[0][2]
    defaults = engine.default_options
    expected = (42, defaults.temperature, defaults.top_p, defaults.top_k, "")
    assert (options.seed, options.temperature, options.top_p, options.top_k, options.language) == expected


def test_settings_follow_the_loaded_model(context: WebContext, engine: FakeEngine) -> None:
    events, asked = SettingsHandlers(context), SimpleNamespace(headers={"accept-language": "de"})
    defaults = engine.default_options
    *sampling, language, model = events.follow_model("", "fake", asked)  # type: ignore[arg-type]
    assert (sampling, model, language.visible) == ([gr.skip()] * 3, "fake", False)
    engine.capabilities = replace(engine.capabilities, languages=("english", "german", "klingon"))
    *sampling, language, model = events.follow_model("de", "another", asked)  # type: ignore[arg-type]
    assert (sampling, model) == ([defaults.temperature, defaults.top_p, defaults.top_k], "fake")
    assert (language.value, language.visible) == ("de", True)
    assert language.choices == [("Automatisch", ""), ("Deutsch", "de"), ("English", "en")]
    assert events.follow_model("ja", "fake", asked)[3].value == "", "the model does not support it"  # type: ignore[arg-type]
    seed, *rest = events.defaults(asked)  # type: ignore[arg-type]
    assert (seed, rest[-1], len(rest) + 1) == ("", "fake", len(NAMES))


def test_history_records_everything_a_repeat_needs(speaking: SpeakHandlers, storage: Storage, anna: str) -> None:
    end = list(messages(speaking, "Hello there.", anna, settings=("", 0.9, 0.5, 7, 0, 1, "", "fake")))[-1]
    (record,) = storage.history.page().records
    assert record.id == end["take"]
    assert (record.text, record.voice_id, record.voice_name) == ("Hello there.", anna, "Anna")
    assert (record.seed, record.model, record.stop_reason) == (7, "fake", "end")
    assert dict(record.settings) == {"temperature": 0.9, "top_p": 0.5, "top_k": 7}
    assert record.real_time_factor is not None
    assert record.first_audio is not None


def test_take_without_history_is_kept_for_its_page(
    speaking: SpeakHandlers, context: WebContext, storage: Storage, anna: str
) -> None:
    storage.history.change_settings(history=False)
    sent = list(messages(speaking, "Hello there.", anna))
    np.testing.assert_array_equal(stored_samples(context, sent[-1]), received(sent))
    assert storage.history.page().total == 0


def test_links_to_a_sound_are_renewed(speaking: SpeakHandlers) -> None:
    def renewed(sound: Any) -> Any:
        return speaking.renew_links(None, None, gr.EventData(None, {"id": sound}))  # type: ignore[arg-type]

    for sound in ("a" * 32, "a" * 32 + "@125"):
        answer = renewed(sound)
        assert answer["id"] == sound
        assert set(answer["links"]) == {"wav", "flac", "mp3", "opus"}
    for unexpected in (None, "a" * 31, "a" * 32 + "@", "a" * 32 + "@1.25", "a" * 32 + ".wav"):
        assert renewed(unexpected) == gr.skip()


def test_repeat_with_the_same_and_a_new_seed(speaking: SpeakHandlers, engine: FakeEngine, anna: str) -> None:
    end = list(messages(speaking, "Hello there.", anna, settings=("42", 0.9, 0.5, 9, 0, 1, "", "fake")))[-1]
    assert repeat_take(speaking, end["take"], same=True)[-1]["stop_reason"] == "end"
    assert repeat_take(speaking, end["take"], same=False)[-1]["stop_reason"] == "end"
    (text, _, first), (same_text, _, same), (_, _, another) = engine.asked
    assert (same_text, same) == (text, first)
    assert (another.seed, another.temperature, another.top_k) == (None, 0.9, 9)


def test_failed_repeats_are_reported(
    speaking: SpeakHandlers, context: WebContext, library: VoiceLibrary, anna: str
) -> None:
    end = list(messages(speaking, "Hello there.", anna))[-1]
    library.delete(anna)
    gone = repeat_take(speaking, end["take"], same=True)[-1]
    assert "no such voice" in gone["status"]
    assert gone["problem"]
    context.takes.delete(end["take"], owner=LOCAL)
    assert "no such take" in repeat_take(speaking, end["take"], same=True)[-1]["status"]
    assert repeat_take(speaking, "../../etc", same=True)[-1]["problem"]


def test_empty_seed_is_random_and_zero_is_zero() -> None:
    assert parse_options(None, 0.7, 0.8, 30, TEXTS).seed is None
    assert parse_options(" ", 0.7, 0.8, 30, TEXTS).seed is None
    assert parse_options("0", 0.7, 0.8, 30, TEXTS).seed == 0
    assert parse_options(0, 0.7, 0.8, 30, TEXTS).seed == 0
    with pytest.raises(InvalidOption):
        parse_options("1.5", 0.7, 0.8, 30, TEXTS)


@pytest.mark.parametrize("registered", [True, False])
def test_stop_before_attach_cancels_the_speech(registered: bool) -> None:
    class Speech:
        cancelled = threading.Event()

        def cancel(self) -> None:
            self.cancelled.set()

    running, speech = RunningTakes(), Speech()
    if not registered:  # the stop has overtaken the request
        running.stop("t")
    with running.register("t") as take:
        if registered:
            running.stop("t")
        running.attach("t", speech)  # type: ignore[arg-type]
    assert (speech.cancelled.is_set(), take.stopped) == (True, "cancelled")
    running.stop("other")
    running.stop("t", "disconnected")  # stopping a finished take does nothing
    with running.register("t") as again:
        assert again.stopped is None
