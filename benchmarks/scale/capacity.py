"""Capacity model: the resources that 10, 1,000 and 100,000 concurrent listeners need.

    python -m benchmarks.scale.capacity [--replica s2-pro] [--listeners 10 1000 100000] [--zipf 1.0] [--voices 100000]

The figures of a replica are measured by `benchmarks.speed` (`bundled`) or assumed, and marked as such (`s2-pro`).
Replace them with --frames-per-second, --prefill and --price. Hit rates of the prefix cache are simulated:
voices are requested by a Zipf distribution, and each replica caches the most recently used ones that fit.
"""

import argparse
import json
import math
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np

from benchmarks._report import RESULTS, table

UTILISATION = 0.7  # share of a replica's frames in use; above it, queues grow quickly
REQUEST_SECONDS = 8.0  # mean length of a request's audio
CHUNK_SECONDS = 0.4  # mean length of a chunk: four frames at first, then more
STATEMENTS = 9  # SQL statements per request: its voice, the owner's settings, the take and its audio
TAKE_BYTES = 25_000  # FLAC, per second of audio
SAMPLE, REQUESTS = 24, 20_000  # simulated replicas, and requests to each
# Limits of one process or server. The first two are assumptions to be measured.
PAGE_CHUNKS = 1_500  # chunks per second through one page process
DATABASE_STATEMENTS = 8_000  # per second, on a server with 8 cores
DATABASE_BYTES = 200e6  # written per second
SERVE_REPLICAS = 1_000  # per Serve controller, by Ray's own tests


@dataclass(frozen=True)
class Replica:
    """Figures of one replica.

    prefill: seconds to prefill a voice's prompt. cache_voices: prompts that fit into its cache. source: origin of the
    figures.
    """

    name: str
    frames_per_second: float
    frame_rate: float
    prefill: float
    cache_voices: int
    gpus: float
    price: float  # dollars per hour
    source: str


def bundled() -> Replica:
    """Return the bundled model on the machine that `benchmarks.speed.throughput` ran on."""
    rows = json.loads((RESULTS / "throughput.json").read_text("utf-8"))["rows"]
    best = max(rows, key=lambda row: row["frames_per_second"])
    source = f"measured with {best['listeners']} listeners at once: benchmarks/results/throughput.json; "
    source += "price of two rented cores assumed"
    return Replica("bundled", best["frames_per_second"], 21.53, 0.03, 340, 0, 0.08, source)


S2_PRO = Replica("s2-pro", 3_000, 21.53, 0.25, 80, 1, 2.50,
                 "assumed: half of what the memory bandwidth of an 80 GB GPU permits with 64 slots; "
                 "many listeners on a GPU have not been measured")  # fmt: skip


def hit_rate(replicas: int, cache: int, voices: int, zipf: float, *, routed: bool, seed: int = 7) -> float:
    """Simulate the share of requests whose voice is in the cache of their replica.

    With `routed`, each voice belongs to one replica; otherwise requests go to any replica. Only a sample of replicas is
    simulated, with warm caches.
    """
    random = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, voices + 1) ** zipf
    weights /= weights.sum()
    homes = random.integers(0, replicas, size=voices)
    hits = mass = 0.0
    for home in range(min(replicas, SAMPLE) if routed else 1):
        own = np.flatnonzero(homes == home) if routed else np.arange(voices)
        share = float(weights[own].sum())
        if share == 0:
            continue
        asked = random.choice(own, size=REQUESTS, p=weights[own] / share)
        hits += share * _hits(asked.tolist(), cache)
        mass += share
    return hits / mass if mass else 0.0


def _hits(asked: list[int], cache: int) -> float:
    """Return the hit rate of an LRU cache over the second half of the requests."""
    kept: OrderedDict[int, None] = OrderedDict()
    found = 0
    for index, voice in enumerate(asked):
        found += voice in kept and index >= len(asked) // 2
        kept[voice] = None
        kept.move_to_end(voice)
        if len(kept) > cache:
            kept.popitem(last=False)
    return found / (len(asked) - len(asked) // 2)


@dataclass(frozen=True)
class Plan:
    """Resources for a number of listeners."""

    listeners: int
    replicas: int
    requests: float  # per second
    hits: float
    hits_unrouted: float
    pages: int
    statements: float  # per second
    bytes_written: float  # per second
    dollars: float  # per hour of speech
    first: str  # other resources that exceed the limit of one process or server, the most overloaded first


def plan(replica: Replica, listeners: int, voices: int, zipf: float) -> Plan:
    """Plan the resources for listeners who listen continuously."""
    requests = listeners / REQUEST_SECONDS
    frames, hits, count = listeners * replica.frame_rate, 0.5, 1
    for _ in range(3):  # iterate, because cache misses cost frames and more replicas add caches
        lost = requests * (1 - hits) * replica.prefill  # replica seconds per second spent on prefill
        count = max(1, math.ceil((frames / replica.frames_per_second + lost) / UTILISATION))
        hits = hit_rate(count, replica.cache_voices, voices, zipf, routed=True)
    unrouted = hit_rate(count, replica.cache_voices, voices, zipf, routed=False)
    pages = math.ceil(listeners / CHUNK_SECONDS / PAGE_CHUNKS)
    statements, written = requests * STATEMENTS, listeners * TAKE_BYTES
    dollars = count * replica.price / listeners
    loads = {
        "page process": listeners / CHUNK_SECONDS / PAGE_CHUNKS,
        "database statements": statements / DATABASE_STATEMENTS,
        "database writes": written / DATABASE_BYTES,
        "Serve controller": count / SERVE_REPLICAS,
    }
    over = sorted(((load, name) for name, load in loads.items() if load > 1), reverse=True)
    first = ", ".join(f"{name} × {load:,.1f}" for load, name in over) or "nothing"
    return Plan(listeners, count, requests, hits, unrouted, pages, statements, written, dollars, first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replica", choices=["bundled", "s2-pro"], nargs="+", default=["bundled", "s2-pro"])
    parser.add_argument("--listeners", type=int, nargs="+", default=[10, 1_000, 100_000])
    parser.add_argument("--voices", type=int, default=100_000)
    parser.add_argument("--zipf", type=float, default=1.0)
    parser.add_argument("--frames-per-second", type=float)
    parser.add_argument("--prefill", type=float)
    parser.add_argument("--price", type=float)
    given = parser.parse_args()
    named = ("frames_per_second", "prefill", "price")
    changed = {name: getattr(given, name) for name in named if getattr(given, name) is not None}
    for name in given.replica:
        replica = replace(bundled() if name == "bundled" else S2_PRO, **changed)
        print(f"\n**{replica.name}**: {replica.frames_per_second:,.0f} frames/s, "
              f"{replica.frames_per_second * UTILISATION / replica.frame_rate:,.0f} listeners a replica. "
              f"Source: {replica.source}.\n")  # fmt: skip
        rows = [plan(replica, count, given.voices, given.zipf) for count in given.listeners]
        print(table(
            ["listeners", "replicas", "GPUs", "requests/s", "prefix hits", "without routing", "page processes",
             "SQL/s", "sound written, MB/s", "$ for a spoken hour", "over the limit of one"],
            [[f"{row.listeners:,}", row.replicas, row.replicas * replica.gpus, round(row.requests, 1),
              f"{row.hits:.0%}", f"{row.hits_unrouted:.0%}", row.pages, round(row.statements),
              round(row.bytes_written / 1e6, 1), f"{row.dollars:.4f}", row.first] for row in rows],
        ))  # fmt: skip


if __name__ == "__main__":
    main()
