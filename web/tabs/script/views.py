"""Views of scripts for the page: the whole script first, then patches."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from studio.script import progress
from web.downloads.sounds import sound_id
from web.ui.hearing_view import hearing_view

if TYPE_CHECKING:
    from storage import Storage
    from storage.repositories.scripts.cards import CardRecord
    from storage.repositories.scripts.hearings import Hearing
    from storage.repositories.scripts.scripts import ScriptRecord
    from storage.repositories.takes import TakeRecord
    from studio.proof.runner import ProofProgress, ProofRunner
    from studio.script.runner import ScriptRunner
    from web.ui.i18n import Texts

KEPT = 16  # remembered versions of scripts, of all owners
Patch = dict[str, Any]
CardViews = dict[str, dict[str, Any]]  # by card id, in order
Digests = dict[str, str]  # by card id


class ScriptPatcher:
    """Creates patches from the version that a page shows to the current one. Remembers digests of recent versions.

    If the page's version has been dropped, the whole script is sent again.
    """

    def __init__(self, storage: Storage, runner: ScriptRunner, proofs: ProofRunner) -> None:
        self._storage, self._runner, self._proofs = storage, runner, proofs
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str, str], Digests] = OrderedDict()

    def patch(self, owner: str, script_id: str, seen: str, texts: Texts, *, read_cards: bool = True) -> Patch | None:
        """Return the patch from version `seen` to the current one, None if they are the same.

        read_cards: compare the cards even if the script is unchanged: voices and takes may have been deleted. Raises
        ScriptNotFound.

            script, since (the version that the patch applies to, or empty), version
            head      name, author, cover (differs for each picture; None if there is none), cards, done, spoken,
                      paragraph_pause, left, wait (seconds or None), waiting, running,
                      trouble, proof (cards, done, attempt; None while no proof is running), differing (number of
                      cards whose take was checked and has wrong words)
            order     ids of all cards; None if unchanged
            cards     new and changed cards
        """
        record = self._storage.scripts.get(script_id, owner=owner)
        speaking = self._runner.all_speaking(owner).get(script_id)
        failure = self._runner.failure(owner, script_id) or self._proofs.failure(owner, script_id)
        proof = self._proofs.progress(owner, script_id)
        trouble = texts.write(failure) if failure else ""
        mark = _digest(record.updated.isoformat(), speaking, trouble, proof)
        if not read_cards and seen.partition(".")[0] == mark:
            return None
        cards = self._storage.scripts.cards(script_id, owner=owner)
        hearings = self._storage.hearings.of_script(script_id, owner=owner)
        views = {
            card.id: card_view(card, speaking or (), texts) | {"heard": card_hearing_view(card, hearings, proof)}
            for card in cards
        }
        version = f"{mark}.{_digest(*views.values())}"
        if version == seen:
            return None
        digests = {card_id: _digest(view) for card_id, view in views.items()}
        before = self._remember(owner, script_id, version, digests, seen)
        head = self._head(record, cards, trouble, running=speaking is not None)
        head["proof"] = proof and {"cards": proof.cards, "done": proof.done, "attempt": proof.attempt}
        head["differing"] = sum(view["heard"] is not None and not view["heard"]["right"] for view in views.values())
        return _difference(before, digests, views) | {
            "script": script_id,
            "since": seen if before is not None else "",
            "version": version,
            "head": head,
        }

    def _remember(self, owner: str, script_id: str, version: str, digests: Digests, seen: str) -> Digests | None:
        """Remember this version, and return the digests of version `seen`."""
        with self._lock:
            before = self._known.get((owner, script_id, seen))
            self._known[owner, script_id, version] = digests
            self._known.move_to_end((owner, script_id, version))
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return before

    def _head(self, record: ScriptRecord, cards: Sequence[CardRecord], trouble: str, *, running: bool) -> Patch:
        factor = self._runner.real_time_factor
        state = progress(cards, factor or 0.0)
        return {
            "name": record.name,
            "author": record.author,
            "cover": record.cover,
            "cards": state.cards,
            "done": state.done,
            "spoken": round(state.spoken, 1),
            "paragraph_pause": record.paragraph_pause,
            "left": round(state.left, 1),
            "wait": None if factor is None else round(state.wait, 1),
            "waiting": sum(card.state == "queued" for card in cards),
            "running": running,
            "trouble": trouble,
        }


def card_view(card: CardRecord, speaking: Sequence[str], texts: Texts) -> dict[str, Any]:
    """Return a card for the page. state: as in `CardRecord`, or `speaking`."""
    return {
        "id": card.id,
        "text": card.text,
        "speaker": card.speaker,
        "voice": card.voice_id,
        "pause": card.pause,
        "speed": card.speed,
        "chapter": card.chapter,
        "locked": card.locked,
        "state": "speaking" if card.id in speaking else card.state,
        "failure": card.failure and texts.write(card.failure),
        "take": card.take_id,
        "sound": card.take_id and sound_id(card.take_id, card.speed),
        "seconds": None if card.seconds is None else round(card.seconds, 2),
        "ending": card.stop_reason,
        "takes": card.takes,
    }


def card_hearing_view(
    card: CardRecord, hearings: Mapping[str, Hearing], proof: ProofProgress | None
) -> dict[str, Any] | None:
    """Return the recogniser's result for a card's take: the text in parts, the wrong ones marked; None if unchecked.

    under_way: whether the card is being checked or repaired now.
    """
    hearing, under_way = hearings.get(card.take_id or ""), proof is not None and proof.card == card.id
    if hearing is None:
        return {"parts": [], "heard_text": "", "right": False, "under_way": True} if under_way else None
    return hearing_view(card.text, hearing, under_way=under_way)


def script_view(record: ScriptRecord, *, running: bool) -> dict[str, Any]:
    """Return a row of the list of scripts."""
    return {
        "id": record.id,
        "name": record.name,
        "changed": record.updated.isoformat(),
        "cards": record.cards,
        "done": record.done,
        "spoken": round(record.spoken, 1),
        "running": running,
    }


def take_view(take: TakeRecord, card: CardRecord) -> dict[str, Any]:
    """Return one of a card's takes, at the card's speed. fits: whether it has the card's current text."""
    return {
        "id": take.id,
        "sound": sound_id(take.id, card.speed),
        "seconds": round(take.duration / card.speed, 2),
        "seed": take.seed,
        "voice": take.voice_name,
        "fits": take.text == card.text,
        "chosen": take.id == card.take_id,
    }


def _difference(before: Digests | None, now: Digests, views: CardViews) -> Patch:
    if before is None:
        return {"order": list(now), "cards": list(views.values())}
    changed = [views[card_id] for card_id, digest in now.items() if before.get(card_id) != digest]
    return {"order": None if list(before) == list(now) else list(now), "cards": changed}


def _digest(*values: object) -> str:
    return hashlib.blake2b(repr(values).encode(), digest_size=8).hexdigest()
