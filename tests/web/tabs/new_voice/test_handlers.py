"""Handlers of the New voice tab: the form, the saved voice and the messages."""

from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import gradio as gr
import numpy as np
import pytest
import soundfile

from engine.audio.merge import MAX_MERGED_SECONDS
from engine.errors import UnusableReference
from engine.families.family import Capabilities
from engine.voice import BuiltInVoice, Consent
from storage import VoiceLibrary, VoiceRecord
from storage.repositories.voices.shared_voices import SampleVoice
from studio.voices.voice_maker import SAMPLE_TEXTS
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine, buzz, reference, voice
from tests.support.looping import run
from tests.web.conftest import store_upload
from web.context import WebContext
from web.limits.budgets import Budgets, Limits
from web.limits.worker_pool import WorkerPool
from web.tabs.library.handlers import LibraryHandlers
from web.tabs.new_voice.handlers import NewVoiceHandlers, Updates, consent_sentence, consenting_speaker
from web.tabs.new_voice.views import DESCRIBED_STEPS, STEPS, steps_html
from web.ui.i18n import Translations

STORY = CLIP.with_name("flite_slt_story.flac")
FORM = {"name": "Anna", "speaker": "", "agreed": True, "language": "", "changed": None}
DESCRIBED = Capabilities(clones=False, needs_transcript=False, designs_voices=True)
TRANSLATIONS = Translations.load()
ENGLISH = TRANSLATIONS.texts(None)
GERMAN: Any = SimpleNamespace(headers={"accept-language": "de"})


@pytest.fixture
def events(context: WebContext) -> NewVoiceHandlers:
    return NewVoiceHandlers(context)


@pytest.fixture
def clip(context: WebContext) -> dict[str, Any]:
    return store_clip(context, CLIP)


def store_clip(context: WebContext, file: Path, **more: Any) -> dict[str, Any]:
    """Store a file in a folder of its own among the uploads; return the clip as the page sends it."""
    path = store_upload(context.folder, file.name, file.read_bytes())
    seconds = soundfile.info(str(file)).duration
    clip = {
        "path": str(path),
        "name": file.name,
        "seconds": seconds,
        "start": 0,
        "end": seconds,
        "words": "Hello there.",
    }
    return {**clip, **more}


def steps_of(saving: Generator[Updates, None, Updates]) -> list[Updates]:
    """Return all outputs, also the last ones, which a generator returns."""

    def whole() -> Generator[Updates, None, None]:
        yield (yield from saving)

    return list(whole())


def save(events: NewVoiceHandlers, *clips: dict[str, Any], request: Any = None, **changes: Any) -> tuple[Any, ...]:
    value = {"chosen": 0, "clips": list(clips)} if clips else None
    updates = steps_of(events.save_steps(value, **{**FORM, **changes}, token=None, request=request))
    assert len({len(each) for each in updates}) == 1, "every step fills the same outputs"
    return updates[-1]


def use(events: NewVoiceHandlers, voice_id: str) -> Updates:
    return events.use_saved(gr.EventData(None, {"id": voice_id}), None, None)  # type: ignore[arg-type]


def test_saved_voice_can_be_used_and_its_upload_is_deleted(
    events: NewVoiceHandlers, library: VoiceLibrary, clip: dict[str, Any], context: WebContext
) -> None:
    trouble, saved, broadcast = save(events, clip)
    record = library.find("Anna")
    assert (trouble, saved["id"], broadcast["what"]) == ("", record.id, "voices")
    assert saved["message"] == "Saved “Anna”. A note about the clip."
    assert f"{saved['message']} Now write something to say." in saved["notice"]
    picker, message = use(events, record.id)
    assert (picker.value, [label for label, _ in picker.choices]) == (record.id, ["Anna"])
    assert message == gr.skip()
    assert list(context.folder.iterdir()) == [], "the upload is deleted"
    assert library.load(record.id).references[0].transcript == "Hello there."
    assert record.references == 1


def test_saved_voice_that_is_gone_is_not_used(events: NewVoiceHandlers) -> None:
    picker, message = use(events, "0" * 32)
    assert picker == gr.skip()
    assert 'role="alert"' in message


