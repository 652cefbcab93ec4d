"""All attacks on the library, with the counts of `make attack`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tests.attack.storage import cuts, damaged, faults, full_disk, kills, leftovers
from tests.attack.storage.tally import Tally


def run(seed: int = 0) -> Iterator[Tally]:
    """Yield one tally per attack; some 1,500 cuts, faults and kills in a few minutes."""
    yield cuts.run(900, seed)
    yield faults.run(450, seed)
    if hasattr(os, "fork"):
        yield kills.run(180, seed)
    yield leftovers.run(20, seed)
    yield damaged.run(150, seed)
    if full_disk.missing() is None:
        yield full_disk.run(4, seed)


if __name__ == "__main__":
    for tally in run():
        print(f"{tally.name}: {tally.tried} tried, {len(tally.broken)} broken", *tally.broken, sep="\n  ", flush=True)
