"""Handlers of the Script tab: create scripts from text or a file, and run the page's commands."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from pydantic import Field

from engine.errors import InvalidInput, RepriseError
from storage.errors import ScriptNotFound, VoiceNotFound
from storage.scripts.limits import FASTEST_CARD, MAX_SCRIPT_NAME, SLOWEST_CARD
from studio.books.reading import SUFFIXES as BOOKS
from studio.books.reading import Book, book_kind, read_book
from studio.script import Script, parse, parse_file
from studio.script.casting import initial_cast, speaker_or_narrator
from studio.script.formats.document import PARAGRAPH_PAUSE
from web.gradio_internals import event_value
from web.tabs.script.actions import Reply, ScriptActions, narrator_names
from web.tabs.script.commands import ScriptCommand, command_number
from web.tabs.script.views import ScriptPatcher
from web.ui.events import broadcast_change
from web.ui.messages import error_message, notice
from web.ui.payloads import Payload, SelectedId, UnexpectedPayload, parse_payload
from web.ui.voice_picker import SelectedVoice
from web.uploads.file_pool import FilePool
from web.uploads.files import uploaded_name, uploaded_path

if TYPE_CHECKING:
    from web.context import WebContext
    from web.identity.owners import Owner
    from web.ui.i18n import Texts

Updates = tuple[Any, ...]
SUFFIXES = (".txt", ".md", ".markdown", ".srt", ".vtt", ".csv", ".tsv", *BOOKS)  # of files that become scripts
NAME_LENGTH = 50  # characters of the default name of a script from a text
SHOWN = 60  # characters of omitted text to show
MAX_PAGES, MAX_REMEMBERED = 1_000, 16  # pages, and commands per page, remembered to detect repeats


class ScriptText(Payload):
    """A text, the selected voice, and the speed of cards whose text sets none."""

    text: str
    picked: SelectedId
    speed: Annotated[float, Field(ge=SLOWEST_CARD, le=FASTEST_CARD)] = 1.0


@dataclass(frozen=True)
class Creator:
    """The owner of new scripts. deletion_token: from `Storage.deletion_token`."""

    owner: str
    deletion_token: str


class ScriptHandlers:
    """Event handlers of the Script tab.

    The component's value: number (the command's number), state (`ScriptPatcher.patch`, or None), gone (whether the open
    script no longer exists), problem and message (sentences), and the fields of the action's reply.
    """

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._actions = ScriptActions(context)
        self._patcher = ScriptPatcher(context.storage, context.script_runner, context.proof_runner)
        self._files = FilePool(context.folder)
        self._lock = threading.Lock()
        self._run_by: dict[tuple[str, str], tuple[int, ...]] = {}  # numbers of the last commands, by owner and page

    def create_script(self, text: Any, picked: Any, token: Any, request: gr.Request) -> Updates:
        """Outputs: notice, text, component, change broadcast. The narrator gets the selected voice."""
        return self._create_from_text(token, request, text=text, picked=picked)

    def move_text(self, text: Any, picked: Any, speed: Any, token: Any, request: gr.Request) -> Updates:
        """Outputs: notice and text of Speak, component, change broadcast, tab to show. Turns the text into a script."""
        message, *others = self._create_from_text(token, request, text=text, picked=picked, speed=speed)
        return message, *others, gr.skip() if message else gr.Tabs(selected="script")

    def _create_from_text(self, token: Any, request: gr.Request, **fields: Any) -> Updates:
        """fields: of a `ScriptText`."""
        texts = self._context.texts(request)
        try:
            sent = parse_payload(ScriptText, **fields)
            creator = self._creator(token, request)
            script = parse(sent.text, speed=sent.speed)
            script_id = self._create(script, script.title or default_name(script), sent.picked, creator, request)
        except Exception as error:
            return notice(error_message(error, texts), "bad"), gr.skip(), gr.skip(), gr.skip()
        return "", "", self._opened(script_id, script, texts), broadcast_change("scripts")

    async def import_script(self, picked: Any, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """Outputs: notice, component, change broadcast. Event: an upload. Scripts are named after the book or file."""
        texts, upload = self._context.texts(request), event_value(event)
        try:
            opened = await self._files.run(request, upload, partial(self._import, upload, picked, token, request))
        except Exception as error:
            return notice(error_message(error, texts), "bad"), gr.skip(), gr.skip()
        return "", opened, broadcast_change("scripts")

    def _import(self, upload: Any, picked: Any, token: Any, request: gr.Request) -> Reply:
        """Create the scripts of a file; return the component's value."""
        texts, path = self._context.texts(request), uploaded_path(upload, self._context.folder)
        if path is None:
            raise InvalidInput(texts("script.no_file"))
        file = PurePath(uploaded_name(upload) or path.name)
        if file.suffix.lower() not in SUFFIXES:
            raise InvalidInput(texts("script.wrong_file", kinds=tuple(SUFFIXES)))
        creator = self._creator(token, request)
        book = _read_file(path)
        scripts, name = book.scripts, " ".join((book.title or file.stem).split())
        wanted = parse_payload(SelectedVoice, voice=picked).voice
        # The first is created last, so that it comes first in the list.
        for number, script in reversed(list(enumerate(scripts, 1))):
            part = f" ({number}/{len(scripts)})" if len(scripts) > 1 else ""
            part = name[: MAX_SCRIPT_NAME - len(part)] + part
            script_id = self._create(script, part, wanted, creator, request, book.cover)
        opened = self._opened(script_id, scripts[0], texts)
        if len(scripts) > 1:
            opened["message"] = texts("script.books", name=name, count=len(scripts))
        return opened

    def run_action(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """Outputs: component, change broadcast."""
        texts = self._context.texts(request)
        try:
            command, owner = ScriptCommand(event), self._context.owner(token, request)
        except InvalidInput as error:  # an unexpected payload, or a missing or invalid token
            return {"number": command_number(event), "problem": error_message(error, texts)}, gr.skip()
        changes = command.do in self._actions.write_actions
        repeated = changes and not self._is_new(owner, command)
        reply = {} if repeated else self._run(owner, command, texts)
        answer = {"number": command.number, **reply, **self._state(owner, command, texts)}
        return answer, broadcast_change("scripts") if changes and not repeated else gr.skip()

    def _is_new(self, owner: Owner, command: ScriptCommand) -> bool:
        """Return whether this command has not run yet. Pages resend commands after a lost connection."""
        if not command.page:
            return True
        with self._lock:
            run = self._run_by.pop((owner.key, command.page), ())
            self._run_by[owner.key, command.page] = (*run, command.number)[-MAX_REMEMBERED:]
            while len(self._run_by) > MAX_PAGES:
                del self._run_by[next(iter(self._run_by))]
        return command.number not in run

    def _run(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        action = self._actions.read_actions.get(command.do) or self._actions.write_actions.get(command.do)
        try:
            if action is None:
                raise UnexpectedPayload
            return action(owner, command, texts)
        except Exception as error:
            return {"problem": error_message(error, texts)}

    def _state(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Return the patch for the open script."""
        if not command.script:
            return {"state": None}
        try:
            read_cards = command.do != "poll"
            return {
                "state": self._patcher.patch(owner.key, command.script, command.version, texts, read_cards=read_cards)
            }
        except ScriptNotFound:
            return {"state": None, "gone": True}
        except RepriseError as error:
            return {"state": None, "problem": error_message(error, texts)}

    def _creator(self, token: Any, request: gr.Request) -> Creator:
        owner = self._context.owner(token, request).key
        return Creator(owner, self._context.storage.deletion_token(owner=owner))

    def _create(
        self, script: Script, name: str, picked: str, creator: Creator, request: gr.Request, cover: bytes = b""
    ) -> str:
        owner = creator.owner
        voices, scripts = self._context.voices.list(owner=owner), self._context.storage.scripts
        ids = [voice.id for voice in voices]
        voice = picked if picked in ids else next(iter(ids), None)
        narrators = narrator_names(self._context, self._context.texts(request))
        cards = [replace(card, speaker=speaker_or_narrator(card.speaker, narrators)) for card in script.cards]
        made = scripts.create(
            name,
            cards,
            voice_id=voice,
            author=script.author,
            cover=cover,
            owner=owner,
            deletion_token=creator.deletion_token,
        ).id
        cast = initial_cast((card.speaker for card in cards), voices, voice) if voice else {}
        for speaker, theirs in cast.items():
            if theirs != voice:
                with suppress(VoiceNotFound):  # deleted meanwhile
                    scripts.cast(made, speaker, theirs, owner=owner)
        if script.paragraph_pause != PARAGRAPH_PAUSE:
            scripts.set_paragraph_pause(made, script.paragraph_pause, owner=owner)
        return made

    def _opened(self, script_id: str, script: Script, texts: Texts) -> Reply:
        """Return the component's value: the script to open, and a message about text that is not spoken."""
        if not script.omitted:
            return {"show": script_id}
        first = " ".join(script.omitted[0].split())
        shown = first if len(first) <= SHOWN else first[:SHOWN].rstrip() + "…"
        return {"show": script_id, "message": texts("script.left_out", count=len(script.omitted), first=shown)}


def _read_file(path: Path) -> Book:
    """Read a book, or another file as a book of one script. Raises InvalidText."""
    kind = book_kind(path)
    if kind is not None:
        return read_book(path, kind)
    script = parse_file(path.read_bytes(), path.name)
    return Book((script,), script.title)


def default_name(script: Script) -> str:
    """Return the initial name of a script: the start of its text."""
    text = " ".join(script.cards[0].text.split())
    if len(text) <= NAME_LENGTH:
        return text
    return (text[: NAME_LENGTH + 1].rpartition(" ")[0] or text[:NAME_LENGTH]).rstrip(" ,;:–-") + "…"
