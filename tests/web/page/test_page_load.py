"""Who opens the page, and what they find."""

from typing import Any

import gradio as gr
import pytest

from engine.sentences import Sentence
from storage import Storage, VoiceLibrary, VoiceRecord
from storage.repositories.library.shared_voices import Sample
from tests.storage.speaking import spoken
from tests.support.fake_engine import FakeEngine, voice
from tests.web.conftest import make_context
from web.context import WebContext
from web.page_load import PageLoadHandlers
from web.tabs.speak.settings import SettingsHandlers
from web.tabs.status.views import status_view

NOBODY: Any = None


@pytest.fixture
def events(context: WebContext) -> PageLoadHandlers:
    return PageLoadHandlers(context)


@pytest.fixture
def samples(library: VoiceLibrary) -> list[VoiceRecord]:
    library.share([Sample(voice(name), f"I am {name}.") for name in ("Ada", "Ben")])
    return library.list()


def names(picker: gr.Dropdown) -> list[str]:
    return [label for label, _ in picker.choices]


def test_a_newcomer_can_speak_at_once(
    events: PageLoadHandlers, library: VoiceLibrary, storage: Storage, samples: list[VoiceRecord]
) -> None:
    ada, ben = samples
    _, _, welcome, said, picker, bell = events.load_page(None, None, NOBODY)
    assert names(picker) == ["Ada (sample)", "Ben (sample)"]
    assert (picker.value, welcome["visible"], said) == (ada.id, True, "")
    assert set(bell["what"].split()) >= {"voices", "history"}, "the tabs are to show what there is"
    assert events.load_page(None, ben.id, NOBODY)[4].value == ben.id
    storage.history.add(spoken())
    assert not events.load_page(None, None, NOBODY)[2]["visible"], "who has heard one needs no telling"
    mine = library.add(voice("Zoe"))
    _, _, welcome, _, picker, _ = events.load_page(None, None, NOBODY)
    assert (picker.value, welcome["visible"]) == (mine.id, False)
    assert names(picker) == ["Zoe", "Ada (sample)", "Ben (sample)"]


def test_the_picker_keeps_the_choice_and_forgets_what_is_gone(events: PageLoadHandlers, library: VoiceLibrary) -> None:
    assert events.load_page(None, None, NOBODY)[4].value is None
    ben, anna = library.add(voice("Ben")), library.add(voice("Anna"))
    picker = events.load_page(None, ben.id, NOBODY)[4]
    assert (names(picker), picker.value) == (["Anna", "Ben"], ben.id)
    for gone in ("deleted-long-ago", 7, ["a"], {}):
        assert events.load_page(None, gone, NOBODY)[4].value == anna.id


def test_who_comes_back_finds_what_is_there_now(events: PageLoadHandlers, library: VoiceLibrary) -> None:
    ben, anna = library.add(voice("Ben")), library.add(voice("Anna"))
    library.rename(ben.id, "Zoe")
    heading, welcome, picker = events.refresh_page(ben.id, None, NOBODY)
    assert (names(picker), welcome["visible"]) == (["Anna", "Zoe"], False)
    assert "value" not in picker.constructor_args, "another may have been picked since"
    assert "<strong>fake</strong>" in heading
    library.delete(ben.id)
    picker = events.refresh_page(ben.id, None, NOBODY)[2]
    assert (names(picker), picker.constructor_args["value"]) == (["Anna"], anna.id)


def test_the_folder_of_a_model_is_not_told(context: WebContext, engine: FakeEngine) -> None:
    """Visitors need not know where things lie on the server."""
    engine.name = "/srv/models/my-model"
    heading = PageLoadHandlers(context).load_page(None, None, NOBODY)[0]
    assert "<strong>my-model</strong>" in heading
    assert "/srv" not in heading
    assert SettingsHandlers(context).follow_model("", "", NOBODY)[-1] == "my-model"
    assert status_view(context, "", context.words(None))["name"] == "my-model"


def test_the_heading_names_the_model_of_the_moment(
    context: WebContext, events: PageLoadHandlers, engine: FakeEngine
) -> None:
    engine.notice = Sentence("Cannot <sing>.")
    heading = events.load_page(None, None, NOBODY)[0]
    assert "<strong>fake</strong> on cpu" in heading
    assert "Cannot &lt;sing&gt;." in heading
    engine.name, engine.notice = "<other>", Sentence("")
    heading = events.refresh_page(None, None, NOBODY)[0]
    assert "&lt;other&gt;" in heading
    assert "rp-model-notice" not in heading


def test_a_browser_gets_a_key_once_and_another_for_a_forged_one(
    engine: FakeEngine, storage: Storage, context: WebContext
) -> None:
    events = PageLoadHandlers(make_context(engine, storage, context.folder, "browser"))
    _, token, _, said, _, _ = events.load_page(None, None, NOBODY)
    assert isinstance(token, str)
    assert said == ""
    assert events.load_page(token, None, NOBODY)[1] == token
    _, other, _, said, _, _ = events.load_page(token[:-1] + "?", None, NOBODY)
    assert other not in (token, None)
    assert "not from this server" in said
    assert events.refresh_page(None, "forged", NOBODY) == (gr.skip(),) * 3


def test_voices_of_others_are_out_of_reach(events: PageLoadHandlers, library: VoiceLibrary) -> None:
    secret = library.add(voice("Secret"), owner="somebody")
    picker = events.load_page(None, secret.id, NOBODY)[4]
    assert (names(picker), picker.value) == ([], None)