def test_words_are_required_only_if_the_model_needs_them(
    events: NewVoiceHandlers, library: VoiceLibrary, clip: dict[str, Any], context: WebContext, engine: FakeEngine
) -> None:
    assert "Type the words" in save(events, {**clip, "words": ""})[0]
    engine.capabilities = Capabilities(needs_transcript=False)
    engine._prepare = lambda _clip, transcript: reference(transcript, buzz(0, 30_000, 120))
    assert save(events, {**clip, "words": ""})[0] == ""
    assert library.load(library.find("Anna").id).references[0].transcript == ""
    save(events, store_clip(context, CLIP), store_clip(context, CLIP, words=""), name="Both")
    assert library.load(library.find("Both").id).references[0].transcript == ""  # one clip's words would not match both


def test_voice_has_the_chosen_language(
    events: NewVoiceHandlers, library: VoiceLibrary, context: WebContext, engine: FakeEngine
) -> None:
    """The language is as chosen, by default English with a model for English only and otherwise unknown."""
    for english, chosen, language in ((True, "", "en"), (True, "de", "de"), (False, "de", "de"), (False, "", "")):
        engine.capabilities = replace(engine.capabilities, english_only=english)
        name = f"{english} {chosen}"
        save(events, store_clip(context, CLIP), name=name, language=chosen)
        assert library.find(name).language == language


def test_described_voice_is_saved_with_a_sample(
    events: NewVoiceHandlers, library: VoiceLibrary, clip: dict[str, Any], context: WebContext, engine: FakeEngine
) -> None:
    engine.capabilities = Capabilities(clones=False, needs_transcript=False, designs_voices=True)
    engine._prepare = lambda _clip, transcript: reference(transcript, buzz(0, 30_000, 120))

    def save_described(request: Any = None, **form: str) -> tuple[Any, ...]:
        async def steps() -> list[tuple[Any, ...]]:
            described = (form.get(name) for name in ("description", "language"))
            given: Any = (None, form.get("name"), "", False, *described, None, None, request)
            return [updates async for updates in events.save_voice(*given)]

        *_, last = run(steps)
        return last

    missing = save_described()[0]
    assert "Describe the voice." in missing
    assert "Give the voice a name." in missing
    trouble, saved, _ = save_described(name="Ben", description=" A low voice. ")
    record = library.find("Ben")
    assert (trouble, saved["id"], record.description, record.consent) == ("", record.id, "A low voice.", None)
    assert saved["message"] == "Saved “Ben”."
    assert library.load(record.id).references[0].transcript == SAMPLE_TEXTS["en"]
    assert engine.asked[-1][:2] == (SAMPLE_TEXTS["en"], BuiltInVoice(description="A low voice."))
    spoken = context.voices.ready(record.id, owner="local", instructions="Slowly.")
    assert spoken.voice == BuiltInVoice(description="A low voice. Slowly.")
    assert "does not clone" in save(events, clip)[0]
    engine.capabilities = replace(engine.capabilities, languages=("english", "german", "chinese"))
    for request, wanted, language in ((GERMAN, "", "de"), (GERMAN, "zh", "zh"), (None, "ja", "en"), (None, "", "en")):
        save_described(
            request, name=f"{wanted} {language} {request is None}", description="A low voice.", language=wanted
        )
        text, _, options = engine.asked[-1]
        assert (text, options.language) == (SAMPLE_TEXTS[language], language)
    assert {each.language for each in library.list()} == {"de", "zh", "en"}
    engine.capabilities = Capabilities()
    assert context.voices.ready(record.id, owner="local").voice == library.load(record.id)


