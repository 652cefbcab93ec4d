import base64
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from engine.errors import UnusableReference
from engine.voice import Voice
from storage import VoiceLibrary
from tests.web.fake_engine import FakeEngine, buzz, reference, voice
from web.voices import CONSENT, VoiceEvents

FORM = {"transcript": "Hello there.", "name": "Anna", "speaker": "", "agreed": True}


@pytest.fixture
def uploads(tmp_path: Path) -> Path:
    folder = tmp_path / "uploads"
    folder.mkdir()
    return folder


@pytest.fixture
def events(library: VoiceLibrary, uploads: Path) -> VoiceEvents:
    engine = FakeEngine(prepare=lambda _clip, transcript: reference(transcript, buzz(0, 30_000, 120)))
    return VoiceEvents(engine, library, uploads)  # type: ignore[arg-type]


@pytest.fixture
def clip(uploads: Path) -> dict[str, str]:
    path = uploads / "clip.wav"
    path.write_bytes(b"stands for a clip")
    return {"path": str(path), "name": "clip.wav"}


def save(events: VoiceEvents, clip: Any, **changes: Any) -> tuple[Any, ...]:
    form = {**FORM, **changes}
    steps = list(events.save(clip, *form.values(), None, None))  # type: ignore[arg-type]
    assert len({len(step) for step in steps}) == 1, "every step fills the same outputs"
    return steps[-1]


def choices(picker: gr.Dropdown) -> list[str]:
    return [label for label, _ in picker.choices]


def test_a_saved_voice_is_picked_and_its_upload_is_gone(
    events: VoiceEvents, library: VoiceLibrary, clip: dict[str, str]
) -> None:
    picker, welcome, manage, trouble, said, form, *emptied = save(events, clip)
    record = library.find("Anna")
    assert picker.value == record.id
    assert choices(picker) == ["Anna"]
    assert (welcome.visible, manage.visible, trouble, form.open) == (False, True, "", False)
    assert "Saved “Anna”. A note about the clip." in said
    assert emptied == [None, "", "", "", False]
    assert not Path(clip["path"]).exists()
    assert record.consent is not None
    assert (record.consent.who, record.consent.sentence) == ("Anna", CONSENT)


def test_the_speaker_who_agreed_may_have_another_name(
    events: VoiceEvents, library: VoiceLibrary, clip: dict[str, str]
) -> None:
    save(events, clip, speaker=" Grandma ")
    consent = library.find("Anna").consent
    assert consent is not None
    assert consent.who == "Grandma"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"agreed": False}, "agreed"),
        ({"name": "  "}, "needs a name"),
        ({"name": "x" * 81}, "80 characters"),
    ],
)
def test_a_form_that_is_not_right_is_refused_and_kept(
    events: VoiceEvents, library: VoiceLibrary, clip: dict[str, str], changes: dict[str, Any], says: str
) -> None:
    *_, trouble, said, _form, words, _, _, _, _ = save(events, clip, **changes)
    assert says in trouble
    assert 'role="alert"' in trouble
    assert said == ""
    assert words == gr.skip(), "what was typed stays"
    assert library.list() == []
    assert Path(clip["path"]).exists()


def test_no_clip_and_clips_that_were_not_uploaded_are_refused(
    events: VoiceEvents, library: VoiceLibrary, tmp_path: Path, uploads: Path
) -> None:
    secret = tmp_path / "secret.wav"
    secret.write_bytes(b"not yours")
    (uploads / "link.wav").symlink_to(secret)
    assert "Record a clip or choose a file" in save(events, None)[3]
    for path in (secret, uploads / ".." / "secret.wav", uploads / "link.wav", uploads / "gone.wav", uploads):
        assert "no longer on the server" in save(events, {"path": str(path)})[3]
    for value in ("text", {"path": 3}, {"path": "a\0b"}, [1]):
        assert "not a file that was uploaded" in save(events, value)[3]
    assert secret.exists()
    assert library.list() == []


def test_what_the_engine_refuses_is_said(events: VoiceEvents, clip: dict[str, str]) -> None:
    def refuse(_clip: Any, _transcript: str) -> Any:
        raise UnusableReference("There is no speech in this clip.")

    events._engine._prepare = refuse  # type: ignore[attr-defined]
    assert "There is no speech in this clip." in save(events, clip)[3]


