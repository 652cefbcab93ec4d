"""Handlers of the New voice tab: make a voice from clips."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from pydantic import ConfigDict

from engine.audio.merge import merge_references
from engine.errors import InvalidInput, InvalidName
from engine.messages import UserMessage
from engine.text import speaking_time
from engine.voice import Consent, Voice, clean_name
from storage.errors import NameTaken, VoiceChanged, VoiceNotFound
from studio.voices.languages import clean_language
from studio.voices.voice_maker import (
    SAMPLE_TEXTS,
    checked_name,
    require_cloning,
    sample_language,
    save_described_voice,
    speak_sample,
    voice_language,
)
from web.identity.addresses import client_address
from web.limits.budgets import PoolFull
from web.limits.worker_pool import WorkerPool
from web.tabs.new_voice.clips import (
    ChosenClip,
    chosen_clips,
    has_changeable_clips,
    parse_clip_list,
    split_by_length,
)
from web.tabs.new_voice.saved_forms import SavedForms, form_digest
from web.tabs.new_voice.views import DESCRIBED_STEPS, FormError, errors_html, steps_html
from web.ui.events import broadcast_change, with_nonce
from web.ui.i18n import own_name
from web.ui.messages import error_message, notice
from web.ui.payloads import Item, Payload, SelectedId, ShortText, default_if_invalid, parse_payload
from web.ui.voice_picker import select_voice
from web.uploads.files import delete_upload

if TYPE_CHECKING:
    from storage import VoiceRecord
    from web.context import WebContext
    from web.ui.i18n import Texts

Updates = tuple[Any, ...]
UNCHANGED = (gr.skip(),) * 2  # the outputs of `NewVoiceHandlers.save_voice` but its notice
THREADS, CAPACITY, PER_ADDRESS = 1, 16, 4  # threads; running and waiting jobs; jobs per address
NAME_FIELD = "#rp-name :is(input, textarea)"
UNNAMED = "…"  # shown in the consent sentence until there is a name


class Names(Payload):
    """The voice's name, and the speaker's name if different. Invalid names count as empty."""

    name: Annotated[ShortText, default_if_invalid("")]
    speaker: Annotated[ShortText, default_if_invalid("")]


class ChangedVoice(Payload):
    """The voice whose clips the form changes; id is "" for a new voice. seen: its `updated`, in ISO format."""

    model_config = ConfigDict(extra="ignore")  # its name

    id: SelectedId = ""
    seen: Annotated[ShortText, default_if_invalid("")] = ""


class VoiceForm(Names):
    """The form without its clips. agreed: the consent checkbox. description: for models that create voices from one.

    language: a tag, or ""; a described voice then speaks its sample in the page's language. changed, seen: of
    `ChangedVoice`.
    """

    agreed: Annotated[bool, default_if_invalid(False)]
    description: Annotated[ShortText, default_if_invalid("")] = ""
    language: Annotated[ShortText, default_if_invalid("")] = ""
    changed: str = ""
    seen: str = ""


@dataclass(frozen=True)
class CheckedForm:
    """A valid form. who: name of the consenting speaker. language: a tag, "" if unknown. owner: the owner's key.

    deletion_token: from `Storage.deletion_token`. digest: from `form_digest`. changed: the voice whose clips it
    changes, None for a new one and for one that was saved before.
    """

    clips: tuple[ChosenClip, ...]
    name: str
    who: str
    language: str
    owner: str
    deletion_token: str
    digest: bytes
    changed: VoiceRecord | None


class IncompleteForm(InvalidInput):
    """Raised for an invalid form. errors: all problems found."""

    def __init__(self, errors: Sequence[FormError]) -> None:
        super().__init__(" ".join(error.message for error in errors))
        self.errors = errors


class NewVoiceHandlers:
    """Event handlers of the New voice tab."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._pool = WorkerPool(THREADS, CAPACITY, PER_ADDRESS)
        self._saved_forms = SavedForms()

    def update_consent(self, name: Any, speaker: Any, request: gr.Request) -> gr.Checkbox:
        """Output: consent checkbox, labelled with the name of the speaker."""
        names = parse_payload(Names, name=name, speaker=speaker)
        who = consenting_speaker(names.name, names.speaker)
        return gr.Checkbox(label=consent_sentence(who, self._context.texts(request)))

    def open_clips(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """Outputs: changed voice with its clips, name, speaker, language, consent checkbox, notice. Event: `id`."""
        context, texts = self._context, self._context.texts(request)
        try:
            require_cloning(context.engine)
            owner, voice_id = context.owner(token, request), parse_payload(ChangedVoice, event).id
            record = context.storage.voices.owned(voice_id, owner=owner.key)
            if not has_changeable_clips(record):
                raise InvalidInput("voices.no_recording", name=record.name)
            (reference,) = context.storage.voices.load(record.id, owner=owner.key).references
            url = context.links.sign(owner, "clip", record.id)
            clips = [{"url": url, "name": record.name, "words": reference.transcript}]
        except Exception as error:
            return None, *(gr.skip(),) * 4, _failure(error, texts)
        who = record.consent.who if record.consent else ""
        opened = {"id": record.id, "name": record.name, "seen": record.updated.isoformat(), "clips": clips}
        language = gr.Dropdown(choices=language_choices(record.language), value=record.language or None)
        return opened, record.name, who if who != record.name else "", language, gr.Checkbox(value=False), gr.skip()

    def show_waiting(self, request: gr.Request) -> str:
        """Output: notice, from the click until a worker is free."""
        texts = self._context.texts(request)
        return notice(texts("new.waiting"), "busy")

    async def save_voice(
        self,
        clips: Any,
        name: Any,
        speaker: Any,
        agreed: Any,
        description: Any,
        language: Any,
        changed: Any,
        token: Any,
        request: gr.Request,
    ) -> AsyncIterator[Updates]:
        """Run `save_steps` or `describe_steps` on the pool's threads."""
        if self._context.engine.info.capabilities.designs_voices:
            saving = self.describe_steps(name, description, language, token, request)
        else:
            saving = self.save_steps(clips, name, speaker, agreed, language, changed, token, request)
        try:
            async for updates in self._pool.steps(client_address(request), saving):
                yield updates
        except PoolFull as error:
            yield _failure(error, self._context.texts(request)), *UNCHANGED

    def save_steps(
        self,
        clips: Any,
        name: Any,
        speaker: Any,
        agreed: Any,
        language: Any,
        changed: Any,
        token: Any,
        request: gr.Request,
    ) -> Generator[Updates, None, Updates]:
        """Outputs: notice, empty when the voice is saved; the saved voice (saved_voice.js); change broadcast. The
        browser clears what it has sent (sent_form.js), and opens Speak unless its user is elsewhere by then.

        The last outputs are returned, so that the event ends with them.
        """
        context, texts = self._context, self._context.texts(request)
        try:
            yield steps_html("preparing", texts), *UNCHANGED
            voice = parse_payload(ChangedVoice, changed or None)  # the page may send "" for None
            about = {"language": language, "changed": voice.id, "seen": voice.seen}
            given = parse_payload(VoiceForm, name=name, speaker=speaker, agreed=agreed, **about)
            form = self._check_form(clips, given, token, request)
            used, left_out = split_by_length(form.clips)
            record = self._saved_before(form.name, form.digest, form.owner)
            notes: Sequence[UserMessage] = ()
            if record is None:
                reference = merge_references(
                    [(clip.audio(), clip.words) for clip in used], context.engine.info.sample_rate
                )
                yield steps_html("encoding", texts), *UNCHANGED
                consent = _consent(form.who, texts)
                made = context.engine.encode_voice(form.name, [reference], language=form.language, consent=consent)
                yield steps_html("saving", texts), *UNCHANGED
                record, notes = self._save(made.voice, form), made.notes
            for clip in form.clips:
                delete_upload(clip.path)  # storage has its own copy
        except Exception as error:
            return _failure(error, texts), *UNCHANGED
        return self._saved(record, texts, left_out, notes)

    def describe_steps(
        self, name: Any, description: Any, language: Any, token: Any, request: gr.Request
    ) -> Generator[Updates, None, Updates]:
        """As `save_steps`, for a voice created from a description: the model speaks a sample of it."""
        context, texts = self._context, self._context.texts(request)
        try:
            owner = context.owner(token, request)
            deletion_token = context.storage.deletion_token(owner=owner.key)
            form = self._check_description(name, description, language, owner.key, texts)
            digest = form_digest(form)
            if record := self._saved_before(form.name, digest, owner.key):
                return self._saved(record, texts)
            yield steps_html("speaking", texts, DESCRIBED_STEPS), *UNCHANGED
            spoken = sample_language(context.engine, form.language or texts.language)
            with context.budgets.reserve_take(owner, speaking_time(SAMPLE_TEXTS[spoken]), texts) as reservation:
                sample = speak_sample(context, form.name, form.description, owner=owner.key, language=spoken)
                reservation.spoken = sample.seconds
            yield steps_html("saving", texts, DESCRIBED_STEPS), *UNCHANGED
            record = save_described_voice(
                context,
                form.name,
                form.description,
                sample,
                owner=owner.key,
                deletion_token=deletion_token,
                language=spoken,
            )
            self._saved_forms.add(record.id, digest)
        except Exception as error:
            return _failure(error, texts), *UNCHANGED
        return self._saved(record, texts)

    def use_saved(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """Outputs: Speak's voice picker and notice."""
        texts = self._context.texts(request)
        try:
            owner = self._context.owner(token, request).key
            voice = self._context.storage.voices.get(parse_payload(Item, event).id, owner=owner)
            picker = select_voice(self._context.voices.list(owner=owner), voice.id, texts)
        except Exception as error:
            return gr.skip(), notice(error_message(error, texts), "bad")
        return picker, gr.skip()

    def _saved(
        self,
        record: VoiceRecord,
        texts: Texts,
        left_out: Sequence[ChosenClip] = (),
        notes: Sequence[UserMessage] = (),
    ) -> Updates:
        """Return the outputs of `save_steps` after the voice is saved."""
        names = [texts("shell.quoted", name=clip.name) for clip in left_out]
        missing = [texts("new.left_out", names=names)] if names else []
        message = " ".join([texts("notice.saved", name=record.name), *missing, *map(texts.write, notes)])
        in_speak = notice(f"{message} {texts('notice.now_write')}")
        return "", with_nonce({"id": record.id, "message": message, "notice": in_speak}), broadcast_change("voices")

    def _check_description(self, name: Any, description: Any, language: Any, owner: str, texts: Texts) -> VoiceForm:
        """Parse the form of a described voice. Raises IncompleteForm."""
        form = parse_payload(VoiceForm, name=name, speaker="", agreed=False, description=description, language=language)
        errors = [] if form.description.strip() else [FormError(texts("new.no_description"), "#rp-describe textarea")]
        if problem := self._name_problem(form.name, form_digest(form), owner, texts):
            errors.append(FormError(problem, NAME_FIELD))
        if errors:
            raise IncompleteForm(errors)
        return form

    def _check_form(self, clips: Any, form: VoiceForm, token: Any, request: gr.Request) -> CheckedForm:
        """Check everything that does not need the engine. Raises RepriseError."""
        context, texts = self._context, self._context.texts(request)
        require_cloning(context.engine)
        owner = context.owner(token, request).key
        deletion_token = context.storage.deletion_token(owner=owner)
        chosen = chosen_clips(clips, context.folder)
        errors = list(
            _clip_errors(chosen, clips, texts, needs_transcript=context.engine.info.capabilities.needs_transcript)
        )
        digest = form_digest(form, chosen)
        if problem := self._name_problem(form.name, digest, owner, texts, form.changed):
            errors.append(FormError(problem, NAME_FIELD))
        if not form.agreed:
            errors.append(FormError(texts("notice.no_consent"), "#rp-consent input"))
        if errors:
            raise IncompleteForm(errors)
        cleaned = clean_name(form.name)
        language = voice_language(context.engine, clean_language(form.language))
        who = consenting_speaker(cleaned, form.speaker)
        before = None if self._saved_before(form.name, digest, owner) else self._changed_voice(form, owner)
        return CheckedForm(chosen, cleaned, who, language, owner, deletion_token, digest, before)

    def _changed_voice(self, form: VoiceForm, owner: str) -> VoiceRecord | None:
        """Return the voice whose clips a form changes. Raises VoiceNotFound, VoiceProtected, VoiceChanged."""
        if not form.changed:
            return None
        record = self._context.storage.voices.owned(form.changed, owner=owner)
        if record.updated.isoformat() != form.seen:
            raise VoiceChanged("voices.changed_elsewhere", name=record.name)
        return record

    def _saved_before(self, name: str, digest: bytes, owner: str) -> VoiceRecord | None:
        """Return the owner's voice of this name if it was made from the same form, else None."""
        with suppress(VoiceNotFound, InvalidName):
            found = self._context.storage.voices.find(clean_name(name), owner=owner)
            if self._saved_forms.made(found.id, digest):
                return found
        return None

    def _name_problem(self, name: str, digest: bytes, owner: str, texts: Texts, changed: str = "") -> str:
        """Return why a voice cannot have this name, or "". digest: of its form, which may have been saved before.

        changed: id of the voice that the form changes.
        """
        if not name.strip():
            return texts("new.no_name")
        if self._saved_before(name, digest, owner):
            return ""
        try:
            checked_name(self._context, name, owner, changed)
        except NameTaken as error:
            return texts("new.name_taken", **error.message.values)
        except InvalidName as error:
            return texts.write(error.message)
        return ""

    def _save(self, voice: Voice, form: CheckedForm) -> VoiceRecord:
        by = {"owner": form.owner, "deletion_token": form.deletion_token}
        if form.changed is None:
            record = self._context.storage.voices.add(voice, **by)
        else:
            record = self._context.replace_clips(form.changed, voice, **by)
        self._saved_forms.add(record.id, form.digest)
        return record


def language_choices(chosen: str = "") -> list[tuple[str, str]]:
    """Return the choices of a voice's language. chosen: a tag that is one of them in any case, unless empty."""
    usual = [(own_name(tag), tag) for tag in SAMPLE_TEXTS]
    return usual if chosen in ("", *SAMPLE_TEXTS) else [*usual, (chosen, chosen)]


def consenting_speaker(name: Any, speaker: Any) -> str:
    """Return the speaker's name, by default the voice's name."""
    names = (" ".join(str(each or "").split()) for each in (speaker, name))
    return next(filter(None, names), UNNAMED)


def consent_sentence(who: str, texts: Texts) -> str:
    """Return the consent sentence as shown on the page."""
    return texts("new.consent", who=who)


def _failure(error: Exception, texts: Texts) -> str:
    """Return the notice of an error."""
    if isinstance(error, IncompleteForm):
        return errors_html(error.errors)
    return notice(error_message(error, texts), "bad")


def _clip_errors(
    chosen: Sequence[ChosenClip], value: Any, texts: Texts, *, needs_transcript: bool
) -> Iterator[FormError]:
    """Yield errors about clips. value: the recorder's. needs_transcript: whether the model needs transcripts."""
    if not chosen:
        yield FormError(texts("notice.no_clip"), ".rp-drop button:enabled")
    for index, clip in enumerate(chosen):
        if needs_transcript and not clip.words:
            is_shown = parse_clip_list(value).chosen == index
            field = ".rp-words" if is_shown else f".rp-clip-line:nth-child({index + 1}) .rp-clip-name"
            yield FormError(texts("new.no_words", clip=clip.name), field)


def _consent(who: str, texts: Texts) -> Consent:
    # The sentence is stored in the language in which it was shown.
    return Consent(who=who, when=datetime.now(UTC), sentence=consent_sentence(who, texts))