def test_each_step_is_shown(events: NewVoiceHandlers, clip: dict[str, Any]) -> None:
    updates = steps_of(events.save_steps({"clips": [clip]}, **FORM, token=None, request=None))  # type: ignore[arg-type]
    assert [each[0] for each in updates] == [*(steps_html(step, ENGLISH) for step in STEPS), ""]
    assert 'data-step="done"' in updates[1][0]
    assert 'role="status">Encoding the voice<' in updates[1][0]
    assert all(value == gr.skip() for each in updates[:-1] for value in each[1:]), (
        "the form is unchanged until the last step"
    )
    assert "Waiting" in events.show_waiting(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("described", [False, True])
def test_voice_in_progress_during_a_deletion_is_not_saved(
    events: NewVoiceHandlers, clip: dict[str, Any], context: WebContext, engine: FakeEngine, described: bool
) -> None:
    if described:
        engine.capabilities = DESCRIBED
        engine._prepare = lambda _clip, transcript: reference(transcript, buzz(0, 30_000, 120))
        saving = events.describe_steps("Anna", "A low voice.", "", None, None)  # type: ignore[arg-type]
        begun = [next(saving)]
    else:
        saving = events.save_steps({"clips": [clip]}, **FORM, token=None, request=None)  # type: ignore[arg-type]
        begun = [next(saving), next(saving)]
    assert "data-step" in begun[-1][0]
    context.storage.delete_owner("local")
    assert "deleted in the meantime" in steps_of(saving)[-1][0]
    assert context.storage.voices.list() == []


def test_each_step_of_a_described_voice_is_shown_and_its_sample_charged(
    events: NewVoiceHandlers, context: WebContext, engine: FakeEngine
) -> None:
    engine.capabilities = DESCRIBED
    engine._prepare = lambda _clip, transcript: reference(transcript, buzz(0, 30_000, 120))
    budgets = Budgets({"local": Limits(hourly=60)})
    object.__setattr__(context, "budgets", budgets)
    updates = steps_of(events.describe_steps("Ben", "A low voice.", "", None, None))  # type: ignore[arg-type]
    assert [each[0] for each in updates] == [
        *(steps_html(step, ENGLISH, DESCRIBED_STEPS) for step in DESCRIBED_STEPS),
        "",
    ]
    ((_, charged),) = budgets._ledgers["owner", "local"].spent
    (result,) = (speech.result for speech in engine.speeches)
    assert result is not None
    assert charged == result.seconds


# --- consent


def test_consent_names_the_speaker(
    events: NewVoiceHandlers, library: VoiceLibrary, clip: dict[str, Any], context: WebContext
) -> None:
    save(events, clip, speaker=" Grandma \n Ada ")
    consent = library.find("Anna").consent
    assert consent is not None
    assert (consent.who, consent.sentence) == ("Grandma Ada", consent_sentence("Grandma Ada", ENGLISH))
    assert consent.sentence.count("Grandma Ada") == 2
    save(events, store_clip(context, CLIP), name="Emil", request=GERMAN)
    consent = library.find("Emil").consent
    assert consent is not None
    assert consent.who == "Emil"
    assert consent.sentence.startswith("Ich bin Emil und willige ein")


def test_consent_sentence_follows_the_names(events: NewVoiceHandlers) -> None:
    assert (
        consenting_speaker("Anna", "")
        == consenting_speaker(" Anna ", None)
        == consenting_speaker("x", "Anna")
        == "Anna"
    )
    box = events.update_consent("Anna", "", None)  # type: ignore[arg-type]
    assert box.label == consent_sentence("Anna", ENGLISH)
    for language, texts in TRANSLATIONS.languages.items():
        assert texts["new.consent"].format(who=consenting_speaker("", None)) == texts["new.consent_blank"], language


# --- several clips


def test_clips_are_merged_into_one_reference(
    events: NewVoiceHandlers, library: VoiceLibrary, context: WebContext
) -> None:
    """Each reference of a prompt is a speaker, so a second reference would be another speaker."""
    clips = [store_clip(context, CLIP, words="One"), store_clip(context, STORY, words="two three!", start=1.0, end=9.0)]
    message = save(events, *clips)[1]["message"]
    (only,) = library.load(library.find("Anna").id).references
    assert only.transcript == "One. two three!"
    assert only.duration == pytest.approx(3.1 + 8.0 + 0.2, abs=0.6)
    assert "Left out" not in message
    assert list(context.folder.iterdir()) == []


def test_clips_over_the_limit_are_left_out_and_reported(
    events: NewVoiceHandlers, library: VoiceLibrary, context: WebContext
) -> None:
    clips = [
        store_clip(context, STORY, name="first"),
        store_clip(context, STORY, name="second"),
        store_clip(context, CLIP, words="Third."),
    ]
    assert clips[0]["seconds"] * 2 > MAX_MERGED_SECONDS
    message = save(events, *clips)[1]["message"]
    (only,) = library.load(library.find("Anna").id).references
    assert only.transcript == "Hello there. Third."
    assert "Not used, because the other clips already reach the maximum length: “second”." in message
    assert list(context.folder.iterdir()) == []


def test_only_the_selection_is_saved(events: NewVoiceHandlers, library: VoiceLibrary, context: WebContext) -> None:
    save(events, store_clip(context, STORY, start=2.0, end=7.0))
    assert library.find("Anna").duration == pytest.approx(5.0, abs=0.5)


# --- rejected forms


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"agreed": False}, "consent"),
        ({"agreed": "yes"}, "consent"),
        ({"name": "  "}, "Give the voice a name."),
        ({"name": None}, "Give the voice a name."),
        ({"name": "\u200b"}, "needs a name"),
        ({"name": "x" * 81}, "80 characters"),
    ],
)
def test_invalid_form_is_rejected_and_kept(
    events: NewVoiceHandlers, library: VoiceLibrary, clip: dict[str, Any], changes: dict[str, Any], says: str
) -> None:
    trouble, *others = save(events, clip, **changes)
    assert says in trouble
    assert 'role="alert"' in trouble
    assert all(each == gr.skip() for each in others), "the typed values stay"
    assert library.list() == []
    assert Path(clip["path"]).exists()


