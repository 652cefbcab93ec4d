"""Handlers of the Library tab, without a page: answers, changes, and access by owner."""

import io
import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import gradio as gr
import pytest
from PIL import Image

from engine.voice import Consent
from storage import Storage, VoiceLibrary, VoiceRecord
from studio.pictures.portraits import portrait_id, portrait_url
from studio.voices.available_voices import BuiltInSpeaker
from tests.storage.speaking import spoken
from tests.support.fake_engine import FakeEngine, voice
from tests.web.conftest import make_context, store_upload
from web.context import WebContext
from web.identity.owners import Owner
from web.tabs.library.handlers import LibraryHandlers
from web.tabs.library.pictures import PictureHandlers
from web.tabs.library.views import library_view
from web.tabs.speak.rail import RailHandlers
from web.ui.voice_picker import select_voice

Act = Callable[..., Any]
NO_REQUEST: Any = None
CONSENT = Consent("Grandma <b>", datetime(2026, 11, 20, tzinfo=UTC), "Yes.")


@pytest.fixture
def events(context: WebContext) -> LibraryHandlers:
    return LibraryHandlers(context)


def press(event: Act, *selected: str, **data: Any) -> Any:
    """Call the handler with `data` as its event data. selected: the picker's value, where it is an input."""
    return event(gr.EventData(None, data), *selected, None, None)


def answer(event: Act, *selected: str, **data: Any) -> tuple[str, str]:
    """Return kind and text of the handler's answer."""
    listed, broadcast, *_ = press(event, *selected, **data)
    assert broadcast["what"] == "listed"
    return listed["answer"]["kind"], listed["answer"]["text"]


def names(library: VoiceLibrary, **which: str) -> list[str]:
    return [record.name for record in library.list(**which)]


def test_pictures_are_sent_for_the_voices_shown_only(
    events: LibraryHandlers, library: VoiceLibrary, storage: Storage, context: WebContext
) -> None:
    """Lists of voices contain no picture, however many there are."""
    ids = [library.add(voice(name)).id for name in ("Ada", "Ben", "Cleo")]
    dan = Owner("browser", "dan")
    other = library.add(voice("Dan"), owner=dan.key).id
    picture = b"RIFF1234WEBP" + bytes(60_000)
    for voice_id in ids[:2]:
        storage.portraits.put(voice_id, picture)
    storage.portraits.put(other, picture, owner=dan.key)
    rail = RailHandlers(context)
    for listed in (events.list_voices(None, NO_REQUEST), rail.list_voices(None, NO_REQUEST)):
        assert [each["picture"] for each in listed["voices"]] == [portrait_id(picture)] * 2 + [""]
        assert len(json.dumps(listed)) < len(picture)
    theirs = library_view(context, dan, context.texts(None))["voices"]
    assert [each["picture"] for each in theirs] == [portrait_id(picture)]
    asked = gr.EventData(None, {"ids": [ids[0], ids[2], other, "nonsense"]})
    sent = PictureHandlers(context).send_pictures(None, NO_REQUEST, asked)
    assert sent["pictures"] == {ids[0]: portrait_url(picture), ids[2]: "", other: ""}


def test_voice_picture_is_set_and_removed(
    events: LibraryHandlers, library: VoiceLibrary, storage: Storage, context: WebContext
) -> None:
    ada = library.add(voice("Ada")).id
    picture = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(picture, "PNG")
    upload = store_upload(context.folder, "me.png", picture.getvalue())
    assert answer(events.change_picture, id=ada, path=str(upload)) == ("good", "Ada has a new picture.")
    assert not upload.exists()
    shown = events.list_voices(None, NO_REQUEST)["voices"][0]["picture"]
    assert shown == portrait_id(storage.portraits.all()[ada])
    upload = store_upload(context.folder, "me.png", b"no picture")
    assert answer(events.change_picture, id=ada, path=str(upload))[0] == "bad"
    assert answer(events.change_picture, id=ada)[0] == "bad"
    assert storage.portraits.all()[ada]
    assert answer(events.change_picture, id=ada, remove=True) == ("good", "Ada no longer has a picture.")
    assert ada not in storage.portraits.all()


# --- the list


