"""Making a voice of clips."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr

from engine.audio.merge import merge_clips, merge_transcripts
from engine.errors import InvalidInput, InvalidName, VoiceNotFound
from engine.voice import Consent, clean_name
from web.identity.addresses import address_of
from web.limits.budgets import PoolFull
from web.limits.pools import Pool
from web.tabs.library import views
from web.tabs.new_voice.clips import ChosenClip, chosen_clips, fitting, sent_clips
from web.ui.events import Line, Sent, otherwise, parsed
from web.ui.messages import notice, sentence_of
from web.ui.wiring import ring

if TYPE_CHECKING:
    from storage import VoiceRecord
    from web.context import House
    from web.ui.i18n import Words

Updates = tuple[Any, ...]
FIELDS = 4
AT_ONCE, LINE, EACH = 1, 16, 4  # voices being made, with those that wait, and of these from one address
STEPS = ("preparing", "encoding", "saving")
NOBODY = "…"  # stands in the sentence of consent until there is a name


class Names(Sent):
    """The voice's name, and the speaker's where it is another; what is no text is none."""

    name: Annotated[Line, otherwise("")]
    speaker: Annotated[Line, otherwise("")]


class Save(Names):
    """The form without its clips. agreed: the tick."""

    agreed: Annotated[bool, otherwise(False)]


@dataclass(frozen=True)
class Form:
    """The form as it was sent, checked. who: agrees that the voice is cloned. owner: a key."""

    clips: tuple[ChosenClip, ...]
    name: str
    who: str
    owner: str


@dataclass(frozen=True)
class Fault:
    """What is missing or wrong in a form, as a sentence; field: where that is mended, as a CSS selector."""

    sentence: str
    field: str


class Unfinished(InvalidInput):
    """A form that cannot be saved yet, and all that is to be done about it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(" ".join(fault.sentence for fault in faults))
        self.faults = faults


class Cloning:
    """The events of the New voice tab. Values come as the browser sent them, so each is checked."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._pool = Pool(AT_ONCE, LINE, EACH)

    def sentence(self, name: Any, speaker: Any, request: gr.Request) -> gr.Checkbox:
        """What is agreed to, with the name of who agrees."""
        names = parsed(Names, name=name, speaker=speaker)
        who = who_agrees(names.name, names.speaker)
        return gr.Checkbox(label=consent_sentence(who, self._house.words(request)))

    def begin(self, request: gr.Request) -> str:
        """The tab's notice from the click until its turn has come."""
        words = self._house.words(request)
        return notice(words("new.waiting"), "busy")

    async def save_in_turn(
        self, clips: Any, name: Any, speaker: Any, agreed: Any, token: Any, request: gr.Request
    ) -> AsyncIterator[Updates]:
        """As `save`, on threads that voices are made on."""
        saving = self.save(clips, name, speaker, agreed, token, request)
        try:
            async for updates in self._pool.steps(address_of(request), saving):
                yield updates
        except PoolFull as error:
            yield notice(sentence_of(error, self._house.words(request)), "bad"), *(gr.skip(),) * (FIELDS + 4)

    def save(
        self, clips: Any, name: Any, speaker: Any, agreed: Any, token: Any, request: gr.Request
    ) -> Generator[Updates, None, None]:
        """The tab's notice; the four fields, emptied when the voice is saved; Speak's picker and notice, the tab to
        show, the bell."""
        house, words = self._house, self._house.words(request)
        unchanged = (gr.skip(),) * (FIELDS + 4)
        try:
            yield steps("preparing", words), *unchanged
            form = self._form(clips, name, speaker, agreed, token, request)
            used, left = fitting(form.clips)
            reference = self._reference(used)
            yield steps("encoding", words), *unchanged
            made = house.engine.encode_voice(form.name, [reference], consent=_consent(form.who, words))
            yield steps("saving", words), *unchanged
            record = self._kept(made.voice, form)
        except Unfinished as error:
            yield to_do(error.faults), *unchanged
            return
        except Exception as error:
            yield notice(sentence_of(error, words), "bad"), *unchanged
            return
        emptied = None, "", "", gr.Checkbox(value=False, label=consent_sentence(NOBODY, words))
        picker = views.picker(house, form.owner, record.id, words)
        said = notice(self._done(record, left, made.notes, words))
        yield "", *emptied, picker, said, gr.Tabs(selected="speak"), ring("voices")

    def _form(self, clips: Any, name: Any, speaker: Any, agreed: Any, token: Any, request: gr.Request) -> Form:
        """Everything that can be refused before the engine is put to work. Raises RepriseError."""
        house, words = self._house, self._house.words(request)
        owner = house.owner(token, request).key
        sent, chosen = parsed(Save, name=name, speaker=speaker, agreed=agreed), chosen_clips(clips, house.folder)
        faults = list(_clip_faults(chosen, clips, words))
        if wrong := self._wrong_with(sent.name, owner, words):
            faults.append(Fault(wrong, "#rp-name :is(input, textarea)"))
        if not sent.agreed:
            faults.append(Fault(words("notice.no_consent"), "#rp-consent input"))
        if faults:
            raise Unfinished(faults)
        cleaned = clean_name(sent.name)
        return Form(chosen, cleaned, who_agrees(cleaned, sent.speaker), owner)

    def _wrong_with(self, name: str, owner: str, words: Words) -> str:
        """Why a voice cannot have this name; "" where it can."""
        if not name.strip():
            return words("new.no_name")
        try:
            taken = self._house.studio.voices.find(clean_name(name), owner=owner)
        except VoiceNotFound:
            return ""
        except InvalidName as error:
            return str(error)
        return "" if taken.shared else words("new.name_taken", name=taken.name)

    def _reference(self, clips: Sequence[ChosenClip]) -> tuple[bytes | Path, str]:
        """One clip and its words, whatever their number: a prompt's references are its speakers."""
        if len(clips) == 1:
            return clips[0].audio(), clips[0].words
        joined = merge_clips([clip.audio() for clip in clips], self._house.engine.sample_rate)
        return joined, merge_transcripts([clip.words for clip in clips])

    def _kept(self, voice: Any, form: Form) -> VoiceRecord:
        record = self._house.studio.voices.add(voice, owner=form.owner)
        for clip in form.clips:
            clip.forget(self._house.folder)  # the library has what is needed of it
        return record

    def _done(self, record: VoiceRecord, left: Sequence[ChosenClip], notes: Sequence[str], words: Words) -> str:
        names = ", ".join(f"“{clip.name}”" for clip in left)
        missing = [words("new.left_out", names=names)] if names else []
        return " ".join([words("notice.saved", name=record.name), *missing, *notes, words("notice.now_write")])


