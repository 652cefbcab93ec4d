"""The actions on scripts and their cards: one method per command of the page.

Each takes the owner, the command and the texts, and returns reply fields to send along with the script's state. Ids and
values are untrusted: storage looks them up under the owner.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from engine.errors import InvalidInput
from engine.text.ssml import plain_text
from storage.errors import TakeNotFound
from studio.pictures.covers import make_cover
from studio.script import Card
from studio.script.casting import speaker_or_narrator
from web.downloads.scripts import SCRIPT_FORMATS
from web.downloads.sounds import peaks_of, sound_facts
from web.tabs.script.commands import ScriptCommand
from web.tabs.script.views import script_view, take_view
from web.ui.payloads import UnexpectedPayload
from web.ui.voice_picker import voice_label

if TYPE_CHECKING:
    from web.context import WebContext
    from web.identity.owners import Owner
    from web.ui.i18n import Texts

Reply = dict[str, Any]
SPLIT_PAUSE = 0.2  # seconds between the halves of a card


def narrator_names(context: WebContext, texts: Texts) -> tuple[str, ...]:
    """Return the narrator's names: the one that the page shows, and the English one."""
    return texts("script.narrator"), context.texts(None)("script.narrator")


class ScriptActions:
    """The actions by name: `actions.write_actions["edit"](owner, command, texts)`. Each may raise RepriseError.

    read_actions: read-only actions. write_actions: actions after which other pages must update.
    """

    def __init__(self, context: WebContext) -> None:
        self._context, self._scripts, self._runner = context, context.storage.scripts, context.script_runner
        self.read_actions: Mapping[str, Callable[[Owner, ScriptCommand, Texts], Reply]] = {
            "list": self._list,
            "open": self._voices,
            "poll": lambda owner, command, texts: {},
            "takes": self._takes,
            "listen": self._listen,
            "peaks": self._peaks,
            "save": self._save,
            "cover": self._cover,
        }
        self.write_actions: Mapping[str, Callable[[Owner, ScriptCommand, Texts], Reply]] = {
            "rename": self._rename,
            "author": self._author,
            "set_cover": self._set_cover,
            "discard": self._discard,
            "speak": self._speak,
            "stop": self._stop,
            "redo": self._redo,
            "cast": self._cast,
            "edit": self._edit,
            "speaker": self._speaker,
            "voice": self._voice,
            "pause": self._pause,
            "speed": self._speed,
            "chapter": self._chapter,
            "paragraphs": self._paragraphs,
            "speeds": self._speeds,
            "lock": self._lock,
            "move": self._move,
            "insert": self._insert,
            "split": self._split,
            "merge": self._merge,
            "remove": self._remove,
            "remove_chapters": self._remove_chapters,
            "choose": self._choose,
            "proof": self._proof,
        }

    # ---- reading

    def _list(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        key = owner.key
        records = self._scripts.list(owner=key)
        running = self._runner.all_speaking(key)
        return {"scripts": [script_view(record, running=record.id in running) for record in records]}

    def _voices(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        voices = self._context.voices.list(owner=owner.key)
        return {"voices": [{"id": voice.id, "name": voice_label(voice, texts)} for voice in voices]}

    def _takes(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        card = self._scripts.card(command.text("card"), owner=owner.key)
        takes = self._scripts.takes(card.id, owner=owner.key)
        return {"takes": [take_view(take, card) for take in takes]}

    def _listen(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Return the audio URL and details of a take, at the speed of its card."""
        take = self._context.storage.history.get(command.text("take"), owner=owner.key)
        speed = self._scripts.card(command.text("card"), owner=owner.key).speed
        facts = sound_facts(take, owner, self._context.links, speed=speed)
        return {"url": facts["links"]["wav"], "facts": facts}

    def _peaks(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Return waveforms of takes. Missing takes are left out."""
        waves: dict[str, list[int]] = {}
        for take in command.ids():
            with suppress(TakeNotFound):
                waves[take] = peaks_of(self._context.storage.history.audio(take, owner=owner.key))
        return {"peaks": waves}

    def _save(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Return a link to the script as a file."""
        format, script = command.text("format"), self._scripts.get(command.script, owner=owner.key)
        if format not in SCRIPT_FORMATS:
            raise UnexpectedPayload
        if format != "md" and not script.done:
            raise InvalidInput("cards.unspoken")
        missing = 0 if format == "md" else script.cards - script.done
        message = texts("script.saved_part", missing=missing, count=script.cards) if missing else texts("script.saved")
        return {"url": self._context.links.sign(owner, "script", f"{script.id}.{format}"), "message": message}

    def _cover(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Return the cover as a data URL; "" if there is none."""
        picture = self._scripts.cover(command.script, owner=owner.key)
        return {"cover": f"data:image/jpeg;base64,{b64encode(picture).decode()}" if picture else ""}

    # ---- the script

    def _rename(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.rename(command.text("id"), command.text("name"), owner=owner.key)
        return self._list(owner, command, texts)

    def _author(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.set_author(command.script, command.text("name"), owner=owner.key)
        return {}

    def _set_cover(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Set the cover, a base64-encoded picture; without one, remove it."""
        try:
            sent = b64decode(command.optional("text") or "", validate=True)
        except ValueError as error:
            raise InvalidInput("cards.bad_cover") from error
        self._scripts.set_cover(command.script, make_cover(sent) if sent else b"", owner=owner.key)
        return {}

    def _discard(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        name = self._scripts.get(command.text("id"), owner=owner.key).name
        self._runner.stop(owner.key, command.text("id"))
        self._context.proof_runner.stop(owner.key, command.text("id"))
        self._scripts.discard(command.text("id"), owner=owner.key)
        return self._list(owner, command, texts) | {"message": texts("script.discarded", name=name)}

    def _speak(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Queue all cards without a take, or only those from a given card on, and start speaking."""
        start = command.optional("card")
        with self._reserve(owner, command.script, texts) as over:
            self._scripts.queue(command.script, self._unspoken(owner, command.script, start), owner=owner.key)
            queued = self._scripts.queued(command.script, 1, owner=owner.key)
            if queued:
                self._runner.start(owner.key, command.script, over.pop_all().close)
        if queued:
            return {}
        script = self._scripts.get(command.script, owner=owner.key)
        return {"message": texts("script.all_spoken" if script.done == script.cards else "script.rest_locked")}

    def _reserve(self, owner: Owner, script: str, texts: Texts) -> ExitStack:
        """Reserve a script until the returned stack is closed, unless it is already speaking. Raises BudgetExceeded."""
        stack = ExitStack()
        if self._runner.speaking(owner.key, script) is None:
            stack.callback(self._context.budgets.reserve_script(owner, texts))
        return stack

    def _unspoken(self, owner: Owner, script: str, start: str | None) -> list[str] | None:
        if start is None:
            return None
        first = self._scripts.card(start, owner=owner.key).position
        cards = self._scripts.cards(script, owner=owner.key)
        return [card.id for card in cards if card.position >= first and card.take_id is None]

    def _stop(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._runner.stop(owner.key, command.script)
        self._context.proof_runner.stop(owner.key, command.script)
        self._scripts.unqueue(command.script, owner=owner.key)
        return {}

    def _cast(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.cast(command.script, command.optional("speaker"), command.text("voice"), owner=owner.key)
        return {}

    def _proof(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Check one card or all cards with the recogniser; with `repair`, speak cards with wrong words again.

        offer: whether the page must first offer to install a recogniser.
        """
        context, card = self._context, command.optional("card")
        if not context.recognition.ready:
            return {"offer": True}
        over = ExitStack()
        if context.proof_runner.progress(owner.key, command.script) is None:
            over.callback(context.budgets.reserve_script(owner, texts))
        try:
            cards = None if card is None else [self._scripts.card(card, owner=owner.key).id]
            count = context.proof_runner.start(
                owner.key, command.script, cards, repair=command.flag("repair"), on_end=over.close
            )
        except Exception:
            over.close()
            raise
        return {} if count else {"message": texts("script.proofed")}

    # ---- a card

    def _redo(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Speak a card again with another seed. It keeps its current take until the new one is finished."""
        card = self._scripts.card(command.text("card"), owner=owner.key)
        if card.locked:
            raise InvalidInput(texts("script.locked"))
        with self._reserve(owner, card.script_id, texts) as over:
            self._scripts.queue(card.script_id, [card.id], owner=owner.key)
            self._runner.start(owner.key, card.script_id, over.pop_all().close)
        return {}

    def _edit(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Change a card's text. replaced: its text until now, which the page may not know. saved: without SSML."""
        before = self._scripts.card(command.text("card"), owner=owner.key)
        card = self._scripts.edit(before.id, plain_text(command.text("text")), owner=owner.key)
        return {"replaced": before.text, "saved": card.text}

    def _speaker(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Set a card's speaker. The card gets the voice that the speaker has on other cards."""
        speaker = speaker_or_narrator(command.optional("speaker"), narrator_names(self._context, texts))
        card = self._scripts.set_speaker(command.text("card"), speaker, owner=owner.key)
        known = {voice.id for voice in self._context.voices.list(owner=owner.key)}
        others = [other for other in self._scripts.cards(card.script_id, owner=owner.key) if other.id != card.id]
        voices = [other.voice_id for other in others if other.speaker == card.speaker and other.voice_id in known]
        if voices and card.voice_id not in voices:
            self._scripts.set_voice(card.id, voices[0], owner=owner.key)
        return {}

    def _voice(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.set_voice(command.text("card"), command.text("voice"), owner=owner.key)
        return {}

    def _pause(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.set_pause(command.text("card"), command.number_value("seconds"), owner=owner.key)
        return {}

    def _speed(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.set_speed(command.text("card"), command.number_value("speed"), owner=owner.key)
        return {}

    def _chapter(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.set_chapter(command.text("card"), command.optional("name"), owner=owner.key)
        return {}

    def _paragraphs(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Set the pause after each paragraph."""
        self._scripts.set_paragraph_pause(command.script, command.number_value("seconds"), owner=owner.key)
        return {}

    def _speeds(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Set the speed of all cards."""
        self._scripts.set_speeds(command.script, command.number_value("speed"), owner=owner.key)
        return {}

    def _lock(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.lock(command.text("card"), command.flag("locked"), owner=owner.key)
        return {}

    def _move(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.move(command.text("card"), command.integer("position"), owner=owner.key)
        return {}

    def _insert(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        """Insert a card after another, with the same speaker, voice and speed."""
        before = self._scripts.card(command.text("card"), owner=owner.key)
        card = self._scripts.insert(
            before.script_id,
            before.position + 1,
            Card(command.text("text"), before.speaker, speed=before.speed),
            voice_id=self._known(owner, before.voice_id),
            owner=owner.key,
        )
        return {"card": card.id}

    def _known(self, owner: Owner, voice_id: str | None) -> str | None:
        """Return the voice's id, None if the voice no longer exists."""
        voices = self._context.voices.list(owner=owner.key)
        return voice_id if voice_id in [voice.id for voice in voices] else None

    def _split(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        _, second = self._scripts.split(command.text("card"), command.integer("at"), pause=SPLIT_PAUSE, owner=owner.key)
        return {"card": second.id}

    def _merge(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        return {"card": self._scripts.merge(command.text("card"), owner=owner.key).id}

    def _remove(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.delete_card(command.text("card"), owner=owner.key)
        return {}

    def _remove_chapters(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.delete_chapters(command.script, command.chapters, owner=owner.key)
        return {}

    def _choose(self, owner: Owner, command: ScriptCommand, texts: Texts) -> Reply:
        self._scripts.choose(command.text("card"), command.text("take"), owner=owner.key)
        return self._takes(owner, command, texts)