def test_the_shelf_keeps_the_choice_and_forgets_what_is_gone(events: VoiceEvents, library: VoiceLibrary) -> None:
    assert events.arrive(None, None)[0].value is None  # type: ignore[arg-type]
    ben, anna = library.add(voice("Ben")), library.add(voice("Anna"))
    picker, welcome, _manage, form = events.arrive(ben.id, None)  # type: ignore[arg-type]
    assert choices(picker) == ["Anna", "Ben"]
    assert (picker.value, welcome.visible, form.open) == (ben.id, False, False)
    assert events.shelf("deleted-long-ago", None)[0].value == anna.id  # type: ignore[arg-type]


def test_renaming_keeps_the_voice_picked(events: VoiceEvents, library: VoiceLibrary) -> None:
    ben = library.add(voice("Ben"))
    library.add(voice("Anna"))
    picker, _, _, said = events.rename(ben.id, "Zoe", None)  # type: ignore[arg-type]
    assert (picker.value, choices(picker)) == (ben.id, ["Anna", "Zoe"])
    assert "“Zoe”" in said
    picker, _, _, said = events.rename(ben.id, "anna", None)  # type: ignore[arg-type]
    assert 'role="alert"' in said
    assert choices(picker) == ["Anna", "Zoe"]


def test_deleting_asks_and_then_picks_another(events: VoiceEvents, library: VoiceLibrary) -> None:
    ben, anna = library.add(voice("<Ben>")), library.add(voice("Anna"))
    question, asked = events.ask(ben.id, None)  # type: ignore[arg-type]
    assert question.visible
    assert "“&lt;Ben&gt;”" in asked
    assert len(library.list()) == 2, "asking deletes nothing"
    picker, welcome, _, said, question = events.delete(ben.id, None)  # type: ignore[arg-type]
    assert (picker.value, welcome.visible, question.visible) == (anna.id, False, False)
    assert "deleted" in said
    _, welcome, manage, _, _ = events.delete(anna.id, None)  # type: ignore[arg-type]
    assert (welcome.visible, manage.visible) == (True, False)
    assert 'role="alert"' in events.delete(anna.id, None)[3]  # type: ignore[arg-type]


def test_a_voice_goes_out_and_comes_back(events: VoiceEvents, library: VoiceLibrary, uploads: Path) -> None:
    ben = library.add(voice("Ben"))
    parcel, _ = events.export(ben.id, None)  # type: ignore[arg-type]
    assert parcel["name"] == "Ben.voice"
    data = base64.b64decode(parcel["data"])
    assert Voice.from_bytes(data).name == "Ben"
    assert list(uploads.iterdir()) == [], "nothing of the library lies where files are served from"
    library.delete(ben.id)
    upload = uploads / "Ben.voice"
    upload.write_bytes(data)
    picker, _, _, said = events.take_in({"path": str(upload)}, None, None)  # type: ignore[arg-type]
    assert picker.value == library.find("Ben").id
    assert "Imported “Ben”" in said
    assert not upload.exists()
    upload.write_bytes(data[:-1])
    assert "damaged" in events.take_in({"path": str(upload)}, None, None)[3]  # type: ignore[arg-type]


def test_voices_of_others_are_out_of_reach(events: VoiceEvents, library: VoiceLibrary) -> None:
    secret = library.add(voice("Secret"), owner="somebody")
    assert choices(events.shelf(secret.id, None)[0]) == []  # type: ignore[arg-type]
    assert events.look(secret.id, None)[:2] == ("", "")  # type: ignore[arg-type]
    assert events.export(secret.id, None)[0] is None  # type: ignore[arg-type]
    events.delete(secret.id, None)  # type: ignore[arg-type]
    events.rename(secret.id, "Mine", None)  # type: ignore[arg-type]
    assert [v.name for v in library.list(owner="somebody")] == ["Secret"]


def test_facts_are_text_whatever_they_hold(events: VoiceEvents, library: VoiceLibrary, clip: dict[str, str]) -> None:
    save(events, clip, speaker="<script>")
    name, facts, question = events.look(library.find("Anna").id, None)  # type: ignore[arg-type]
    assert name == "Anna"
    assert "agreed by &lt;script&gt; on " in facts
    assert not question.visible