def who_agrees(name: Any, speaker: Any) -> str:
    """The speaker, who has the voice's name where nobody says otherwise."""
    names = (" ".join(str(each or "").split()) for each in (speaker, name))
    return next(filter(None, names), NOBODY)


def consent_sentence(who: str, words: Words) -> str:
    """What is agreed to, as it stands on the page."""
    return words("new.consent", who=who)


def to_do(faults: Sequence[Fault]) -> str:
    """HTML of all that is in the way of saving. The page goes to the first one's field (tab.py)."""
    lines = "".join(f"<li>{escape(fault.sentence)}</li>" for fault in faults)
    field = escape(faults[0].field)
    return f'<ul class="rp-notice rp-bad rp-faults" role="alert" data-field="{field}">{lines}</ul>'


def steps(now: str, words: Words) -> str:
    """HTML of how far saving is."""
    at = STEPS.index(now)
    states = ("done", "now", "next")
    lines = "".join(
        f'<li data-step="{states[(i >= at) + (i > at)]}"{" aria-current=step" if i == at else ""}>'
        f"{escape(words(f'new.step_{step}'))}</li>"
        for i, step in enumerate(STEPS)
    )
    said = f'<span class="rp-unseen" role="status">{escape(words(f"new.step_{now}"))}</span>'
    return f'<div class="rp-notice rp-busy rp-steps"><ol>{lines}</ol>{said}</div>'


def _clip_faults(chosen: Sequence[ChosenClip], value: Any, words: Words) -> Iterator[Fault]:
    """value: what the clips were chosen from, which says whose words are shown."""
    if not chosen:
        yield Fault(words("notice.no_clip"), ".rp-drop button:enabled")
    for index, clip in enumerate(chosen):
        if not clip.words:
            shown = sent_clips(value).chosen == index
            field = ".rp-words" if shown else f".rp-clip-line:nth-child({index + 1}) .rp-clip-name"
            yield Fault(words("new.no_words", clip=clip.name), field)


def _consent(who: str, words: Words) -> Consent:
    # The sentence that was agreed to is the one that stood there, in that language.
    return Consent(who=who, when=datetime.now(UTC), sentence=consent_sentence(who, words))
