"""Keeping voices: describing, copying, deleting and taking them back, handing out and taking in.

Most events answer with the list's value, as library.js takes it: what is on the shelf (`shelf.contents`), `at`, when
it was looked up, `aside`, what was deleted and can be put back, and `answer`, what came of what was pressed:

    kind    "good" or "bad"        text    a sentence, or ""        lines    more of them
    id      of the voice that it is about, or ""        once    another each time
    instead of the voice that is picked now, where the one that it is about was; else ""
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from pydantic import Field

from engine.errors import InvalidInput
from storage.library import TRASH_RETENTION
from web.downloads.voice_archive import voice_files_in
from web.tabs.library import views
from web.ui.events import Id, Line, Picked, Sent, otherwise, parsed
from web.ui.messages import sentence_of
from web.ui.wiring import ring, skips
from web.uploads import uploaded_name, uploaded_path

if TYPE_CHECKING:
    from web.context import House
    from web.identity.owners import Owner
    from web.ui.i18n import Words

Updates = tuple[Any, ...]
Answer = dict[str, Any]
MOST_UPLOADS = 200  # files in one go
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")


class About(Sent):
    """The voice that an answer is about."""

    id: Picked


class OfVoice(Sent):
    """A voice. picked: whether it is the one that speaks."""

    id: Id
    picked: bool = False


class Revise(Sent):
    """A voice, and of what describes it that which is to be otherwise."""

    id: Id
    name: Line | None = None
    language: Line | None = None
    description: Line | None = None
    tags: Annotated[list[Line], Field(max_length=1_000)] | None = None


class TakeIn(Sent):
    """Uploaded files, each as `uploaded_path` takes it, with its name."""

    files: Annotated[list[Any], Field(max_length=MOST_UPLOADS), otherwise([])]


class Keeping:
    """The events of the Library tab. Ids come as the browser sent them; the library says what they are worth."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._library = house.studio.voices

    @skips(1)
    def list(self, token: Any, request: gr.Request) -> Any:
        """The list as it is now."""
        return self._value(self._house.owner(token, request))

    def revise(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """List, bell. The event: `id`, and of name, language, description and tags those that are to be others."""

        def revised(owner: str, words: Words) -> str:
            sent = parsed(Revise, event)
            before = self._library.get(sent.id, owner=owner).name
            after = self._library.update(sent.id, **_changes(sent, words), owner=owner).name
            return words("library.saved", name=after) if after == before else words("library.renamed", name=after)

        return self._change(revised, event, token, request)

    def duplicate(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """List, bell."""

        def copied(owner: str, words: Words) -> str:
            voice = parsed(OfVoice, event).id
            return words("library.copied", name=self._library.duplicate(voice, owner=owner).name)

        return self._change(copied, event, token, request)

    def remove(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """List, bell, Speak's picker. What was removed is in the list's `aside`, which says so.

        The event: `id`, and `picked`, whether it is the voice that speaks: then the first of the others is picked.
        """
        picker: Any = gr.skip()

        def removed(owner: Owner, words: Words) -> Answer:
            nonlocal picker
            sent = parsed(OfVoice, event)
            views.forget_voice(self._house, owner.key, sent.id)
            self._library.trash(sent.id, owner=owner.key)
            others = self._library.list(owner=owner.key)
            if not others or not sent.picked:
                return _answer("", about=sent.id)
            picker = views.picker_of(others, None, words)
            return _answer(words("library.speaks_now", name=others[0].name), about=sent.id, instead=others[0].id)

        return *self._answered(removed, token, request, about=_about(event)), picker

    def put_back(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """List, bell, Speak's picker. The event: `id`, and `picked`, whether it is to speak again."""
        picker: Any = gr.skip()

        def back(owner: Owner, words: Words) -> Answer:
            nonlocal picker
            sent = parsed(OfVoice, event)
            before = next((each.name for each in self._library.trashed(owner=owner.key) if each.id == sent.id), "")
            name = self._library.restore(sent.id, owner=owner.key).name
            if sent.picked:
                picker = views.picker(self._house, owner.key, sent.id, words)
            if before in ("", name):
                return _answer(words("library.back", name=name), about=sent.id)
            return _answer(words("library.back_as", before=before, name=name), about=sent.id)

        return *self._answered(back, token, request, about=_about(event)), picker

    def let_go(self, token: Any, request: gr.Request) -> Updates:
        """List, bell: what was deleted is deleted for good."""

        def gone(owner: Owner, words: Words) -> Answer:
            self._library.empty_trash(owner=owner.key)
            return _answer(words("library.gone"))

        return self._answered(gone, token, request)

    def take_in(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """List, bell. The event: `files`, uploaded voice files and archives of them, each with its `name`."""

        def taken(owner: Owner, words: Words) -> Answer:
            files = parsed(TakeIn, event).files
            if not files:
                raise InvalidInput(words("library.no_file"))
            done = [each for file in files for each in self._imported(file, owner.key, words)]
            names = ", ".join(f"“{name}”" for name, why in done if not why)
            lines = [words("library.not_imported", name=name, why=why) for name, why in done if why]
            said = words("library.imported", names=names) if names else words("library.none_imported")
            return _answer(said, kind="bad" if lines or not names else "good", lines=lines)

        return self._answered(taken, token, request)

    def speak_with(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """Speak's picker, the tab to show, list."""
        words = self._house.words(request)
        try:
            owner = self._house.owner(token, request)
            voice = self._library.get(parsed(OfVoice, event).id, owner=owner.key)
            return views.picker(self._house, owner.key, voice.id, words), gr.Tabs(selected="speak"), gr.skip()
        except Exception as error:
            return gr.skip(), gr.skip(), {"answer": _answer(sentence_of(error, words), kind="bad")}

    def _change(
        self, change: Callable[[str, Words], str], event: gr.EventData, token: Any, request: gr.Request
    ) -> Updates:
        """`change` is given the owner's key and words, and gives the sentence to say."""
        voice = _about(event)

        def changed(owner: Owner, words: Words) -> Answer:
            return _answer(change(owner.key, words), about=voice)

        return self._answered(changed, token, request, about=voice)

    def _answered(
        self, act: Callable[[Owner, Words], Answer], token: Any, request: gr.Request, about: str = ""
    ) -> Updates:
        words = self._house.words(request)
        try:
            owner = self._house.owner(token, request)
            try:
                answer = act(owner, words)
            except Exception as error:
                answer = _answer(sentence_of(error, words), kind="bad", about=about)
            return {**self._value(owner), "answer": answer}, ring("voices")
        except Exception as error:  # there is no list to show with it
            return {"answer": _answer(sentence_of(error, words), kind="bad", about=about)}, gr.skip()

    def _value(self, owner: Owner) -> dict[str, Any]:
        at = time.time()  # what was looked up later is newer: events may overtake each other
        until = datetime.now(UTC) - TRASH_RETENTION
        aside = [
            {"id": each.id, "name": each.name, "left": (each.trashed - until).total_seconds()}
            for each in self._library.trashed(owner=owner.key)
            if each.trashed
        ]
        return {"at": at, **views.contents(self._house, owner), "aside": aside}

    def _imported(self, file: Any, owner: str, words: Words) -> Iterator[tuple[str, str]]:
        """Imports what is in an upload: the name of each voice with "", or of a file with why it was not imported."""
        name = uploaded_name(file)
        path: Path | None = None
        try:
            path = uploaded_path(file, self._house.folder)
            if path is None:
                raise InvalidInput(words("library.no_file"))
            for inner, data in voice_files_in(path, name or path.name, words):
                yield self._import(inner, data, owner, words)
        except Exception as error:
            yield name, sentence_of(error, words)
        finally:
            if path is not None:
                path.unlink(missing_ok=True)

    def _import(self, name: str, data: bytes, owner: str, words: Words) -> tuple[str, str]:
        try:
            return self._library.import_voice(data, owner=owner).name, ""
        except Exception as error:
            return name, sentence_of(error, words)


def _answer(
    text: str, *, kind: str = "good", lines: list[str] | None = None, about: str = "", instead: str = ""
) -> Answer:
    once = secrets.token_hex(4)
    return {"kind": kind, "text": text, "lines": lines or [], "id": about, "instead": instead, "once": once}


def _about(event: gr.EventData) -> str:
    """The id of the voice that an event is about, whatever else is sent with it; "" where there is none."""
    sent = event._data if isinstance(event._data, dict) else {}
    return parsed(About, id=sent.get("id")).id


def _changes(sent: Revise, words: Words) -> dict[str, Any]:
    """What is to be changed of a voice. Raises InvalidInput for what can be no language."""
    if sent.language and not _LANGUAGE.fullmatch(sent.language):
        raise InvalidInput(words("library.no_language", language=sent.language[:40]))
    return sent.model_dump(exclude={"id"}, exclude_none=True)
