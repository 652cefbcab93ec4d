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
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import InvalidInput
from storage.library import UNDO_TIME
from web.face.sentences import sentence_of
from web.face.wiring import ring
from web.library import shelf
from web.library.parcels import voice_files_in
from web.uploads import uploaded_path

if TYPE_CHECKING:
    from web.face.translations import Words
    from web.house import House
    from web.visitors.owners import Owner

Updates = tuple[Any, ...]
Answer = dict[str, Any]
MOST_UPLOADS = 200  # files in one go
TEXTS = ("name", "language", "description")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")


class Keeping:
    """The events of the Library tab. Ids come as the browser sent them; the library says what they are worth."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._library = house.studio.voices

    def list(self, token: Any, request: gr.Request) -> Any:
        """The list as it is now."""
        try:
            return self._value(self._house.owner(token, request))
        except InvalidInput:  # the page is about to be given another key
            return gr.skip()

    def revise(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """List, bell. The event: `id`, and of name, language, description and tags those that are to be others."""

        def revised(voice: str, owner: str, words: Words) -> str:
            before = self._library.get(voice, owner=owner).name
            after = self._library.update(voice, **_changes(event, words), owner=owner).name
            return words("library.saved", name=after) if after == before else words("library.renamed", name=after)

        return self._change(revised, event, token, request)

    def duplicate(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """List, bell."""

        def copied(voice: str, owner: str, words: Words) -> str:
            return words("library.copied", name=self._library.duplicate(voice, owner=owner).name)

        return self._change(copied, event, token, request)

    def remove(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """List, bell, Speak's picker. What was removed is in the list's `aside`, which says so.

        The event: `id`, and `picked`, whether it is the voice that speaks: then the first of the others is picked.
        """
        voice = getattr(event, "id", None)
        picker: Any = gr.skip()

        def removed(owner: Owner, words: Words) -> Answer:
            nonlocal picker
            self._library.set_aside(shelf.checked_id(voice, words), owner=owner.key)
            others = self._library.list(owner=owner.key)
            if not others or getattr(event, "picked", None) is not True:
                return _answer("", about=voice)
            picker = shelf.picker_of(others, None, words)
            return _answer(words("library.speaks_now", name=others[0].name), about=voice, instead=others[0].id)

        return *self._answered(removed, token, request, about=voice), picker

    def put_back(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """List, bell, Speak's picker. The event: `id`, and `picked`, whether it is to speak again."""
        voice = getattr(event, "id", None)
        picker: Any = gr.skip()

        def back(owner: Owner, words: Words) -> Answer:
            nonlocal picker
            voice_id = shelf.checked_id(voice, words)
            before = next((each.name for each in self._library.aside(owner=owner.key) if each.id == voice_id), "")
            name = self._library.put_back(voice_id, owner=owner.key).name
            if getattr(event, "picked", None) is True:
                picker = shelf.picker(self._house, owner.key, voice_id, words)
            if before in ("", name):
                return _answer(words("library.back", name=name), about=voice)
            return _answer(words("library.back_as", before=before, name=name), about=voice)

        return *self._answered(back, token, request, about=voice), picker

    def let_go(self, token: Any, request: gr.Request) -> Updates:
        """List, bell: what was deleted is deleted for good."""

        def gone(owner: Owner, words: Words) -> Answer:
            self._library.delete_aside(owner=owner.key)
            return _answer(words("library.gone"))

        return self._answered(gone, token, request)

    def take_in(self, event: gr.EventData, token: Any, request: gr.Request) -> Updates:
        """List, bell. The event: `files`, uploaded voice files and archives of them, each with its `name`."""

        def taken(owner: Owner, words: Words) -> Answer:
            files = getattr(event, "files", None)
            if not isinstance(files, list) or not 0 < len(files) <= MOST_UPLOADS:
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
            voice = self._library.get(shelf.checked_id(getattr(event, "id", None), words), owner=owner.key)
            return shelf.picker(self._house, owner.key, voice.id, words), gr.Tabs(selected="speak"), gr.skip()
        except Exception as error:
            return gr.skip(), gr.skip(), {"answer": _answer(sentence_of(error, words), kind="bad")}

    def _change(
        self, change: Callable[[str, str, Words], str], event: gr.EventData, token: Any, request: gr.Request
    ) -> Updates:
        """`change` is given the voice's id, the owner's key and words, and gives the sentence to say."""
        voice = getattr(event, "id", None)

        def changed(owner: Owner, words: Words) -> Answer:
            return _answer(change(shelf.checked_id(voice, words), owner.key, words), about=voice)

        return self._answered(changed, token, request, about=voice)

    def _answered(
        self, act: Callable[[Owner, Words], Answer], token: Any, request: gr.Request, about: Any = ""
    ) -> Updates:
        words = self._house.words(request)
        try:
            owner = self._house.owner(token, request)
        except InvalidInput as error:
            return {"answer": _answer(str(error), kind="bad", about=about)}, gr.skip()
        try:
            answer = act(owner, words)
        except Exception as error:
            answer = _answer(sentence_of(error, words), kind="bad", about=about)
        return {**self._value(owner), "answer": answer}, ring("voices")

    def _value(self, owner: Owner) -> dict[str, Any]:
        at = time.time()  # what was looked up later is newer: events may overtake each other
        until = datetime.now(UTC) - UNDO_TIME
        aside = [
            {"id": each.id, "name": each.name, "left": (each.set_aside - until).total_seconds()}
            for each in self._library.aside(owner=owner.key)
            if each.set_aside
        ]
        return {"at": at, **shelf.contents(self._house, owner), "aside": aside}

    def _imported(self, file: Any, owner: str, words: Words) -> Iterator[tuple[str, str]]:
        """Imports what is in an upload: the name of each voice with "", or of a file with why it was not imported."""
        name = str(file.get("name") or "")[:200] if isinstance(file, dict) else ""
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
    text: str, *, kind: str = "good", lines: list[str] | None = None, about: Any = "", instead: str = ""
) -> Answer:
    named, once = about if isinstance(about, str) else "", secrets.token_hex(4)
    return {"kind": kind, "text": text, "lines": lines or [], "id": named, "instead": instead, "once": once}


def _changes(event: gr.EventData, words: Words) -> dict[str, Any]:
    """What is to be changed of a voice. Raises InvalidInput for what no form sends."""
    given = {key: value for key in TEXTS if (value := getattr(event, key, None)) is not None}
    tags = getattr(event, "tags", None)
    if tags is not None:
        given["tags"] = tags
    texts = [value for key, value in given.items() if key != "tags"] + (tags if isinstance(tags, list) else [])
    if not all(isinstance(text, str) for text in texts) or not isinstance(tags, list | None):
        raise InvalidInput(words("library.out_of_step"))
    if given.get("language") and not _LANGUAGE.fullmatch(given["language"]):
        raise InvalidInput(words("library.no_language", language=given["language"][:40]))
    return given