def test_all_missing_fields_are_reported_and_the_first_is_named(
    events: NewVoiceHandlers, clip: dict[str, Any], context: WebContext
) -> None:
    everything = save(events, name="", agreed=False)[0]
    assert everything.index("Record a clip") < everything.index("Give the voice a name") < everything.index("tick the")
    assert 'data-field=".rp-drop button:enabled"' in everything
    assert 'data-field="#rp-name ' in save(events, clip, name="", agreed=False)[0]
    assert 'data-field="#rp-consent input"' in save(events, clip, agreed=False)[0]
    silent = store_clip(context, STORY, words="")
    assert 'data-field=".rp-clip-line:nth-child(2) .rp-clip-name"' in save(events, clip, silent)[0]
    assert 'data-field=".rp-words"' in save(events, silent, clip)[0], "the selected clip has no words"


def test_clip_without_words_is_named(events: NewVoiceHandlers, context: WebContext) -> None:
    trouble, *_ = save(events, store_clip(context, CLIP), store_clip(context, STORY, words=" \n", name="<Second>"))
    assert "Type the words that are spoken in “&lt;Second&gt;”" in trouble


def test_taken_name_is_reported_before_encoding(
    events: NewVoiceHandlers, library: VoiceLibrary, clip: dict[str, Any], engine: FakeEngine
) -> None:
    def never(_clip: Any, _transcript: str) -> Any:
        raise AssertionError("the engine was put to work")

    library.add(voice("Ánna"))
    engine._prepare = never
    trouble, *others = save(events, clip, name=" a\u0301NNA ")
    assert "There is already a voice called “Ánna”. Choose another name" in trouble
    assert all(each == gr.skip() for each in others)
    assert Path(clip["path"]).exists()
    trouble, *_ = save(events, clip, name="ánna", request=GERMAN)
    assert "gibt es schon" in trouble


def test_form_that_is_sent_again_makes_no_second_voice(
    events: NewVoiceHandlers, library: VoiceLibrary, context: WebContext, engine: FakeEngine
) -> None:
    """The page has lost the answer, and uploads its clips again. Other clips or fields are another voice."""
    save(events, store_clip(context, CLIP))
    trouble, saved, _ = save(events, store_clip(context, CLIP))
    (record,) = library.list()
    assert (trouble, saved["id"], saved["message"]) == ("", record.id, "Saved “Anna”.")
    assert list(context.folder.iterdir()) == []
    for again, changes in (
        (store_clip(context, STORY), {}),
        (store_clip(context, CLIP, words="Other words."), {}),
        (store_clip(context, CLIP, start=0.5), {}),
        (store_clip(context, CLIP), {"speaker": "Ada"}),
        (store_clip(context, CLIP), {"language": "de"}),
    ):
        assert "There is already a voice called “Anna”" in save(events, again, **changes)[0]
    assert "tick the" in save(events, store_clip(context, CLIP), agreed=False)[0]
    library.rename(record.id, "Bea")
    assert save(events, store_clip(context, CLIP))[0] == ""
    assert sorted(each.name for each in library.list()) == ["Anna", "Bea"], "the name is free again"

    engine.capabilities = DESCRIBED
    engine._prepare = lambda _clip, transcript: reference(transcript, buzz(0, 30_000, 120))
    for description, trouble in (("A low voice.", ""), ("A low voice.", ""), ("A high voice.", "already a voice")):
        *_, last = steps_of(events.describe_steps("Carla", description, "", None, None))  # type: ignore[arg-type]
        assert trouble in last[0]
        assert bool(trouble) == bool(last[0])
    assert len(library.list()) == 3


def open_clips(events: NewVoiceHandlers, voice_id: str) -> tuple[Any, ...]:
    return events.open_clips(gr.EventData(None, {"id": voice_id}), None, None)  # type: ignore[arg-type]


