"""The events of the voice column: each reads or changes the library and returns what the page should show."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import InvalidInput
from engine.voice import VOICE_FILE_SUFFIX, Consent
from web.components import uploaded_path
from web.owners import owner_of
from web.sentences import notice, sentence_of

if TYPE_CHECKING:
    from engine.engine import Engine
    from storage import VoiceLibrary, VoiceRecord

CONSENT = "I am the speaker, or the speaker has agreed that I clone this voice."
Updates = tuple[Any, ...]


class VoiceEvents:
    """Ids of voices come as the browser sent them; the library says whether they are the owner's."""

    def __init__(self, engine: Engine, library: VoiceLibrary, folder: str | Path) -> None:
        """`folder`: where the page's uploads lie."""
        self._engine = engine
        self._library = library
        self._folder = folder

    def shelf(self, wanted: Any, request: gr.Request) -> Updates:
        """Picker, welcome and managing part as the library is now, with the wanted voice picked."""
        return self._shelf(self._library.list(owner=owner_of(request)), wanted)

    def _shelf(self, voices: Sequence[VoiceRecord], wanted: Any) -> Updates:
        ids = [voice.id for voice in voices]
        picked = wanted if wanted in ids else next(iter(ids), None)
        picker = gr.Dropdown(choices=[(voice.name, voice.id) for voice in voices], value=picked)
        return picker, gr.HTML(visible=not voices), gr.Accordion(visible=bool(voices))

    def arrive(self, remembered: Any, request: gr.Request) -> Updates:
        """Shelf and form when the page is loaded; the form is open when there is nothing to pick."""
        voices = self._library.list(owner=owner_of(request))
        return *self._shelf(voices, remembered), gr.Accordion(open=not voices)

    def save(
        self,
        clip: Any,
        transcript: str,
        name: str,
        speaker: str,
        agreed: bool,
        picked: Any,
        request: gr.Request,
    ) -> Iterator[Updates]:
        """Shelf; notices of form and shelf; form; its five fields, emptied when the voice is saved."""
        unchanged = (gr.skip(),) * 3
        yield *unchanged, notice("Listening to the clip …", "busy"), "", *(gr.skip(),) * 6
        try:
            path = uploaded_path(clip, self._folder)
            record, notes = self._saved(path, transcript, name, speaker, agreed, request)
        except Exception as error:
            yield *unchanged, notice(sentence_of(error), "bad"), "", *(gr.skip(),) * 6
            return
        done = " ".join([f"Saved “{record.name}”.", *notes, "Now write something to say."])
        emptied = (None, "", "", "", False)
        yield *self.shelf(record.id, request), "", notice(done), gr.Accordion(open=False), *emptied

    def _saved(
        self, path: Path | None, transcript: str, name: str, speaker: str, agreed: bool, request: gr.Request
    ) -> tuple[VoiceRecord, tuple[str, ...]]:
        if path is None:
            raise InvalidInput("Record a clip or choose a file first.")
        if not agreed:
            raise InvalidInput("A voice can be saved only when its speaker has agreed: tick the box.")
        consent = Consent(who=speaker.strip() or name.strip(), when=datetime.now(UTC), sentence=CONSENT)
        made = self._engine.encode_voice(name, [(path, transcript)], consent=consent)
        record = self._library.add(made.voice, owner=owner_of(request))
        path.unlink(missing_ok=True)  # the library has what is needed of it
        return record, made.notes

    def look(self, voice_id: Any, request: gr.Request) -> Updates:
        """Name to edit and facts of the voice just picked; the question about deleting is put away."""
        known = {voice.id: voice for voice in self._library.list(owner=owner_of(request))}
        voice = known.get(voice_id)
        return (voice.name if voice else ""), (facts(voice) if voice else ""), gr.Column(visible=False)

    def rename(self, voice_id: Any, name: str, request: gr.Request) -> Updates:
        """Shelf, notice."""
        return self._change(
            lambda voice: f"It is “{self._library.rename(voice, name, owner=owner_of(request)).name}” now.",
            voice_id,
            request,
        )

    def ask(self, voice_id: Any, request: gr.Request) -> Updates:
        """Question about deleting, and its sentence."""
        try:
            name = self._library.get(_id(voice_id), owner=owner_of(request)).name
        except Exception as error:
            return gr.Column(visible=False), notice(sentence_of(error), "bad")
        question = f"Delete “{name}” with its clip for good?"
        return gr.Column(visible=True), f'<p class="rp-question" role="alert">{escape(question)}</p>'

    def delete(self, voice_id: Any, request: gr.Request) -> Updates:
        """Shelf, notice, question put away."""

        def gone(voice: str) -> str:
            name = self._library.get(voice, owner=owner_of(request)).name
            self._library.delete(voice, owner=owner_of(request))
            return f"“{name}” is deleted."

        return *self._change(gone, voice_id, request), gr.Column(visible=False)

    def export(self, voice_id: Any, request: gr.Request) -> Updates:
        """Courier, notice."""
        owner = owner_of(request)
        try:
            name = self._library.get(_id(voice_id), owner=owner).name
            data = self._library.export_voice(_id(voice_id), owner=owner)
        except Exception as error:
            return None, notice(sentence_of(error), "bad")
        file = {"name": name + VOICE_FILE_SUFFIX, "data": base64.b64encode(data).decode()}
        return file, notice(f"“{name}” is on its way to your downloads.")

    def take_in(self, upload: Any, picked: Any, request: gr.Request) -> Updates:
        """Shelf, notice: a voice file that someone chose to import."""
        try:
            path = uploaded_path(upload, self._folder)
            if path is None:
                raise InvalidInput("Choose a voice file first.")
            record = self._library.import_voice(path.read_bytes(), owner=owner_of(request))
            path.unlink(missing_ok=True)
        except Exception as error:
            return *self.shelf(picked, request), notice(sentence_of(error), "bad")
        return *self.shelf(record.id, request), notice(f"Imported “{record.name}”.")

    def _change(self, change: Callable[[str], str], voice_id: Any, request: gr.Request) -> Updates:
        try:
            said = notice(change(_id(voice_id)))
        except Exception as error:
            said = notice(sentence_of(error), "bad")
        return *self.shelf(voice_id, request), said


def facts(voice: VoiceRecord) -> str:
    """HTML of what is known of a voice."""
    parts = [f"{voice.duration:.1f} s of speech", f"saved on {_day(voice.created)}"]
    if voice.consent:
        parts.append(f"agreed by {voice.consent.who} on {_day(voice.consent.when)}")
    return f'<p class="rp-facts">{escape(" · ".join(parts))}</p>'


def _day(when: datetime) -> str:
    return f"{when.day} {when:%B %Y}"


def _id(voice_id: Any) -> str:
    if not isinstance(voice_id, str) or not voice_id:
        raise InvalidInput("Pick a voice first.")
    return voice_id
