"""Voices over HTTP: listing, cloning with consent, and deleting."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from engine.errors import EngineFailed
from storage.api_keys import NewKey
from studio import recognition
from tests.api.conftest import Server, bearer
from tests.api.voices import delete_voices
from tests.paths import CLIP

WORDS = "The train was late, so we walked along the river."
SAMPLES = ["Adam", "Ben", "Clara", "Daniel", "Emma", "Flora"]
CreateVoice = Callable[..., httpx.Response]


@pytest.fixture
def create_voice(client: httpx.Client, server: Server) -> Iterator[CreateVoice]:
    def post(headers: dict[str, str] | None = None, clip: bytes = CLIP.read_bytes(), **form: str) -> httpx.Response:
        files = {"audio_sample": ("clip.flac", clip, "audio/flac")}
        fields = {"name": "Anna", "consent": "Anna Gray", "ref_text": WORDS, **form}
        return client.post("/v1/audio/voices", data=fields, files=files, headers=headers)

    yield post
    for owner in ("local", "user:ann"):
        delete_voices(server.storage.voices, owner)


def message(response: httpx.Response) -> str:
    text: str = response.json()["error"]["message"]
    return text


def test_voice_lists_have_the_forms_of_all_clients(client: httpx.Client) -> None:
    listed = client.get("/v1/audio/voices").json()
    assert client.get("/audio/voices").json() == listed
    assert [voice["name"] for voice in listed["data"]] == SAMPLES
    assert listed["voices"] == [{"id": name, "name": name} for name in SAMPLES]
    assert listed["object"] == "list"
    first = listed["data"][0]
    assert set(first) >= {"id", "created_at", "name", "object", "type"}
    assert client.get(f"/v1/audio/voices/{first['id']}").json() == first
    assert client.get("/v1/audio/voices/adam").json() == first


def test_lists_of_names_leave_out_samples_with_an_own_voices_name(
    client: httpx.Client, create_voice: CreateVoice
) -> None:
    """They could not be told apart, and the name finds the own voice."""
    own = create_voice(name="adam").json()["id"]
    names = ["adam", *(name for name in SAMPLES if name != "Adam")]
    listed = client.get("/v1/audio/voices").json()
    assert [voice["name"] for voice in listed["voices"]] == names
    assert listed["data"][0]["id"] == own
    assert len(listed["data"]) == 1 + len(SAMPLES), "with ids they can be told apart"
    assert client.get("/v1/references/list").json()["reference_ids"] == names


def test_remote_clients_without_a_key_see_only_samples(
    client: httpx.Client, server: Server, create_voice: CreateVoice
) -> None:
    assert create_voice().status_code == 200
    assert len(client.get("/v1/audio/voices").json()["data"]) == 7
    with server.key():
        for path in ("/v1/audio/voices", "/audio/voices"):
            listed = client.get(path, headers={"Host": "voices.example.org"})
            assert [voice["name"] for voice in listed.json()["voices"]] == SAMPLES
        assert client.get("/v1/audio/voices", headers=bearer("wrong")).status_code == 401
        assert client.get("/v1/audio/voices/Adam").status_code == 401
        assert create_voice().status_code == 401


@pytest.mark.usefixtures("short_turns")
def test_voice_is_created_spoken_with_and_deleted(
    client: httpx.Client, server: Server, create_voice: CreateVoice
) -> None:
    made = create_voice(language="en", description="Reads news.")
    assert made.status_code == 200, made.text
    voice = made.json()
    assert (voice["name"], voice["object"], voice["description"]) == ("Anna", "audio.voice", "Reads news.")
    assert voice["notes"] == []
    kept = server.storage.voices.get(voice["id"])
    assert voice["created_at"] == int(kept.created.timestamp())
    assert kept.consent
    assert (kept.consent.who, kept.consent.sentence) == (
        "Anna Gray",
        "The speaker has agreed to have this voice cloned.",
    )
    spoken = client.post("/v1/audio/speech", json={"input": "Hello.", "voice": voice, "model": "tts-1"})
    assert spoken.status_code == 200
    gone = client.delete(f"/v1/audio/voices/{voice['id']}")
    assert gone.json() == {"id": voice["id"], "object": "audio.voice.deleted", "deleted": True}
    assert client.delete(f"/v1/audio/voices/{voice['id']}").status_code == 404
    assert [each.id for each in server.storage.voices.trashed()] == [voice["id"]]


def test_response_says_what_may_be_wrong_with_a_new_voice(
    client: httpx.Client, server: Server, create_voice: CreateVoice
) -> None:
    (note,) = create_voice(ref_text="The train.").json()["notes"]
    assert "too few words" in note
    files = {"audio": ("clip.flac", CLIP.read_bytes(), "audio/flac")}
    form = {"id": "Ben G.", "consent": "Ben Gray", "text": "The train."}
    assert client.post("/v1/references/add", data=form, files=files).json()["message"] == note


def test_name_may_contain_a_slash(client: httpx.Client, create_voice: CreateVoice) -> None:
    voice = create_voice(name="News/evening").json()
    for path in ("/v1/audio/voices/News/evening", "/v1/audio/voices/news%2Fevening"):
        assert client.get(path).json()["id"] == voice["id"]
    assert client.delete("/v1/audio/voices/News%2Fevening").json()["id"] == voice["id"]
    assert client.get("/v1/audio/voices/News/evening").status_code == 404
    assert client.get("/v1/audio/voices/").json()["object"] == "list", "a final slash is no name"
    other = create_voice(name="News/").json()
    assert client.get("/v1/audio/voices/News%2F").json()["id"] == other["id"]


def test_existing_name_is_not_overwritten(create_voice: CreateVoice) -> None:
    assert create_voice().status_code == 200
    refused = create_voice(name=" anna ")
    assert refused.status_code == 409
    assert "already a voice called “Anna”" in message(refused)


def test_voices_belong_to_the_owner_of_the_key(client: httpx.Client, server: Server, create_voice: CreateVoice) -> None:
    with server.key("Ann") as ann, server.key("Bob", "user:bob") as bob:
        voice = create_voice(bearer(ann)).json()
        path = f"/v1/audio/voices/{voice['id']}"
        assert client.get(path, headers=bearer(bob)).status_code == 404
        assert client.delete(path, headers=bearer(bob)).status_code == 404
        assert client.get(path, headers=bearer(ann)).status_code == 200


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"consent": " "}, "only when its speaker has agreed"),
        ({"name": "\u200b"}, "A voice needs a name."),
        ({"name": "x" * 81}, "can have 80 characters"),
        ({"ref_text": ""}, "Type the words that are spoken in the clip"),
        ({"clip": b"no audio"}, "not audio that can be read"),
    ],
)
def test_invalid_voice_is_rejected(
    create_voice: CreateVoice, client: httpx.Client, monkeypatch: pytest.MonkeyPatch, form: dict[str, str], says: str
) -> None:
    monkeypatch.setattr(recognition, "can_transcribe", lambda: False)
    refused = create_voice(**form)
    assert refused.status_code == 400
    assert says in message(refused)
    assert len(client.get("/v1/audio/voices").json()["data"]) == 6


def test_missing_transcript_is_recognised_when_possible(
    create_voice: CreateVoice, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    monkeypatch.setattr(recognition, "transcribe", lambda _clip, _model, _language: WORDS)
    made = create_voice(ref_text="").json()
    assert server.storage.voices.load(made["id"]).references[0].transcript == WORDS


def test_transcript_is_asked_for_when_recognition_fails(
    create_voice: CreateVoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recogniser's model may be missing on a machine without a network."""

    def fail(_clip: bytes, model: str, _language: str) -> str:
        raise EngineFailed("engine.no_recogniser_model", model=model, why="offline")

    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    monkeypatch.setattr(recognition, "transcribe", fail)
    refused = create_voice(ref_text="")
    assert refused.status_code == 400
    assert message(refused).startswith("ref_text: Type the words")