def test_clips_of_a_voice_are_opened_as_they_are_stored(
    events: NewVoiceHandlers, library: VoiceLibrary, context: WebContext
) -> None:
    record = library.add(replace(voice("Anna"), language="de-AT"))
    changed, name, speaker, language, agreed, trouble = open_clips(events, record.id)
    assert (changed["id"], changed["name"], changed["seen"]) == (record.id, "Anna", record.updated.isoformat())
    clips = [(each["name"], each["words"]) for each in changed["clips"]]
    assert clips == [("Anna", "Hello there.")]
    assert (name, speaker, agreed.value, trouble) == ("Anna", "", False, gr.skip())
    assert (language.value, language.choices[-1]) == ("de-AT", ("de-AT", "de-AT"))
    for who, shown in (("Grandma Ada", "Grandma Ada"), ("Anna", "")):
        library.update(record.id, consent=Consent(who, datetime.now(UTC), "Yes."), language="de")
        _, _, speaker, language, _, _ = open_clips(events, record.id)
        assert (speaker, language.value) == (shown, "de")


def test_only_stored_clips_of_own_cloned_voices_are_opened(
    events: NewVoiceHandlers, library: VoiceLibrary, samples: list[VoiceRecord], engine: FakeEngine
) -> None:
    kept = voice("Anna")
    bare = library.add(replace(kept, name="Bare", references=(replace(kept.references[0], clip=b""),)))
    described = library.add(replace(kept, name="Described", description="A low voice."))
    two = library.add(replace(kept, name="Two", references=kept.references * 2))
    theirs, own = library.add(kept, owner="somebody"), library.add(kept)
    for voice_id, sentence in (
        (bare.id, "without its recording"),
        (described.id, "without its recording"),
        (two.id, "without its recording"),
        (samples[0].id, "sample voice"),
        (theirs.id, "no such voice"),
        ("x", "no such voice"),
    ):
        changed, *others, trouble = open_clips(events, voice_id)
        assert changed is None
        assert all(each == gr.skip() for each in others)
        assert sentence in trouble
    listed = LibraryHandlers(events._context).list_voices(None, None)["voices"]  # type: ignore[arg-type]
    shown = {each["name"]: each["changeable"] for each in listed}
    assert [name for name, changeable in shown.items() if changeable] == ["Anna"]
    engine.capabilities = Capabilities(clones=False)
    assert "does not clone" in open_clips(events, own.id)[-1]


def test_changed_clips_are_saved_as_the_same_voice(
    events: NewVoiceHandlers, library: VoiceLibrary, clip: dict[str, Any], context: WebContext, engine: FakeEngine
) -> None:
    """A form that is sent again, with clips that are uploaded again, changes the voice once."""
    library.add(voice("Ben"))
    record = library.update(library.add(voice("Anna")).id, tags=("warm",), description="From the kitchen.")
    library.update(record.id, consent=Consent("Ida", datetime.now(UTC), "Yes."))
    before = library.load(record.id)
    changed = open_clips(events, record.id)[0]
    assert "already a voice called “Ben”" in save(events, clip, name="Ben", changed=changed)[0]
    prepare, engine._prepare = engine._prepare, Mock(side_effect=UnusableReference("There is no speech."))
    assert "There is no speech." in save(events, clip, changed=changed)[0]
    assert library.load(record.id) == before
    engine._prepare = prepare
    for again in (clip, store_clip(context, CLIP)):
        trouble, saved, broadcast = save(events, again, name="Änne", changed=changed)
        assert (trouble, saved["id"], broadcast["what"]) == ("", record.id, "voices")
        assert "Saved “Änne”." in saved["message"]
    assert list(context.folder.iterdir()) == []
    after = library.load(record.id)
    assert (after.name, after.tags, after.description) == ("Änne", ("warm",), "From the kitchen.")
    assert after.consent is not None
    assert (after.consent.who, after.references[0].transcript) == ("Änne", clip["words"])
    assert len(library.list()) == 2
    assert engine.forgotten == ["Anna"]


def test_voice_that_was_changed_or_deleted_meanwhile_is_not_changed(
    events: NewVoiceHandlers, library: VoiceLibrary, clip: dict[str, Any], engine: FakeEngine
) -> None:
    record = library.add(voice("Anna"))
    changed = open_clips(events, record.id)[0]
    library.update(record.id, tags=("warm",))
    assert "“Anna” was changed elsewhere" in save(events, clip, changed=changed)[0]
    changed = open_clips(events, record.id)[0]
    prepare = engine._prepare

    def meanwhile(*given: Any) -> Any:
        library.rename(record.id, "Bea")
        return prepare(*given)

    engine._prepare = meanwhile
    assert "“Bea” was changed elsewhere" in save(events, clip, changed=changed)[0]
    assert library.load(record.id).references == voice("Anna").references
    library.trash(record.id)
    assert "no such voice" in save(events, clip, changed=changed)[0]
    assert library.list() == []
    assert Path(clip["path"]).exists()


