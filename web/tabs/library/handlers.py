"""Handlers of the Library tab: edit, copy, delete, restore, export and import voices.

Most handlers return the list's value (`library_view`) with `answer`, the outcome of the user's action:

    kind    "good" or "bad"        text    a sentence, or ""        lines    further sentences
    id      id of the affected voice, or ""        nonce   different each time
    replacement   id of the voice now selected in place of the affected one, or ""
    imported   for imports: the number of voices that are saved now
    offers  for imports with taken names: `line`, a sentence; `file`, the path of the upload, and `voice`, the position
            in it; `free`, a free name
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from pydantic import ConfigDict, Field

from engine.errors import InvalidInput
from engine.voice import Voice
from storage.errors import NameTaken
from studio.pictures.portraits import make_portrait
from studio.voices.languages import clean_language
from studio.voices.voice_archive import MAX_FILES, VoiceArchive
from web.gradio_internals import event_value
from web.tabs.library.views import library_view
from web.ui.events import broadcast_change, skip_on_error, with_nonce
from web.ui.messages import error_message
from web.ui.payloads import Id, Item, Payload, SelectedId, ShortText, affected_id, default_if_invalid, parse_payload
from web.ui.voice_picker import select_voice
from web.uploads.files import delete_upload, uploaded_name, uploaded_path

if TYPE_CHECKING:
    from storage import VoiceRecord
    from web.context import WebContext
    from web.identity.owners import Owner
    from web.ui.i18n import Texts

Updates = tuple[Any, ...]
Answer = dict[str, Any]
MAX_UPLOADS = 200  # files per import


class RestoredVoice(Item):
    """A deleted voice. replacement: the voice that was selected in its place when it was deleted, or ""."""

    replacement: SelectedId = ""


class VoiceChanges(Payload):
    """A voice and the fields to change."""

    id: Id
    name: ShortText | None = None
    language: ShortText | None = None
    description: ShortText | None = None
    tags: Annotated[list[ShortText], Field(max_length=1_000)] | None = None


class VoicePicture(Payload):
    """A voice whose picture is removed if `remove`, else replaced by the upload in the same event."""

    model_config = ConfigDict(extra="ignore")

    id: Id
    remove: bool = False


class ImportedFiles(Payload):
    """Uploaded files: for each, the fields that `uploaded_path` parses, its name, and optionally those of `Renames`.

    id: of this batch of files; it is that of the answer, too.
    """

    id: SelectedId = ""
    files: Annotated[list[Any], Field(max_length=MAX_UPLOADS), default_if_invalid([])]


class Renames(Payload):
    """The voices of a file to import under new names. names: by position; None imports all under their own names."""

    names: Annotated[dict[str, ShortText], Field(max_length=MAX_FILES)] | None = None


@dataclass(frozen=True)
class Imported:
    """The outcome of importing one voice. name: the voice's; on failure, the file's. why: the failure, or "".

    taken: the voice's name if it failed because the name is taken. place: path of the upload, and index of the voice
    in it.
    """

    name: str
    why: str = ""
    taken: str = ""
    place: tuple[str, int] = ("", 0)


class LibraryHandlers:
    """Event handlers of the Library tab. Ids are untrusted: storage looks them up under the owner."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._library = context.storage.voices

    @skip_on_error(1)
    def list_voices(self, token: Any, request: gr.Request) -> Any:
        """Output: list."""
        return library_view(self._context, self._context.owner(token, request), self._context.texts(request))

    def update_voice(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """Outputs: list, change broadcast. Event: `id`, and any of name, language, description, tags."""

        def update(owner: Owner, texts: Texts) -> Answer:
            changes = parse_payload(VoiceChanges, event)
            before = self._library.get(changes.id, owner=owner.key).name
            after = self._library.update(changes.id, **_changed_fields(changes), owner=owner.key).name
            text = texts("library.saved" if after == before else "library.renamed", name=after)
            return {**_answer(text, about=changes.id), "saved": True}

        return self._answer_action(update, token, request, about=affected_id(event))

    def change_picture(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """Outputs: list, change broadcast. Event: `id`, and an uploaded picture or `remove`."""

        def change(owner: str, texts: Texts) -> str:
            asked, path = parse_payload(VoicePicture, event), None
            name = self._library.owned(asked.id, owner=owner).name
            try:
                path = None if asked.remove else uploaded_path(event_value(event), self._context.folder)
                if path is None and not asked.remove:
                    raise InvalidInput("notice.upload_gone")
                picture = make_portrait(path) if path else b""
            finally:
                if path is not None:
                    delete_upload(path)
            self._context.storage.portraits.put(asked.id, picture, owner=owner)
            return texts("library.pictured" if picture else "library.unpictured", name=name)

        return self._change(change, event, token, request)

    def duplicate_voice(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """Outputs: list, change broadcast."""

        def duplicate(owner: str, texts: Texts) -> str:
            voice = parse_payload(Item, event).id
            return texts("library.copied", name=self._library.duplicate(voice, owner=owner).name)

        return self._change(duplicate, event, token, request)

    def delete_voice(self, event: gr.EventData, selected: Any, token: Any, request: gr.Request) -> Updates:
        """Outputs: list, change broadcast, voice picker. The deleted voice is in the list's `aside`.

        selected: the picker's value. If it is the deleted voice, the first of the others is selected.
        """
        picker: Any = gr.skip()

        def delete(owner: Owner, texts: Texts) -> Answer:
            nonlocal picker
            voice = parse_payload(Item, event).id
            self._context.trash_voice(voice, owner=owner.key)
            others = self._context.voices.list(owner=owner.key)
            if not others or voice != selected:
                return _answer("", about=voice)
            picker = select_voice(others, None, texts)
            return _answer(texts("library.speaks_now", name=others[0].name), about=voice, replacement=others[0].id)

        return *self._answer_action(delete, token, request, about=affected_id(event)), picker

    def restore_voice(self, event: gr.EventData, selected: Any, token: Any, request: gr.Request) -> Updates:
        """Outputs: list, change broadcast, voice picker. The voice is selected again unless the visitor has selected
        another one since it was deleted.

        selected: the picker's value.
        """
        picker: Any = gr.skip()

        def restore(owner: Owner, texts: Texts) -> Answer:
            nonlocal picker
            voice = parse_payload(RestoredVoice, event)
            before = next((each.name for each in self._library.trashed(owner=owner.key) if each.id == voice.id), "")
            name = self._library.restore(voice.id, owner=owner.key).name
            if voice.replacement and voice.replacement == selected:
                picker = select_voice(self._context.voices.list(owner=owner.key), voice.id, texts)
            if before in ("", name):
                return _answer(texts("library.back", name=name), about=voice.id)
            return _answer(texts("library.back_as", before=before, name=name), about=voice.id)

        return *self._answer_action(restore, token, request, about=affected_id(event)), picker

    def purge_deleted(self, token: Any, request: gr.Request) -> Updates:
        """Outputs: list, change broadcast. Empties the owner's trash."""

        def purge(owner: Owner, texts: Texts) -> Answer:
            self._library.empty_trash(owner=owner.key)
            return _answer(texts("library.gone"))

        return self._answer_action(purge, token, request)

    def import_voices(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """Outputs: list, change broadcast. Event: `files`, uploaded voice files and archives, each with its `name`.

        For taken names, the answer has `offers`: free names that the page can send again with the file, as `names`.
        """

        def import_files(owner: Owner, texts: Texts) -> Answer:
            files = parse_payload(ImportedFiles, event).files
            if not files:
                raise InvalidInput(texts("library.no_file"))
            deletion_token = self._context.storage.deletion_token(owner=owner.key)
            save = partial(self._library.import_voice, owner=owner.key, deletion_token=deletion_token)
            done = [each for file in files for each in self._import_upload(file, save, texts)]
            names = [texts("shell.quoted", name=each.name) for each in done if not each.why]
            failed = [(texts("library.not_imported", name=each.name, why=each.why), each) for each in done if each.why]
            text = texts("library.imported", names=names) if names else texts("library.none_imported")
            lines = [line for line, each in failed if not each.taken]
            offers = [self._offer(line, each, owner.key) for line, each in failed if each.taken]
            kind = "bad" if failed or not names else "good"
            answer = _answer(text, kind=kind, lines=lines, about=batch)
            return {**answer, "offers": offers, "imported": len(names)}

        batch = affected_id(event)
        return self._answer_action(import_files, token, request, about=batch)

    def speak_with_voice(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """Outputs: voice picker, tab to show, list."""
        texts = self._context.texts(request)
        try:
            owner = self._context.owner(token, request)
            voice = self._library.get(parse_payload(Item, event).id, owner=owner.key)
            picker = select_voice(self._context.voices.list(owner=owner.key), voice.id, texts)
            return picker, gr.Tabs(selected="speak"), gr.skip()
        except Exception as error:
            return gr.skip(), gr.skip(), {"answer": _answer(error_message(error, texts), kind="bad")}

    def _change(
        self, change: Callable[[str, Texts], str], event: gr.EventData, token: Any, request: gr.Request
    ) -> Updates:
        """Run a change. change: takes the owner's key and the texts, and returns the text to show."""
        voice = affected_id(event)

        def act(owner: Owner, texts: Texts) -> Answer:
            return _answer(change(owner.key, texts), about=voice)

        return self._answer_action(act, token, request, about=voice)

    def _answer_action(
        self, act: Callable[[Owner, Texts], Answer], token: Any, request: gr.Request, about: str = ""
    ) -> Updates:
        texts = self._context.texts(request)
        try:
            owner = self._context.owner(token, request)
            try:
                answer = act(owner, texts)
            except Exception as error:
                answer = _answer(error_message(error, texts), kind="bad", about=about)
            return {**library_view(self._context, owner, texts), "answer": answer}, broadcast_change("listed")
        except Exception as error:  # no list to return
            return {"answer": _answer(error_message(error, texts), kind="bad", about=about)}, gr.skip()

    def _import_upload(self, file: Any, save: Callable[..., VoiceRecord], texts: Texts) -> Iterator[Imported]:
        """Import the voices of an upload, or only those in its `names`. save: takes the bytes of one, and its name."""
        name = uploaded_name(file)
        path: Path | None = None
        try:
            path = uploaded_path(file, self._context.folder)
            if path is None:
                raise InvalidInput(texts("library.no_file"))
            renames = parse_payload(Renames, names=file.get("names")).names
            for position, (inner, data) in enumerate(VoiceArchive(path, name or path.name).voice_files()):
                if renames is None or str(position) in renames:
                    imported = _import_voice(inner, data, save, texts, (renames or {}).get(str(position)))
                    yield replace(imported, place=(file["path"], position))
        except Exception as error:
            yield Imported(name, error_message(error, texts))
        finally:
            if path is not None:
                delete_upload(path)

    def _offer(self, line: str, failed: Imported, owner: str) -> dict[str, Any]:
        """Return an offer of a free name for a voice. Call it after all other voices are imported."""
        file, voice = failed.place
        return {"line": line, "file": file, "voice": voice, "free": self._library.free_name(failed.taken, owner=owner)}


def _import_voice(file: str, data: bytes, save: Callable[..., VoiceRecord], texts: Texts, name: str | None) -> Imported:
    """Import one voice. file: file name. save: as for `_import_upload`. name: None for the name in the file."""
    try:
        return Imported(save(data, name=name).name)
    except NameTaken as error:
        return Imported(file, error_message(error, texts), name or Voice.from_bytes(data).name)
    except Exception as error:
        return Imported(file, error_message(error, texts))


def _answer(
    text: str, *, kind: str = "good", lines: list[str] | None = None, about: str = "", replacement: str = ""
) -> Answer:
    return with_nonce({"kind": kind, "text": text, "lines": lines or [], "id": about, "replacement": replacement})


def _changed_fields(changes: VoiceChanges) -> dict[str, Any]:
    """Return the fields to change. Raises InvalidInput for an invalid language tag."""
    fields = changes.model_dump(exclude={"id"}, exclude_none=True)
    return fields | {"language": clean_language(changes.language)} if changes.language else fields
