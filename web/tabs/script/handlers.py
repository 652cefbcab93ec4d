"""Scripts: made of a text or a file, and everything that is done with them then."""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import InvalidInput, RepriseError, ScriptNotFound, VoiceNotFound
from studio.script import Script, parse, parse_file
from studio.script.casting import initial_cast
from studio.script.runner import ScriptRunner
from web.tabs.script.desk import ScriptDesk, Told
from web.tabs.script.requests import Asked, number_of
from web.tabs.script.views import ScriptViews
from web.ui.events import OutOfStep, Picked, Sent, parsed
from web.ui.messages import notice, sentence_of
from web.ui.wiring import ring
from web.uploads import uploaded_name, uploaded_path

if TYPE_CHECKING:
    from web.context import House
    from web.identity.owners import Owner
    from web.ui.i18n import Words

Updates = tuple[Any, ...]
NAME_LENGTH = 50  # characters of the text, in a script's first name
SHOWN = 60  # characters of what is not read out


class Create(Sent):
    """A text, and the voice that is picked."""

    text: str
    picked: Picked


class TakeIn(Sent):
    """The voice that is picked when a file comes, which is `uploaded_path`'s."""

    picked: Picked


class Scripts:
    """The events of the Script tab.

    Answers to the desk: asked (the question's number), state (as `ScriptViews.patch` has it, or None), gone (the script
    that is open is no more), problem and said (sentences), and what the question asks for.
    """

    def __init__(self, house: House, runner: ScriptRunner) -> None:
        self._house = house
        self._desk = ScriptDesk(house, runner)
        self._views = ScriptViews(house.studio, runner)

    def create(self, text: Any, picked: Any, token: Any, request: gr.Request) -> Updates:
        """Notice, text, desk, bell: a script of a text, in the picked voice where it is no dialogue."""
        words = self._house.words(request)
        try:
            sent = parsed(Create, text=text, picked=picked)
            script = parse(sent.text)
            opened = self._created(script, first_words(script), sent.picked, token, request)
        except Exception as error:
            return notice(sentence_of(error, words), "bad"), gr.skip(), gr.skip(), gr.skip()
        return "", "", self._shown(opened, script, words), ring("scripts")

    def take_in(self, upload: Any, picked: Any, token: Any, request: gr.Request) -> Updates:
        """Notice, desk, bell: a script of a file, named after it."""
        words = self._house.words(request)
        try:
            path = uploaded_path(upload, self._house.folder)
            if path is None:
                raise InvalidInput(words("script.no_file"))
            data = path.read_bytes()
            path.unlink(missing_ok=True)
            script = parse_file(data, path.name)
            name = PurePath(uploaded_name(upload) or path.name).stem[:NAME_LENGTH]
            opened = self._created(script, name, parsed(TakeIn, picked=picked).picked, token, request)
        except Exception as error:
            return notice(sentence_of(error, words), "bad"), gr.skip(), gr.skip()
        return "", self._shown(opened, script, words), ring("scripts")

    def act(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """Desk, bell: the answer to what the desk asks."""
        words = self._house.words(request)
        try:
            asked, owner = Asked(event), self._house.owner(token, request)
        except InvalidInput as error:  # out of step, or the page is about to be given another key
            return {"asked": number_of(event), "problem": sentence_of(error, words)}, gr.skip()
        told = self._done(owner, asked, words)
        changed = asked.do in self._desk.changing
        return {"asked": asked.number, **told, **self._state(owner, asked)}, ring("scripts") if changed else gr.skip()

    def _done(self, owner: Owner, asked: Asked, words: Words) -> Told:
        action = self._desk.looking.get(asked.do) or self._desk.changing.get(asked.do)
        try:
            if action is None:
                raise OutOfStep
            return action(owner, asked, words)
        except Exception as error:
            return {"problem": sentence_of(error, words)}

    def _state(self, owner: Owner, asked: Asked) -> Told:
        """What has changed of the script that is open."""
        if not asked.script:
            return {"state": None}
        try:
            look = asked.do != "poll"
            return {"state": self._views.patch(owner.key, asked.script, asked.version, look=look)}
        except ScriptNotFound:
            return {"state": None, "gone": True}
        except RepriseError as error:
            return {"state": None, "problem": sentence_of(error)}

    def _created(self, script: Script, name: str, picked: str, token: Any, request: gr.Request) -> str:
        owner = self._house.owner(token, request).key
        voices, scripts = self._house.studio.voices.list(owner=owner), self._house.studio.scripts
        ids = [voice.id for voice in voices]
        voice = picked if picked in ids else next(iter(ids), None)
        made = scripts.create(name, script.cards, voice_id=voice, owner=owner).id
        cast = initial_cast((card.speaker for card in script.cards), voices, voice) if voice else {}
        for speaker, theirs in cast.items():
            if theirs != voice:
                with suppress(VoiceNotFound):  # it was deleted this moment
                    scripts.cast(made, speaker, theirs, owner=owner)
        return made

    def _shown(self, opened: str, script: Script, words: Words) -> Told:
        """For the desk: the script to open, and what of its text is not read out, so that nobody has to find out."""
        if not script.omitted:
            return {"show": opened}
        first = " ".join(script.omitted[0].split())
        shown = first if len(first) <= SHOWN else first[:SHOWN].rstrip() + "…"
        return {"show": opened, "said": words("script.left_out", count=len(script.omitted), first=shown)}


def first_words(script: Script) -> str:
    """What a script is called until its author calls it something."""
    text = " ".join(script.cards[0].text.split())
    if len(text) <= NAME_LENGTH:
        return text
    return (text[: NAME_LENGTH + 1].rpartition(" ")[0] or text[:NAME_LENGTH]).rstrip(" ,;:–-") + "…"