def test_voice_of_an_owner_whose_data_is_deleted_meanwhile_is_not_stored(
    server: Server, create_voice: CreateVoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete_all(_clip: bytes, _model: str, _language: str) -> str:
        server.storage.delete_owner("user:bob")
        return WORDS

    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    monkeypatch.setattr(recognition, "transcribe", delete_all)
    _, bob = server.storage.keys.create(NewKey("Bob", "user:bob"))
    refused = create_voice(bearer(bob), ref_text="")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "owner_deleted")
    assert "user:bob" not in server.storage.all_counts()


def test_language_is_stored_as_a_tag(client: httpx.Client, create_voice: CreateVoice) -> None:
    assert create_voice(name="Anna", language="German").json()["language"] == "de"
    refused = create_voice(name="Ben", language="klingonisch")
    assert refused.status_code == 400
    assert message(refused).startswith("“klingonisch” is not a language tag such as “en”, “sv” or “pt-BR”.")
    recording = {"recording": ("agreed.flac", CLIP.read_bytes())}
    for language, status in (("english", 200), ("klingonisch", 400)):
        form = {"name": "Anna", "language": language}
        answer = client.post("/v1/audio/voice_consents", data=form, files=recording)
        assert answer.status_code == status
        if status == 200:
            assert answer.json()["language"] == "en"
            client.delete(f"/v1/audio/voice_consents/{answer.json()['id']}")


