"""Handlers of the take list and the voice card, without a page."""

from dataclasses import replace
from typing import Any

import gradio as gr
import pytest

from engine.audio import encode_audio
from storage import Storage, VoiceLibrary
from storage.repositories.takes import NewTake
from storage.voices.sample_voices import install_samples
from tests.support.fake_engine import SAMPLE_RATE, FakeEngine, buzz, voice
from tests.web.conftest import make_context
from web.context import WebContext
from web.tabs.speak.handlers import SpeakHandlers
from web.tabs.speak.take_list import TakeListHandlers
from web.tabs.speak.views import TEXT_SHOWN
from web.ui.payloads import MAX_IDS as MAX_TAKES

SOUND = encode_audio(buzz(0, SAMPLE_RATE, 120), SAMPLE_RATE, "flac")


@pytest.fixture
def context(engine: FakeEngine, storage: Storage, tmp_path: Any) -> WebContext:
    return make_context(engine, storage, tmp_path, "browser")


@pytest.fixture
def anna(context: WebContext) -> Any:
    return context.owners.resolve_or_issue(None, None)


@pytest.fixture
def ben(context: WebContext) -> Any:
    return context.owners.resolve_or_issue(None, None)


def add_take(context: WebContext, visitor: Any, text: str = "Hello there.") -> str:
    spoken = NewTake(text, SOUND, 1.0, 7, "Anna", first_audio=0.2, real_time_factor=0.5)
    kept = context.takes.save(
        spoken, owner=visitor.owner.key, deletion_token=context.takes.deletion_token(owner=visitor.owner.key)
    )
    assert kept is not None
    return kept.id


def event(**data: Any) -> Any:
    return gr.EventData(None, data)


def test_list_describes_takes_and_names_missing_ones(context: WebContext, anna: Any) -> None:
    ids = [add_take(context, anna), add_take(context, anna, "x" * 1000)]
    answer = TakeListHandlers(context).list_takes(anna.token, None, event(ids=[*ids, "f" * 32, 7, None]))  # type: ignore[arg-type]
    assert [take["id"] for take in answer["takes"]] == ids
    assert answer["gone"] == ["f" * 32]
    first, second = answer["takes"]
    assert (first["text"], first["voice"], first["seconds"], first["seed"]) == ("Hello there.", "Anna", 1.0, 7)
    assert (first["first"], first["starred"], first["listed"], first["reason"]) == (0.2, False, True, "end")
    assert first["factor"] == 0.5
    assert len(second["text"]) == TEXT_SHOWN
    assert set(first["links"]) == {"wav", "flac", "mp3", "opus"}


@pytest.mark.parametrize("ids", [None, "abc", {}, ["f" * 32] * 1000])
def test_invalid_ids_are_ignored(context: WebContext, anna: Any, ids: Any) -> None:
    answer = TakeListHandlers(context).list_takes(anna.token, None, event(ids=ids))  # type: ignore[arg-type]
    assert answer["takes"] == []
    assert len(answer["gone"]) <= MAX_TAKES


@pytest.mark.parametrize("history", [True, False])
def test_takes_of_other_owners_are_unreachable(
    context: WebContext, storage: Storage, anna: Any, ben: Any, history: bool
) -> None:
    storage.history.change_settings(history=history, owner=anna.owner.key)
    hers, events = add_take(context, anna), TakeListHandlers(context)
    his_list = events.list_takes(ben.token, None, event(ids=[hers]))  # type: ignore[arg-type]
    assert (his_list["takes"], his_list["gone"]) == ([], [hers])
    for act in (events.star_take, events.delete_take):
        shown, message, _ = act(ben.token, None, event(ids=[hers], id=hers, starred=True))  # type: ignore[arg-type]
        assert 'role="alert"' in message
    assert shown["refused"] == hers
    (take,) = events.list_takes(anna.token, None, event(ids=[hers]))["takes"]  # type: ignore[arg-type]
    assert (take["starred"], take["listed"]) == (False, history)
    assert "from this server" in events.star_take("forged", None, event(ids=[hers], id=hers, starred=True))[1]  # type: ignore[arg-type]


@pytest.mark.parametrize("history", [True, False])
def test_star_and_delete_update_the_history(context: WebContext, storage: Storage, anna: Any, history: bool) -> None:
    storage.history.change_settings(history=history, owner=anna.owner.key)
    take, events = add_take(context, anna), TakeListHandlers(context)
    answer, message, rung = events.star_take(anna.token, None, event(ids=[take], id=take, starred=True))  # type: ignore[arg-type]
    assert answer["takes"][0]["starred"]
    assert (message, rung["what"]) == ("", "history")
    assert storage.history.page(owner=anna.owner.key, starred=True).total == int(history)
    answer, message, _ = events.delete_take(anna.token, None, event(ids=[take], id=take))  # type: ignore[arg-type]
    assert (answer["takes"], answer["gone"], message) == ([], [take], "")
    assert storage.history.page(owner=anna.owner.key).total == 0


def test_voice_card_is_shown_to_its_owner_only(
    context: WebContext, library: VoiceLibrary, engine: FakeEngine, anna: Any, ben: Any
) -> None:
    hers = library.add(voice("Anna"), owner=anna.owner.key).id
    events = SpeakHandlers(context)
    card, hints = events.show_voice(hers, anna.token, None)  # type: ignore[arg-type]
    assert (card["id"], card["name"], card["language"]) == (hers, "Anna", "en")
    assert card["url"].startswith("/reprise/files/")
    assert hints == {"tags": engine.style_tags, "english": engine.capabilities.english_only, "demo": ""}
    install_samples(library)
    adam = library.list(owner=anna.owner.key)[1]
    assert events.show_voice(adam.id, anna.token, None)[1]["demo"] == adam.demo != ""  # type: ignore[arg-type]
    for picked in (hers, None, ["x"], 7):
        assert events.show_voice(picked, ben.token, None)[0] is None  # type: ignore[arg-type]


def test_a_picked_voice_is_prepared_if_the_model_clones(
    context: WebContext, library: VoiceLibrary, engine: FakeEngine, anna: Any, ben: Any
) -> None:
    hers = library.add(voice("Anna"), owner=anna.owner.key).id
    events = SpeakHandlers(context)
    engine.capabilities = replace(engine.capabilities, clones=False)
    events.show_voice(hers, anna.token, None)  # type: ignore[arg-type]
    assert engine.prepared == []
    engine.capabilities = replace(engine.capabilities, clones=True)
    for each in (ben, anna):
        events.show_voice(hers, each.token, None)  # type: ignore[arg-type]
    assert engine.prepared == ["Anna"]