def test_list_has_all_details_of_a_voice(
    events: LibraryHandlers, library: VoiceLibrary, storage: Storage, samples: list[VoiceRecord]
) -> None:
    mine = library.add(
        replace(voice("Zoe", 2.0), description="<b>Low</b>", language="fr", tags=("warm",), consent=CONSENT)
    )
    storage.history.add(spoken(voice_id=mine.id, duration=3.5))
    listed = events.list_voices(None, NO_REQUEST)
    card = listed["voices"][0]
    assert [each["name"] for each in listed["voices"]] == ["Zoe", "Ada", "Ben"]
    assert {key: card[key] for key in ("id", "name", "shared", "language", "description", "tags", "who", "times")} == {
        "id": mine.id,
        "name": "Zoe",
        "shared": False,
        "language": "fr",
        "description": "<b>Low</b>",
        "tags": ["warm"],
        "who": "Grandma <b>",
        "times": 1,
    }
    assert (card["seconds"], card["spoken"]) == (pytest.approx(2.0, abs=0.1), 3.5)
    assert card["made"] == mine.created.isoformat()
    assert card["agreed"] == "2026-11-20T00:00:00+00:00"
    assert [listed["voices"][1][key] for key in ("shared", "times", "spoken")] == [True, 0, 0]
    used = storage.storage_use()
    assert listed["bytes"] == {"voices": used.voices, "takes": used.takes}
    assert used.voices > 0 < used.takes
    assert all(each[link].startswith("/reprise/files/") for each in listed["voices"] for link in ("clip", "file"))