def test_own_voice_may_share_the_name_of_a_sample(
    events: NewVoiceHandlers, library: VoiceLibrary, clip: dict[str, Any]
) -> None:
    library.share([SampleVoice(voice("Anna"), "I am Anna.")])
    assert save(events, clip)[0] == ""
    assert [record.shared for record in library.list()] == [False, True]


def test_missing_clips_and_clips_not_uploaded_are_rejected(
    events: NewVoiceHandlers, library: VoiceLibrary, tmp_path: Path, context: WebContext, clip: dict[str, Any]
) -> None:
    secret = tmp_path / "secret.wav"
    secret.write_bytes(b"not yours")
    uploads = context.folder
    (uploads / "link.wav").symlink_to(secret)
    assert "Record a clip or choose a file" in save(events)[0]
    for path in (secret, uploads / ".." / "secret.wav", uploads / "link.wav", uploads / "gone.wav", uploads):
        assert "no longer on the server" in save(events, {**clip, "path": str(path)})[0]
    for wrong in (3, "a\0b", [1]):
        assert "out of step" in save(events, {**clip, "path": wrong})[0]
    for value in ("text", {"path": str(secret)}, {"clips": "x"}):
        *_, last = steps_of(events.save_steps(value, **FORM, token=None, request=None))  # type: ignore[arg-type]
        assert "out of step" in last[0]
    assert secret.exists()
    assert library.list() == []


def test_engine_errors_are_reported(
    events: NewVoiceHandlers, clip: dict[str, Any], engine: FakeEngine, library: VoiceLibrary
) -> None:
    def refuse(_clip: Any, _transcript: str) -> Any:
        raise UnusableReference("There is no speech in this clip.")

    engine._prepare = refuse
    assert "There is no speech in this clip." in save(events, clip)[0]
    assert Path(clip["path"]).exists()
    assert library.list() == []


def test_silent_and_unreadable_clips_are_reported(
    events: NewVoiceHandlers, context: WebContext, tmp_path: Path
) -> None:
    soundfile.write(tmp_path / "silence.wav", np.zeros(16_000 * 5, np.float32), 16_000)
    assert "The clip is silent" in save(events, store_clip(context, tmp_path / "silence.wav"))[0]
    rubbish = store_clip(context, CLIP)
    Path(rubbish["path"]).write_bytes(b"these are no sounds" * 100)
    assert "not audio that can be read" in save(events, rubbish)[0]
    Path(rubbish["path"]).write_bytes(b"")
    assert "holds no sound" in save(events, rubbish)[0]


def test_voice_belongs_to_its_owner_only(events: NewVoiceHandlers, library: VoiceLibrary, clip: dict[str, Any]) -> None:
    save(events, clip)
    assert library.list(owner="somebody else") == []


def test_messages_escape_html(
    context: WebContext, library: VoiceLibrary, clip: dict[str, Any], engine: FakeEngine
) -> None:
    engine._prepare = lambda _clip, transcript: reference(transcript, buzz(0, 30_000, 120))
    _, saved, _ = save(NewVoiceHandlers(context), clip, name="<b>{{x}}</b> `${alert(1)}`")
    assert "Saved “&lt;b&gt;{{x}}&lt;/b&gt; `${alert(1)}`”." in saved["notice"]


def test_saving_has_its_own_bounded_pool(events: NewVoiceHandlers, clip: dict[str, Any], library: VoiceLibrary) -> None:
    value = {"chosen": 0, "clips": [clip]}

    async def saved() -> list[tuple[Any, ...]]:
        given: Any = (value, "Anna", "", True, "", "", None, None, GERMAN)
        return [updates async for updates in events.save_voice(*given)]

    refusing = WorkerPool(1, 0, 1)
    own, events._pool = events._pool, refusing
    ((message, *others),) = run(saved)
    assert TRANSLATIONS.texts(GERMAN)("budget.files") in message
    events._pool = own
    updates = run(saved)
    assert len(updates) == len(STEPS) + 1
    assert {len(each) for each in updates} == {len(others) + 1}
    assert [voice.name for voice in library.list()] == ["Anna"]
