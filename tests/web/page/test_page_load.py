"""Handlers that load and refresh the page."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from engine.messages import UserMessage
from storage import Storage, VoiceLibrary, VoiceRecord
from tests.storage.speaking import spoken
from tests.support.fake_engine import FakeEngine, voice
from tests.web.conftest import make_context
from web.context import WebContext
from web.page_load import PageLoadHandlers
from web.tabs.speak.settings import SettingsHandlers
from web.tabs.status.views import status_view

NO_REQUEST: Any = None


@pytest.fixture
def events(context: WebContext) -> PageLoadHandlers:
    return PageLoadHandlers(context)


def names(picker: gr.Dropdown) -> list[Any]:
    return [label for label, _ in picker.choices]


def test_new_visitor_gets_samples_and_a_welcome(
    events: PageLoadHandlers, library: VoiceLibrary, storage: Storage, samples: list[VoiceRecord]
) -> None:
    ada, ben = samples
    _, _, welcome, message, picker, broadcast = events.load_page(None, None, NO_REQUEST)
    assert names(picker) == ["Ada (sample)", "Ben (sample)"]
    assert (picker.value, welcome["made"], message) == (ada.id, False, "")
    assert set(broadcast["what"].split()) >= {"voices", "history"}, "all tabs are refreshed"
    assert events.load_page(None, ben.id, NO_REQUEST)[4].value == ben.id
    storage.history.add(spoken())
    assert events.load_page(None, None, NO_REQUEST)[2]["made"], "the welcome is hidden after the first take"
    mine = library.add(voice("Zoe"))
    _, _, welcome, _, picker, _ = events.load_page(None, None, NO_REQUEST)
    assert (picker.value, welcome["made"]) == (mine.id, True)
    assert names(picker) == ["Zoe", "Ada (sample)", "Ben (sample)"]


def test_picker_keeps_the_choice_until_the_voice_is_gone(events: PageLoadHandlers, library: VoiceLibrary) -> None:
    assert events.load_page(None, None, NO_REQUEST)[4].value is None
    ben, anna = library.add(voice("Ben")), library.add(voice("Anna"))
    picker = events.load_page(None, ben.id, NO_REQUEST)[4]
    assert (names(picker), picker.value) == (["Anna", "Ben"], ben.id)
    for gone in ("deleted-long-ago", 7, ["a"], {}):
        assert events.load_page(None, gone, NO_REQUEST)[4].value == anna.id


def test_refresh_updates_heading_welcome_and_picker(events: PageLoadHandlers, library: VoiceLibrary) -> None:
    ben, anna = library.add(voice("Ben")), library.add(voice("Anna"))
    library.rename(ben.id, "Zoe")
    heading, welcome, picker, message = events.refresh_page(ben.id, None, NO_REQUEST)
    assert (names(picker), welcome["made"]) == (["Anna", "Zoe"], True)
    assert "value" not in picker.constructor_args, "the user may have picked another voice since"
    assert message == gr.skip()
    assert "<strong>fake</strong>" in heading
    library.delete(ben.id)
    _, _, picker, message = events.refresh_page(ben.id, None, NO_REQUEST)
    assert (names(picker), picker.constructor_args["value"]) == (["Anna"], anna.id)
    assert "no longer there. The voice is now “Anna”." in message
    library.delete(anna.id)
    assert events.refresh_page(anna.id, None, NO_REQUEST)[3] == gr.skip()


def test_model_folder_is_hidden(context: WebContext, engine: FakeEngine) -> None:
    """The page shows no paths of the server."""
    engine.name = "/srv/models/my-model"
    heading = PageLoadHandlers(context).load_page(None, None, NO_REQUEST)[0]
    assert "<strong>my-model</strong>" in heading
    assert "/srv" not in heading
    assert SettingsHandlers(context).follow_model("", "", NO_REQUEST)[-1] == "my-model"
    assert status_view(context, "", context.texts(None))["name"] == "my-model"


def test_heading_names_the_current_model(context: WebContext, events: PageLoadHandlers, engine: FakeEngine) -> None:
    engine.notice = UserMessage("Cannot <sing>.")
    heading = events.load_page(None, None, NO_REQUEST)[0]
    assert "<strong>fake</strong> on cpu" in heading
    assert "Cannot &lt;sing&gt;." in heading
    engine.name, engine.notice = "<other>", UserMessage("")
    heading = events.refresh_page(None, None, NO_REQUEST)[0]
    assert "&lt;other&gt;" in heading
    assert "rp-model-notice" not in heading


def test_browser_gets_one_key_and_a_new_one_for_a_forged_key(
    engine: FakeEngine, storage: Storage, context: WebContext
) -> None:
    events = PageLoadHandlers(make_context(engine, storage, context.folder, "browser"))
    _, token, _, message, _, _ = events.load_page(None, None, NO_REQUEST)
    assert isinstance(token, str)
    assert message == ""
    assert events.load_page(token, None, NO_REQUEST)[1] == token
    _, other, _, message, _, _ = events.load_page(token[:-1] + "?", None, NO_REQUEST)
    assert other not in (token, None)
    assert "not from this server" in message
    assert events.refresh_page(None, "forged", NO_REQUEST) == (gr.skip(),) * 4


def test_voices_of_other_owners_are_unreachable(events: PageLoadHandlers, library: VoiceLibrary) -> None:
    secret = library.add(voice("Secret"), owner="somebody")
    picker = events.load_page(None, secret.id, NO_REQUEST)[4]
    assert (names(picker), picker.value) == ([], None)


def test_heading_tells_who_is_logged_in(engine: FakeEngine, storage: Storage, tmp_path: Path) -> None:
    events = PageLoadHandlers(make_context(engine, storage, tmp_path, way="user"))
    request: Any = SimpleNamespace(headers={}, username="<anna>", request=None, client=None)
    heading = events.load_page(None, None, request)[0]
    assert "Logged in as &lt;anna&gt;" in heading
    assert '<a href="logout?all_session=false">Log out</a>' in heading
    request.username = None
    heading, _, _, message, *_ = events.load_page(None, None, request)
    assert "Log out" not in heading
    assert "no longer logged in" in message