@pytest.mark.parametrize("handlers", [LibraryHandlers, RailHandlers])
def test_lists_keep_their_order_when_the_clock_is_set_back(
    context: WebContext, handlers: Callable[[WebContext], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page drops lists that are older than its own."""
    times = []
    for clock in (2e9, 1e9, 0.0):
        monkeypatch.setattr(time, "time", lambda clock=clock: clock)
        times.append(handlers(context).list_voices(None, NO_REQUEST)["at"])
    assert times == sorted(times)


def test_samples_alone_offer_no_export(events: LibraryHandlers, samples: list[VoiceRecord]) -> None:
    assert events.list_voices(None, NO_REQUEST)["all"] == ""


def test_picker_keeps_a_renamed_voice_and_drops_a_deleted_one(
    context: WebContext, events: LibraryHandlers, library: VoiceLibrary
) -> None:
    ben, anna = library.add(voice("Ben")), library.add(voice("Anna"))
    texts = context.texts(None)
    assert select_voice(context.storage.voices.list(), ben.id, texts).value == ben.id
    press(events.update_voice, id=ben.id, name="Aaron")
    picker = select_voice(context.storage.voices.list(), ben.id, texts)
    assert (picker.value, picker.choices) == (ben.id, [("Aaron", ben.id), ("Anna", anna.id)])
    press(events.delete_voice, "", id=ben.id)
    assert select_voice(context.storage.voices.list(), ben.id, texts).value == anna.id


def test_speak_with_voice_picks_it_and_opens_the_tab(
    events: LibraryHandlers, library: VoiceLibrary, samples: list[VoiceRecord]
) -> None:
    library.add(voice("Zoe"))
    picker, tabs, listed = press(events.speak_with_voice, id=samples[1].id)
    assert (picker.value, tabs.selected, listed) == (samples[1].id, "speak", gr.skip())
    for wrong in ("gone", None, 7):
        picker, tabs, listed = press(events.speak_with_voice, id=wrong)
        assert (picker, tabs, listed["answer"]["kind"]) == (gr.skip(), gr.skip(), "bad")


def test_the_picker_keeps_the_voices_of_the_model(
    events: LibraryHandlers, library: VoiceLibrary, engine: FakeEngine
) -> None:
    engine.capabilities = replace(engine.capabilities, speakers=("ryan",))
    ben = library.add(voice("Ben"))
    own, mine = ("Ryan (built-in)", BuiltInSpeaker("ryan").id), ("Ben", ben.id)
    assert press(events.speak_with_voice, id=ben.id)[0].choices == [own, mine]
    listed, _, picker = press(events.delete_voice, ben.id, id=ben.id)
    assert (picker.value, picker.choices, listed["answer"]["replacement"]) == (own[1], [own], own[1])
    _, _, picker = press(events.restore_voice, own[1], id=ben.id, replacement=own[1])
    assert (picker.value, picker.choices) == (ben.id, [own, mine])


# --- changing


def test_voice_details_can_be_changed(events: LibraryHandlers, library: VoiceLibrary) -> None:
    ben = library.add(voice("Ben"))
    assert answer(events.update_voice, id=ben.id, name=" Zoe ") == ("good", "Renamed to “Zoe”.")
    reply = answer(
        events.update_voice, id=ben.id, language="pt-BR", description="Low.", tags=["#warm", "Warm", " a  b "]
    )
    assert reply == ("good", "“Zoe” is saved.")
    changed = library.get(ben.id)
    assert (changed.name, changed.language, changed.description, changed.tags) == (
        "Zoe",
        "pt-BR",
        "Low.",
        ("warm", "a b"),
    )
    press(events.update_voice, id=ben.id, tags=[], language="", description="")
    assert library.get(ben.id) == replace(
        changed, language="", description="", tags=(), updated=library.get(ben.id).updated
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "anna"}, "already a voice called “anna”"),
        ({"name": " "}, "needs a name"),
        ({"name": "x" * 81}, "80 characters"),
        ({"name": 7}, "out of step"),
        ({"tags": "warm"}, "out of step"),
        ({"tags": ["warm", 7]}, "out of step"),
        ({"tags": ["x"] * 3 + [str(number) for number in range(12)]}, "12 tags"),
        ({"tags": ["x" * 41]}, "40 characters"),
        ({"tags": ["a,b"]}, "commas"),
        ({"language": "klingon!"}, "“klingon!” is not a language tag"),
        ({"description": "x" * 2_001}, "2,000 characters"),
        ({"description": "nul\0"}, "not text"),
    ],
)
def test_invalid_changes_are_rejected(
    events: LibraryHandlers, library: VoiceLibrary, changes: dict[str, Any], says: str
) -> None:
    library.add(voice("Anna"))
    ben = library.add(voice("Ben"))
    kind, text = answer(events.update_voice, id=ben.id, **changes)
    assert (kind, library.get(ben.id)) == ("bad", ben)
    assert says in text
    listed, _ = press(events.update_voice, id=ben.id, **changes)
    assert listed["answer"]["id"] == ben.id, "the answer names the form that it is for"


def test_samples_can_be_copied_but_not_changed(
    events: LibraryHandlers, library: VoiceLibrary, samples: list[VoiceRecord]
) -> None:
    ada = samples[0]
    for kind, text in (answer(events.update_voice, id=ada.id, name="Mine"), answer(events.delete_voice, "", id=ada.id)):
        assert kind == "bad"
        assert "“Ada” is a sample voice" in text
    assert library.list() == samples
    assert answer(events.duplicate_voice, id=ada.id) == ("good", "“Ada” is your own copy.")
    assert answer(events.duplicate_voice, id=ada.id) == ("good", "“Ada 2” is your own copy.")
    assert names(library) == ["Ada", "Ada 2", "Ada", "Ben"]


# --- deleting


def test_deletion_can_be_undone(events: LibraryHandlers, library: VoiceLibrary, engine: FakeEngine) -> None:
    ben = library.add(voice("Ben"))
    listed, broadcast, _ = press(events.delete_voice, "", id=ben.id)
    assert engine.forgotten == ["Ben"], "the engine drops the voice"
    assert (listed["voices"], listed["answer"]["text"], broadcast["what"]) == ([], "", "listed")
    (aside,) = listed["aside"]
    assert (aside["id"], aside["name"]) == (ben.id, "Ben")
    assert 590 < aside["left"] <= 600
    assert events.list_voices(None, NO_REQUEST)["aside"] != [], "undo is offered after a reload as well"
    assert answer(events.restore_voice, "", id=ben.id) == ("good", "“Ben” is restored.")
    assert library.list() == [ben]
    assert answer(events.restore_voice, "", id=ben.id)[0] == "bad", "it is restored only once"


def test_deleting_the_picked_voice_picks_another_and_undo_picks_it_again(
    events: LibraryHandlers, library: VoiceLibrary
) -> None:
    zoe, ben = library.add(voice("Zoe")), library.add(voice("Ben"))
    listed, _, picker = press(events.delete_voice, zoe.id, id=zoe.id)
    assert (picker.value, picker.choices) == (ben.id, [("Ben", ben.id)])
    assert (listed["answer"]["text"], listed["answer"]["replacement"]) == (
        "The voice under “Speak” is now “Ben”.",
        ben.id,
    )
    _, _, picker = press(events.restore_voice, ben.id, id=zoe.id, replacement=ben.id)
    assert (picker.value, len(picker.choices)) == (zoe.id, 2)

    for replacement in (None, zoe.id, ben.id):
        listed, _, picker = press(events.delete_voice, zoe.id, id=ben.id)
        assert (listed["answer"]["replacement"], picker) == ("", gr.skip()), "the picked voice is unchanged"
        listed, _, picker = press(
            events.restore_voice, "" if replacement else zoe.id, id=ben.id, replacement=replacement
        )
        assert (listed["answer"]["replacement"], picker) == ("", gr.skip()), "another voice was picked since, or none"
    press(events.delete_voice, zoe.id, id=ben.id)
    listed, _, picker = press(events.delete_voice, zoe.id, id=zoe.id)
    assert (listed["answer"]["text"], picker) == ("", gr.skip()), "no voice is left"
    assert press(events.restore_voice, "nonsense", id="nonsense", replacement="nonsense")[2] == gr.skip()


def test_undo_renames_a_voice_whose_name_is_taken(events: LibraryHandlers, library: VoiceLibrary) -> None:
    ben = library.add(voice("Ben"))
    press(events.delete_voice, "", id=ben.id)
    library.add(voice("ben"))
    kind, text = answer(events.restore_voice, "", id=ben.id)
    assert (kind, text) == ("good", "“Ben” is restored as “Ben 2”, because another voice has its name now.")


def test_purge_deletes_for_good(events: LibraryHandlers, library: VoiceLibrary) -> None:
    ben = library.add(voice("Ben"))
    press(events.delete_voice, "", id=ben.id)
    listed, _ = events.purge_deleted(None, NO_REQUEST)
    assert (listed["aside"], listed["answer"]["text"]) == ([], "Deleted for good.")
    assert answer(events.restore_voice, "", id=ben.id)[0] == "bad"


# --- importing


@pytest.fixture
def upload(context: WebContext) -> Callable[[str, bytes], dict[str, str]]:
    def save_upload(name: str, data: bytes) -> dict[str, str]:
        return {"path": str(store_upload(context.folder, name, data)), "name": name}

    return save_upload


def test_import_of_files_and_archives_reports_each_voice(
    events: LibraryHandlers, library: VoiceLibrary, context: WebContext, upload: Act
) -> None:
    library.add(voice("Ben"))
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        for name in ("Zoe", "ben"):
            archive.writestr(f"folder/{name}.voice", voice(name).to_bytes())
        archive.writestr("folder/readme.txt", "Hello.")
    files = [
        upload("Anna.voice", voice("Anna").to_bytes()),
        upload("mine.zip", packed.getvalue()),
        upload("broken.voice", voice("Carl").to_bytes()[:-1]),
        upload("empty.zip", b"PK\x05\x06" + bytes(18)),
        upload("bad.zip", b"PK\x03\x04" + bytes(30)),
    ]
    listed, _ = press(events.import_voices, files=files)
    reply = listed["answer"]
    assert (reply["kind"], reply["text"]) == ("bad", "Imported “Anna”, “Zoe”.")
    assert [line.partition(" was not imported. ")[::2] for line in reply["lines"]] == [
        ("“readme.txt”", "This is not a voice file. To make a voice from a recording, use “New voice”."),
        ("“broken.voice”", "This voice file is damaged."),
        (
            "“bad.zip”",
            "“bad.zip” is damaged or is not a .zip that can be read here. Unpack it and import the voices inside.",
        ),
    ]
    taken = "“ben.voice” was not imported. There is already a voice called “ben”."
    assert reply["offers"] == [{"line": taken, "file": files[1]["path"], "voice": 1, "free": "ben 2"}]
    assert names(library) == ["Anna", "Ben", "Zoe"]
    again = [upload("mine.zip", packed.getvalue()) | {"names": {"1": "Benjamin"}}]
    assert answer(events.import_voices, files=again) == ("good", "Imported “Benjamin”.")
    again = [upload("mine.zip", packed.getvalue()) | {"names": {"0": "Zoe 2", "1": "benjamin"}}]
    listed, _ = press(events.import_voices, files=again)
    assert listed["answer"]["text"] == "Imported “Zoe 2”."
    assert [(each["voice"], each["free"]) for each in listed["answer"]["offers"]] == [(1, "benjamin 2")]
    for odd in ("Zoe", ["Zoe"], {"0": 3}):
        again = [upload("mine.zip", packed.getvalue()) | {"names": odd}]
        assert "out of step" in press(events.import_voices, files=again)[0]["answer"]["lines"][0]
    assert names(library) == ["Anna", "Ben", "Benjamin", "Zoe", "Zoe 2"]
    assert list(context.folder.iterdir()) == [], "no imported file is left in the served folder"


def test_import_of_one_file_is_reported_in_one_sentence(
    events: LibraryHandlers, upload: Act, library: VoiceLibrary
) -> None:
    file = upload("x.voice", replace(voice("Anna"), tags=("warm",)).to_bytes())
    listed, _ = press(events.import_voices, files=[file])
    assert (listed["answer"]["kind"], listed["answer"]["text"], listed["answer"]["lines"]) == (
        "good",
        "Imported “Anna”.",
        [],
    )
    assert library.find("Anna").tags == ("warm",)


def test_import_ends_when_all_data_is_deleted(
    events: LibraryHandlers, storage: Storage, upload: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_voice = storage.voices.import_voice

    def deleted_meanwhile(data: bytes, **given: Any) -> VoiceRecord:
        made = import_voice(data, **given)
        if made.name == "Anna":
            storage.delete_owner("local")
        return made

    monkeypatch.setattr(storage.voices, "import_voice", deleted_meanwhile)
    files = [upload(f"{name}.voice", voice(name).to_bytes()) for name in ("Anna", "Zoe")]
    listed, _ = press(events.import_voices, files=files)
    assert "deleted in the meantime" in listed["answer"]["lines"][0]
    assert names(storage.voices) == []


@pytest.mark.parametrize("files", [None, [], "text", [{}] * 201])
def test_import_requires_one_to_200_files(events: LibraryHandlers, files: Any) -> None:
    kind, text = answer(events.import_voices, files=files)
    assert kind == "bad"
    assert "200" in text


def test_import_reads_only_uploaded_files(
    events: LibraryHandlers, library: VoiceLibrary, context: WebContext, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.voice"
    secret.write_bytes(voice("Secret").to_bytes())
    (context.folder / "link.voice").symlink_to(secret)
    for path in (secret, context.folder / ".." / "secret.voice", context.folder / "link.voice", context.folder):
        listed, _ = press(events.import_voices, files=[{"path": str(path), "name": "x.voice"}])
        assert "no longer on the server" in listed["answer"]["lines"][0]
    for file in ({"path": 3}, {"path": "a\0b"}, [1], "text", None):
        assert press(events.import_voices, files=[file])[0]["answer"]["text"] == "No voice was imported."
    assert secret.exists()
    assert library.list() == []


# --- owners


def test_voices_of_other_owners_are_unreachable(events: LibraryHandlers, library: VoiceLibrary) -> None:
    theirs, gone = library.add(voice("Secret"), owner="somebody"), library.add(voice("Gone"), owner="somebody")
    library.trash(gone.id, owner="somebody")
    assert events.list_voices(None, NO_REQUEST)["voices"] == events.list_voices(None, NO_REQUEST)["aside"] == []
    for event in (events.update_voice, events.duplicate_voice, events.delete_voice, events.restore_voice):
        selected = (theirs.id,) if event in (events.delete_voice, events.restore_voice) else ()
        for wrong in (theirs.id, gone.id, "nonsense", None, 7, ["x"]):
            assert answer(event, *selected, id=wrong, name="Mine", replacement=theirs.id)[0] == "bad"
    events.purge_deleted(None, NO_REQUEST)
    assert names(library, owner="somebody") == ["Secret"]
    assert [each.id for each in library.trashed(owner="somebody")] == [gone.id]
    assert library.list() == []


def test_page_without_a_key_changes_nothing(
    engine: FakeEngine, storage: Storage, library: VoiceLibrary, tmp_path: Path
) -> None:
    events = LibraryHandlers(make_context(engine, storage, tmp_path, "browser"))
    request: Any = SimpleNamespace(headers={}, username=None, request=None)
    assert events.list_voices("forged", request) == gr.skip()
    ben = library.add(voice("Ben"))
    changes: tuple[Callable[..., Any], ...] = (
        events.update_voice,
        events.duplicate_voice,
        events.delete_voice,
        events.restore_voice,
        events.import_voices,
    )
    for event in changes:
        selected = (ben.id,) if event in (events.delete_voice, events.restore_voice) else ()
        listed, broadcast, *picker = event(gr.EventData(None, {"id": ben.id}), *selected, "forged", request)
        assert listed.keys() == {"answer"}
        assert (listed["answer"]["kind"], broadcast, *picker) == ("bad", *[gr.skip()] * (1 + len(picker)))
    assert library.list() == [ben]