def test_sample_voices_cannot_be_deleted(client: httpx.Client) -> None:
    refused = client.delete("/v1/audio/voices/Adam")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "voice_protected")


def test_openai_name_changes_no_voice_of_another_name(
    client: httpx.Client, server: Server, create_voice: CreateVoice
) -> None:
    """“echo” is spoken by the voice called Daniel."""
    daniel = create_voice(name="Daniel").json()
    assert client.get("/v1/audio/voices/echo").json()["id"] == daniel["id"]
    names = {"old_reference_id": "echo", "new_reference_id": "Dan"}
    answers = (
        client.delete("/v1/audio/voices/echo"),
        client.post("/v1/references/update", json=names),
        client.request("DELETE", "/v1/references/delete", json={"reference_id": "Echo"}),
    )
    assert [answer.status_code for answer in answers] == [404] * 3
    assert server.storage.voices.get(daniel["id"]).name == "Daniel"
    echo = create_voice(name="Echo").json()
    assert client.delete("/v1/audio/voices/echo").json()["id"] == echo["id"]
    with server.key(owner="local", voices={"echo": "Daniel"}) as key:
        assert client.delete("/v1/audio/voices/echo", headers=bearer(key)).json()["id"] == daniel["id"]


def test_alias_follows_its_voice_and_never_stands_for_another(
    client: httpx.Client, server: Server, create_voice: CreateVoice
) -> None:
    anna = create_voice(name="Anna").json()["id"]
    with server.key(owner="local", voices={"nova": "Anna"}) as key:
        server.storage.voices.rename(anna, "Annette")
        found = client.get("/v1/audio/voices/nova", headers=bearer(key)).json()
        assert (found["id"], found["name"]) == (anna, "Annette")
        server.storage.voices.trash(anna)
        for voice in ("nova", "Nova"):
            gone = client.get(f"/v1/audio/voices/{voice}", headers=bearer(key))
            assert gone.status_code == 404
            assert message(gone).startswith(f"The voice that this key calls “{voice}” does not exist")
        spoken = client.post("/v1/audio/speech", json={"input": "Yes.", "voice": "nova"}, headers=bearer(key))
        assert spoken.status_code == 404
        server.storage.voices.restore(anna)
        assert client.get("/v1/audio/voices/nova", headers=bearer(key)).json()["id"] == anna


def test_alias_of_a_name_is_never_a_voice_saved_later(
    client: httpx.Client, server: Server, create_voice: CreateVoice
) -> None:
    sample = client.get("/v1/audio/voices/Adam").json()
    aliases = {"nova": "Adam", "echo": "Nobody"}
    with server.key(owner="local", voices=aliases) as key:
        for name in aliases.values():
            own = create_voice(headers=bearer(key), name=name).json()["id"]
            assert client.get(f"/v1/audio/voices/{name}", headers=bearer(key)).json()["id"] == own
        assert client.get("/v1/audio/voices/nova", headers=bearer(key)).json() == sample
        none = client.get("/v1/audio/voices/echo", headers=bearer(key))
        assert none.status_code == 404
        assert message(none) == "The voice that this key calls “echo” does not exist, or belongs to another model."


def test_form_without_a_clip_is_rejected(client: httpx.Client) -> None:
    for files in ({"other": b"RIFF"}, {"audio_sample": (None, "clip.wav")}):
        refused = client.post("/v1/audio/voices", data={"name": "Anna", "consent": "Anna"}, files=files)
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "audio_sample"
        assert not re.search("Value error|UploadFile|class", message(refused))


@pytest.mark.parametrize(
    ("path", "sent", "expected"),
    [
        ("/v1/audio/voices", {"data": {"name": "Anna"}}, "multipart/form-data"),
        ("/v1/references/add", {"json": {"id": "Anna"}}, "multipart/form-data"),
        ("/v1/references/update", {"data": {"old_reference_id": "Anna"}}, "application/json"),
    ],
)
def test_refused_content_type_is_told_the_right_one(
    client: httpx.Client, path: str, sent: dict[str, Any], expected: str
) -> None:
    refused = client.post(path, **sent)
    assert refused.status_code == 415
    assert message(refused) == f"Send the request as {expected}."
