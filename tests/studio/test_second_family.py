"""Switching to a model of another family keeps the library and lists the model's built-in voices."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from engine import Engine
from engine.errors import InvalidInput, InvalidOption
from engine.messages import UserMessage
from engine.options import LoadOptions
from engine.request import turns
from engine.serving.device import choose_device
from engine.text import frame_budget
from storage import Storage
from storage.errors import VoiceNotFound, VoiceProtected
from storage.validation import LOCAL
from studio.access import Access, Caller
from studio.context import AppContext
from studio.engines.model_manager import ModelManager
from studio.engines.model_switch import ModelCatalog
from studio.script import Card
from studio.speech_service import RequestedOptions, SpeechService, VoiceChoice
from tests.engine.families.qwen3_tts.conftest import as_kind
from tests.paths import CLIP, MINIATURE, QWEN
from tests.support.waiting import until

TEXT = "The fox says yes."


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppContext]:
    monkeypatch.setattr(turns, "frame_budget", lambda text, rate: min(6, frame_budget(text, rate)))
    others = {kind: as_kind(tmp_path / kind, kind) for kind in ("custom_voice", "voice_design")}
    folders = {"s2": MINIATURE, "base": QWEN, **others}

    def load(model: str, _report: object) -> Engine:
        return Engine(model, folders[model], choose_device("cpu"), LoadOptions(slots=1, graphs="off"))

    catalog = ModelCatalog({name: UserMessage("") for name in folders}, lambda *_: None, load)
    storage = Storage.open(tmp_path / "library.db")
    manager = ModelManager(load("s2", None), catalog)
    yield AppContext.create(manager, storage)
    manager.close()
    storage.close()


def test_library_is_kept_own_voices_are_listed_and_deleted_ones_leave_the_cache(app: AppContext) -> None:
    service, caller = SpeechService(app, Access(app.storage.keys)), Caller()

    def spoken(by: VoiceChoice, **options: str) -> int:
        speech = service.speak(caller, TEXT, by, RequestedOptions(seed=1, **options))  # type: ignore[arg-type]
        return sum(len(chunk.samples) for chunk in speech)

    app.storage.voices.add(app.engine.encode_voice("Anna", [(CLIP, "The words of the clip.")]).voice)
    first = app.engine.info.codec_fingerprint
    assert spoken(VoiceChoice("Anna"))
    app.engine.switch("base")
    assert app.engine.info.codec_fingerprint != first
    assert app.engine.info.notice.key == "model.notice_qwen"
    assert spoken(VoiceChoice("Anna"), language="de")
    with pytest.raises(InvalidOption, match="does not speak Klingon"):
        spoken(VoiceChoice("Anna"), language="Klingon")
    ben = app.storage.voices.add(app.engine.encode_voice("Ben", [(CLIP, "The words of the clip.")]).voice)
    before = app.engine.status().prefix_cache_bytes
    assert spoken(VoiceChoice("Ben"))
    assert app.engine.status().prefix_cache_bytes > before
    app.trash_voice(ben.id, owner=LOCAL)
    until(lambda: app.engine.status().prefix_cache_bytes == before)  # this model embeds clips
    app.engine.switch("custom_voice")
    assert app.engine.info.capabilities.speakers == ("vivian", "dylan", "ryan")
    assert spoken(VoiceChoice("Ryan"), instructions="Calmly.")
    listed = app.voices.list(owner=LOCAL)
    assert [voice.name for voice in listed] == ["Vivian", "Dylan", "Ryan", "Anna"]
    ryan = listed[2]
    assert app.voices.find("rYAN", owner=LOCAL) == app.voices.get(ryan.id, owner=LOCAL) == ryan
    assert service.find_voice(caller, "ash").name == "Dylan"  # OpenAI's second name is the second speaker
    assert spoken(VoiceChoice("alloy"))
    with pytest.raises(VoiceProtected, match="of the model itself"):
        service.delete_voice(caller, "Ryan")
    script = app.storage.scripts.create("A script", [Card(TEXT)], voice_id=ryan.id)
    app.storage.scripts.queue(script.id)
    over = Event()
    app.script_runner.start(LOCAL, script.id, over.set)
    assert over.wait(60)
    (card,) = app.storage.scripts.cards(script.id)
    assert (card.state, app.storage.history.get(str(card.take_id)).voice_name) == ("spoken", "Ryan")
    with pytest.raises(InvalidInput, match="does not clone"):
        spoken(VoiceChoice("Anna"))
    with pytest.raises(VoiceNotFound):
        spoken(VoiceChoice("Eve"))
    app.engine.switch("voice_design")
    assert spoken(VoiceChoice(), instructions="A low voice.")
    assert spoken(VoiceChoice("nova"), instructions="A low voice.")
    with pytest.raises(InvalidInput, match="described in words"):
        spoken(VoiceChoice("Anna"))
    sample = app.engine.encode_voice("Eve", [(CLIP, "The words of the clip.")], description="A high voice.").voice
    app.storage.voices.add(sample)
    assert spoken(VoiceChoice("Eve"))
    app.engine.switch("base")
    assert spoken(VoiceChoice("Eve"))  # from its sample
    app.engine.switch("s2")
    with pytest.raises(VoiceNotFound, match="another model"):
        app.voices.ready(ryan.id, owner=LOCAL)
    assert [voice.name for voice in app.storage.voices.list()] == ["Anna", "Eve"]
    assert spoken(VoiceChoice("Anna"))
