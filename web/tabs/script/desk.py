"""What can be done with scripts and their cards, one method for each thing that the page's desk asks for.

Each takes the owner, what is asked, and the owner's words, and gives what the page is to be told besides the script
as it is then. Ids and values are the page's; the library says what they are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from engine.errors import InvalidInput
from studio.script import Card
from web.downloads.scripts import SCRIPT_FORMATS
from web.tabs.library import views
from web.tabs.script.requests import Asked
from web.tabs.script.views import script_view
from web.ui.events import OutOfStep

if TYPE_CHECKING:
    from storage.repositories.generations import GenerationRecord
    from studio.script.runner import ScriptRunner
    from web.context import House
    from web.identity.owners import Owner
    from web.ui.i18n import Words

Told = dict[str, Any]
SPLIT_PAUSE = 0.2  # seconds, between the sentences that were one card


class ScriptDesk:
    """The things to do, by name: `desk.actions["edit"](owner, asked, words)`. Each may raise RepriseError.

    changing: those after which others have to look again.
    """

    def __init__(self, house: House, runner: ScriptRunner) -> None:
        self._house, self._scripts, self._runner = house, house.studio.scripts, runner
        self.looking: Mapping[str, Callable[[Owner, Asked, Words], Told]] = {
            "list": self._list,
            "open": self._voices,
            "poll": lambda owner, asked, words: {},
            "takes": self._takes,
            "listen": self._listen,
            "save": self._save,
        }
        self.changing: Mapping[str, Callable[[Owner, Asked, Words], Told]] = {
            "rename": self._rename,
            "discard": self._discard,
            "speak": self._speak,
            "stop": self._stop,
            "redo": self._redo,
            "cast": self._cast,
            "edit": self._edit,
            "speaker": self._speaker,
            "voice": self._voice,
            "pause": self._pause,
            "lock": self._lock,
            "move": self._move,
            "insert": self._insert,
            "split": self._split,
            "merge": self._merge,
            "remove": self._remove,
            "choose": self._choose,
        }

    # ---- looking

    def _list(self, owner: Owner, asked: Asked, words: Words) -> Told:
        key = owner.key
        records = self._scripts.list(owner=key)
        running = [self._runner.speaking(key, record.id) is not None for record in records]
        return {"scripts": [script_view(record, running=run) for record, run in zip(records, running, strict=True)]}

    def _voices(self, owner: Owner, asked: Asked, words: Words) -> Told:
        voices = self._house.studio.voices.list(owner=owner.key)
        return {"voices": [{"id": voice.id, "name": views.label(voice, words)} for voice in voices]}

    def _takes(self, owner: Owner, asked: Asked, words: Words) -> Told:
        card = self._scripts.card(asked.text("card"), owner=owner.key)
        takes = self._scripts.takes(card.id, owner=owner.key)
        return {"takes": [take_view(take, card.text, card.take_id) for take in takes]}

    def _listen(self, owner: Owner, asked: Asked, words: Words) -> Told:
        return {"url": self._house.links.sign(owner, "take", asked.text("take"))}

    def _save(self, owner: Owner, asked: Asked, words: Words) -> Told:
        format, script = asked.text("format"), self._scripts.get(asked.script, owner=owner.key)
        if format not in SCRIPT_FORMATS:
            raise OutOfStep
        if not script.done:
            raise InvalidInput(words("script.nothing_spoken"))
        missing = script.cards - script.done
        said = words("script.saved_part", missing=missing, count=script.cards) if missing else words("script.saved")
        return {"url": self._house.links.sign(owner, "script", f"{script.id}.{format}"), "said": said}

    # ---- the script

    def _rename(self, owner: Owner, asked: Asked, words: Words) -> Told:
        self._scripts.rename(asked.text("id"), asked.text("name"), owner=owner.key)
        return self._list(owner, asked, words)

    def _discard(self, owner: Owner, asked: Asked, words: Words) -> Told:
        name = self._scripts.get(asked.text("id"), owner=owner.key).name
        self._runner.stop(owner.key, asked.text("id"))
        self._scripts.discard(asked.text("id"), owner=owner.key)
        return self._list(owner, asked, words) | {"said": words("script.discarded", name=name)}

    def _speak(self, owner: Owner, asked: Asked, words: Words) -> Told:
        """All cards that have no take, or those from one card on; what waits already is spoken too."""
        start = asked.optional("card")
        with self._admitted(owner, asked.script, words) as over:
            self._scripts.queue(asked.script, self._unspoken(owner, asked.script, start), owner=owner.key)
            waiting = self._scripts.waiting(asked.script, 1, owner=owner.key)
            if waiting:
                self._runner.start(owner.key, asked.script, over.pop_all().close)
        return {} if waiting else {"said": words("script.all_spoken")}

    def _admitted(self, owner: Owner, script: str, words: Words) -> ExitStack:
        """Room for a script, given back unless someone else takes over. Raises OverBudget, before anything is done."""
        stack = ExitStack()
        if self._runner.speaking(owner.key, script) is None:
            stack.callback(self._house.budgets.script(owner, words))
        return stack

    def _unspoken(self, owner: Owner, script: str, start: str | None) -> list[str] | None:
        if start is None:
            return None
        first = self._scripts.card(start, owner=owner.key).position
        cards = self._scripts.cards(script, owner=owner.key)
        return [card.id for card in cards if card.position >= first and card.take_id is None]

    def _stop(self, owner: Owner, asked: Asked, words: Words) -> Told:
        self._runner.stop(owner.key, asked.script)
        self._scripts.unqueue(asked.script, owner=owner.key)
        return {}

    def _cast(self, owner: Owner, asked: Asked, words: Words) -> Told:
        self._scripts.cast(asked.script, asked.optional("speaker"), asked.text("voice"), owner=owner.key)
        return {}

    # ---- a card

    def _redo(self, owner: Owner, asked: Asked, words: Words) -> Told:
        """Speaks it again with another seed; the take that there is counts until then."""
        card = self._scripts.card(asked.text("card"), owner=owner.key)
        if card.locked:
            raise InvalidInput(words("script.locked"))
        with self._admitted(owner, card.script_id, words) as over:
            self._scripts.configure(card.id, settings=card.settings, owner=owner.key)
            self._scripts.queue(card.script_id, [card.id], owner=owner.key)
            self._runner.start(owner.key, card.script_id, over.pop_all().close)
        return {}

    def _edit(self, owner: Owner, asked: Asked, words: Words) -> Told:
        self._scripts.edit(asked.text("card"), asked.text("text"), owner=owner.key)
        return {}

    def _speaker(self, owner: Owner, asked: Asked, words: Words) -> Told:
        """Who is named speaks with the voice that the speaker has on other cards."""
        card = self._scripts.set_speaker(asked.text("card"), asked.optional("speaker"), owner=owner.key)
        others = self._scripts.cards(card.script_id, owner=owner.key)
        voices = [other.voice_id for other in others if other.speaker == card.speaker and other.id != card.id]
        if voices and voices[0] and card.voice_id not in voices:
            self._scripts.set_voice(card.id, voices[0], owner=owner.key)
        return {}

    def _voice(self, owner: Owner, asked: Asked, words: Words) -> Told:
        self._scripts.set_voice(asked.text("card"), asked.text("voice"), owner=owner.key)
        return {}

    def _pause(self, owner: Owner, asked: Asked, words: Words) -> Told:
        self._scripts.set_pause(asked.text("card"), asked.number_of("seconds"), owner=owner.key)
        return {}

    def _lock(self, owner: Owner, asked: Asked, words: Words) -> Told:
        self._scripts.lock(asked.text("card"), asked.flag("locked"), owner=owner.key)
        return {}

    def _move(self, owner: Owner, asked: Asked, words: Words) -> Told:
        self._scripts.move(asked.text("card"), asked.whole("position"), owner=owner.key)
        return {}

    def _insert(self, owner: Owner, asked: Asked, words: Words) -> Told:
        """A card after another, with its speaker and voice."""
        before = self._scripts.card(asked.text("card"), owner=owner.key)
        card = self._scripts.insert(
            before.script_id,
            before.position + 1,
            Card(asked.text("text"), before.speaker),
            voice_id=self._known(owner, before.voice_id),
            owner=owner.key,
        )
        return {"card": card.id}

    def _known(self, owner: Owner, voice_id: str | None) -> str | None:
        """None for a voice that is gone."""
        voices = self._house.studio.voices.list(owner=owner.key)
        return voice_id if voice_id in [voice.id for voice in voices] else None

    def _split(self, owner: Owner, asked: Asked, words: Words) -> Told:
        _, second = self._scripts.split(asked.text("card"), asked.whole("at"), pause=SPLIT_PAUSE, owner=owner.key)
        return {"card": second.id}

    def _merge(self, owner: Owner, asked: Asked, words: Words) -> Told:
        return {"card": self._scripts.merge(asked.text("card"), owner=owner.key).id}

    def _remove(self, owner: Owner, asked: Asked, words: Words) -> Told:
        self._scripts.delete_card(asked.text("card"), owner=owner.key)
        return {}

    def _choose(self, owner: Owner, asked: Asked, words: Words) -> Told:
        self._scripts.choose(asked.text("card"), asked.text("take"), owner=owner.key)
        return self._takes(owner, asked, words)


def take_view(take: GenerationRecord, text: str, chosen: str | None) -> dict[str, Any]:
    """One of a card's takes. fits: it says what the card says now."""
    return {
        "id": take.id,
        "seconds": round(take.duration, 2),
        "seed": take.seed,
        "voice": take.voice_name,
        "fits": take.text == text,
        "chosen": take.id == chosen,
    }
