"""Capacity model: the resources that 10, 1,000 and 100,000 concurrent listeners need.

    python -m benchmarks.scale.capacity [--replica s2-pro] [--listeners 10 1000 100000] [--zipf 1.0] [--voices 100000]

Frames per second and the time to prefill a voice are those that `benchmarks.speed` measured, of S2-Pro on a GPU with
random weights; the others are assumed. --frames-per-second, --prefill and --price replace them. Each is printed with
its origin. Hit rates of the prefix cache are simulated: voices are requested by a Zipf distribution, and each replica
caches the most recently used ones that fit.
"""

import argparse
import json
import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks._report import RESULTS, table

FRAME_RATE = 21.53  # of both models
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

    prefill: seconds to prefill a voice's prompt, and to learn from its clip. cache_voices: prompts that fit into its
    cache. price: dollars per hour. origins: of the figures, by their names.
    """

    name: str
    frames_per_second: float
    frame_rate: float
    prefill: float
    cache_voices: int
    gpus: float
    price: float
    origins: Mapping[str, str]

    def with_given(self, **figures: Any) -> "Replica":
        """Return the replica with figures that were given instead of those that it has."""
        return replace(self, **figures, origins={**self.origins, **dict.fromkeys(figures, "given")})

    def describe(self) -> str:
        """Return the figures with their origins, and how many listeners the replica bears."""
        listeners = self.frames_per_second * UTILISATION / self.frame_rate
        figures = {
            "frames_per_second": f"{self.frames_per_second:,.0f} frames/s",
            "prefill": f"{self.prefill:.3f} s to prepare a voice",
            "cache_voices": f"{self.cache_voices} voices in its cache",
            "price": f"${self.price:.2f} an hour",
        }
        told = "; ".join(f"{figure} ({self.origins[name]})" for name, figure in figures.items())
        return f"**{self.name}**: {listeners:,.0f} listeners a replica. {told}."


def bundled() -> Replica:
    """Return the bundled model on the machine that the benchmarks ran on."""
    return _measured("bundled", "", cache_voices=340, gpus=0, price=0.08)


def s2_pro() -> Replica:
    """Return S2-Pro on the GPU that the benchmarks ran on, one for each replica."""
    return _measured("s2-pro", "-cuda", cache_voices=80, gpus=1, price=2.50)


def _measured(name: str, kind: str, *, cache_voices: int, gpus: float, price: float) -> Replica:
    """Return a replica with the figures of the results whose names end in `kind`."""
    frames_per_second, frames_origin = _fastest(f"throughput{kind}")
    prefill, prefill_origin = _prefill(f"first_audio{kind}")
    origins = {"frames_per_second": frames_origin, "prefill": prefill_origin}
    origins |= dict.fromkeys(("cache_voices", "price"), "assumed")
    return Replica(name, frames_per_second, FRAME_RATE, prefill, cache_voices, gpus, price, origins)


def _fastest(name: str) -> tuple[float, str]:
    """Return the most frames per second at which no listener ran out of audio, if there are such, and their origin."""
    found = _result(name)
    best = max(found["rows"], key=lambda row: (not row["underruns"], row["frames_per_second"]))
    pauses = "with" if best["underruns"] else "without"
    listeners = f"{best['listeners']} listeners at once, {pauses} pauses"
    where = found["machine"]["gpu"] or f"{found['machine']['cores']} cores of {found['machine']['processor']}"
    return best["frames_per_second"], f"measured with {listeners}, on {where}: benchmarks/results/{name}.json"


def _prefill(name: str) -> tuple[float, str]:
    """Return by how many seconds a voice with a clip of 10 s speaks later if nothing of it is cached."""
    seconds = {
        row["case"]: sum(row[stage]["median"] for stage in ("queue", "prefill", "frames"))
        for row in _result(name)["rows"]
        if row["reference_s"] == 10
    }
    return seconds["a saved voice"] - seconds["a known voice"], f"measured: benchmarks/results/{name}.json"


def _result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def hit_rate(replicas: int, cache: int, voices: int, zipf: float, *, routed: bool) -> float:
    """Simulate the share of requests whose voice is in the cache of their replica.

    With `routed`, each voice belongs to one replica; otherwise requests go to any replica. Only a sample of replicas is
    simulated, with warm caches.
    """
    random = np.random.default_rng(7)
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


def replicas_needed(replica: Replica, listeners: int, voices: int, zipf: float) -> int:
    """Return the fewest replicas that bear the listeners' frames and the prefill of voices that miss their caches.

    With more replicas there are more caches, and so fewer misses.
    """
    requests, frames = listeners / REQUEST_SECONDS, listeners * replica.frame_rate

    def load(hits: float) -> int:
        lost = requests * (1 - hits) * replica.prefill  # replica seconds per second spent on prefill
        return max(1, math.ceil((frames / replica.frames_per_second + lost) / UTILISATION))

    def suffice(count: int) -> bool:
        return load(hit_rate(count, replica.cache_voices, voices, zipf, routed=True)) <= count

    least, most = load(hits=1.0), load(hits=0.0)
    return least + bisect_left(range(least, most), True, key=suffice)


def plan(replica: Replica, listeners: int, voices: int, zipf: float) -> Plan:
    """Plan the resources for listeners who listen continuously."""
    requests = listeners / REQUEST_SECONDS
    count = replicas_needed(replica, listeners, voices, zipf)
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
        replica = (bundled() if name == "bundled" else s2_pro()).with_given(**changed)
        print(f"\n{replica.describe()}\n")
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
