"""Damaged databases: random bytes in pages, truncated, or mixed with another's pages."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from engine.errors import RepriseError
from storage import Storage
from tests.attack.storage.marked import Marker
from tests.attack.storage.power import write_files
from tests.attack.storage.tally import Tally
from tests.attack.storage.workloads import NAME, filled_library, open_storage
from tests.storage.scratch import scratch

PAGE = 4096


def run(count: int, seed: int = 0) -> Tally:
    """Run a number of damaged libraries: every operation succeeds or raises a library error."""
    tally = Tally("damaged databases")
    for number in range(seed, seed + count):
        chance = random.Random(number)
        data = damage(bytearray(filled_library()[NAME]), chance)
        tally.tried += 1
        with scratch() as folder:
            write_files({NAME: data}, folder)
            for broken in _broken(folder, chance):
                tally.broken.append(f"library {number}: {broken}")
    return tally


def damage(data: bytearray, chance: random.Random) -> bytes:
    """Damage a database in one of several ways."""
    pages = len(data) // PAGE
    match chance.choice(["bytes", "bytes", "page", "swap", "cut", "text"]):
        case "bytes":
            for _ in range(chance.randint(1, 60)):
                data[chance.randrange(100, len(data))] = chance.randrange(256)
        case "page":
            start = PAGE * chance.randrange(pages)
            data[start + 100 : start + PAGE] = chance.randbytes(PAGE - 100)
        case "swap":
            one, other = PAGE * chance.randrange(1, pages), PAGE * chance.randrange(1, pages)
            data[one : one + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[one : one + PAGE]
        case "cut":
            del data[chance.randrange(100, len(data)) :]
        case "text":  # every page with rows
            for start in range(0, len(data), PAGE):
                at = data.find(b"zq", start, start + PAGE)
                if at > 0 and chance.random() < 0.5:
                    data[max(0, at - chance.randint(0, 300))] = chance.choice([0x00, 0xFF, 0x80, 0x7B])
    return bytes(data)


def _broken(folder: Path, chance: random.Random) -> Iterator[str]:
    try:
        storage = open_storage(folder, later=True)
    except RepriseError as error:
        if found := _leaked_path(error, folder):
            yield found
        return
    except Exception:
        yield traceback.format_exc(limit=-3)
        return
    for act in _acts(storage, chance):
        try:
            act()
        except RepriseError as error:
            if found := _leaked_path(error, folder):
                yield found
        except Exception:  # any other error
            yield traceback.format_exc(limit=-3)
    storage.close()


def _leaked_path(error: RepriseError, folder: Path) -> str | None:
    return f"the error contains the folder: {error}" if str(folder) in str(error) else None


def _acts(storage: Storage, chance: random.Random) -> list[Callable[[], object]]:
    mark = Marker(chance)
    acts: list[Callable[[], object]] = []
    for owner in ("local", "ann"):
        voices, takes, cards = ["0" * 32], ["0" * 32], ["0" * 32]
        with suppress(Exception):
            voices = [record.id for record in storage.voices.list(owner=owner)]
        with suppress(Exception):
            takes = [record.id for record in storage.history.page(owner=owner).records]
        with suppress(Exception):
            script = storage.scripts.list(owner=owner)[0].id
            cards = [card.id for card in storage.scripts.cards(script, owner=owner)]
        acts += [
            partial(storage.voices.list, owner=owner),
            partial(storage.history.page, owner=owner),
            partial(storage.scripts.list, owner=owner),
            partial(storage.owner_counts, owner=owner),
            *(lambda one=one, owner=owner: storage.voices.export_voice(one, owner=owner) for one in voices),
            *(lambda one=one, owner=owner: storage.history.audio(one, owner=owner) for one in takes),
            *(lambda one=one, owner=owner: storage.scripts.takes(one, owner=owner) for one in cards),
            *(lambda one=one, owner=owner: storage.voices.rename(one, mark.token(), owner=owner) for one in voices[:1]),
            partial(lambda owner: storage.voices.add(mark.voice(), owner=owner), owner),
            partial(lambda owner: storage.history.add(mark.spoken(), owner=owner), owner),
            *(lambda one=one, owner=owner: storage.voices.trash(one, owner=owner) for one in voices[1:2]),
            *(lambda one=one, owner=owner: storage.history.delete(one, owner=owner) for one in takes[:1]),
        ]
    return [*acts, storage.voices.purge_expired, storage.history.expire, lambda: storage.delete_owner("ann")]
