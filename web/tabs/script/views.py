"""A script as the page is sent it: all of it once, and then what has changed since what the page has."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from studio.script import progress

if TYPE_CHECKING:
    from storage import Storage
    from storage.repositories.cards import CardRecord
    from storage.repositories.scripts import ScriptRecord
    from studio.script.runner import ScriptRunner

KEPT = 16  # versions of scripts that pages have, of all owners
Patch = dict[str, Any]
Views = dict[str, dict[str, Any]]  # by card, in order
Digests = dict[str, str]  # of these: what is remembered holds no texts


class ScriptViews:
    """What pages have of scripts is remembered by its version, so that little needs to be sent.

    A version that is remembered no more costs only that the whole script is sent again.
    """

    def __init__(self, studio: Storage, runner: ScriptRunner) -> None:
        self._studio, self._runner = studio, runner
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str, str], Digests] = OrderedDict()

    def patch(self, owner: str, script_id: str, seen: str = "", *, look: bool = True) -> Patch | None:
        """What makes a page that has the version `seen` show the script as it is; None when it does already.

        look: read the cards even though the script was not changed: voices and takes may have gone.
        Raises ScriptNotFound.

            script, since (the version that it is a patch of, or empty), version
            head      name, cards, done, spoken, left, wait (seconds or None), waiting, running, trouble
            order     ids of all cards; None when it is as before
            cards     those that are new or changed
        """
        record = self._studio.scripts.get(script_id, owner=owner)
        speaking = self._runner.speaking(owner, script_id)
        trouble = self._runner.failure(owner, script_id)
        mark = _digest(record.updated.isoformat(), speaking, trouble)
        if not look and seen.partition(".")[0] == mark:
            return None
        cards = self._studio.scripts.cards(script_id, owner=owner)
        views = {card.id: card_view(card, speaking or ()) for card in cards}
        version = f"{mark}.{_digest(*views.values())}"
        if version == seen:
            return None
        digests = {card_id: _digest(view) for card_id, view in views.items()}
        before = self._remember(owner, script_id, version, digests, seen)
        head = self._head(record, cards, trouble, running=speaking is not None)
        return _difference(before, digests, views) | {
            "script": script_id,
            "since": seen if before is not None else "",
            "version": version,
            "head": head,
        }

    def _remember(self, owner: str, script_id: str, version: str, digests: Digests, seen: str) -> Digests | None:
        """Keeps this version; gives the one that was seen."""
        with self._lock:
            before = self._known.get((owner, script_id, seen))
            self._known[owner, script_id, version] = digests
            self._known.move_to_end((owner, script_id, version))
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return before

    def _head(self, record: ScriptRecord, cards: Sequence[CardRecord], trouble: str, *, running: bool) -> Patch:
        factor = self._runner.real_time_factor
        told = progress(cards, factor or 0.0)
        return {
            "name": record.name,
            "cards": told.cards,
            "done": told.done,
            "spoken": round(told.spoken, 1),
            "left": round(told.left, 1),
            "wait": None if factor is None else round(told.wait, 1),
            "waiting": sum(card.state == "queued" for card in cards),
            "running": running,
            "trouble": trouble,
        }


def card_view(card: CardRecord, speaking: Sequence[str]) -> dict[str, Any]:
    """A card for the page. state: as in `CardRecord`, or `speaking`."""
    return {
        "id": card.id,
        "text": card.text,
        "speaker": card.speaker,
        "voice": card.voice_id,
        "pause": card.pause,
        "locked": card.locked,
        "state": "speaking" if card.id in speaking else card.state,
        "failure": card.failure,
        "take": card.take_id,
        "seconds": None if card.duration is None else round(card.duration, 2),
        "cut": card.cut,
        "takes": card.takes,
    }


def script_view(record: ScriptRecord, *, running: bool) -> dict[str, Any]:
    """A line of the list of scripts."""
    return {
        "id": record.id,
        "name": record.name,
        "changed": record.updated.isoformat(),
        "cards": record.cards,
        "done": record.done,
        "spoken": round(record.spoken, 1),
        "running": running,
    }


def _difference(before: Digests | None, now: Digests, views: Views) -> Patch:
    if before is None:
        return {"order": list(now), "cards": list(views.values())}
    changed = [views[card_id] for card_id, digest in now.items() if before.get(card_id) != digest]
    return {"order": None if list(before) == list(now) else list(now), "cards": changed}


def _digest(*values: object) -> str:
    return hashlib.blake2b(repr(values).encode(), digest_size=8).hexdigest()
