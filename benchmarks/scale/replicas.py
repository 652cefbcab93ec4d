"""Throughput and first audio with an engine in this process, and with one and two replicas on a local Ray cluster.

    python -m benchmarks.scale.replicas [--replicas 1 2] [--listeners 4] [--rounds 3]

Each listener is a thread that requests one sentence after the other, always in the same sample voice. All replicas
share the cores of this machine, so the ratios show the cost of the cluster, not the gain from a second machine.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks._report import print_table, save
from engine.engine import Engine
from engine.options import SpeakOptions
from storage.voices.sample_voices import read_sample_voices

TEXTS = ("The rain has stopped.", "The children play in the garden.", "We walk to the river in the morning.")


@dataclass(frozen=True)
class Measured:
    """Figures of one run. replicas: 0 for an engine in this process. first_audio: median, seconds."""

    replicas: int
    frames_per_second: float
    first_audio: float
    worst_first_audio: float


@contextmanager
def engine(replicas: int) -> Iterator[Any]:
    """Start an engine with a number of replicas; 0 starts one in this process."""
    if not replicas:
        with closing(Engine.load("bundled", "cpu", slots=4)) as made:
            yield made
        return
    from studio.cluster.deployment import NEW_CLUSTER, connect
    from studio.cluster.messages import DeploymentSettings, EngineSettings

    engine = EngineSettings("bundled", "cpu", slots=4)
    with closing(
        connect(NEW_CLUSTER, DeploymentSettings(engine, (replicas, replicas), gpus=0.0, cpus=0.5), cpus=4)
    ) as made:
        yield made


def measure(replicas: int, listeners: int, rounds: int) -> Measured:
    """Run all listeners at once."""
    voices = [sample.voice for sample in read_sample_voices()]
    with engine(replicas) as speaking:

        def listen(number: int, times: int, together: threading.Barrier) -> tuple[int, list[float]]:
            together.wait()
            frames, firsts = 0, []
            for turn in range(times):
                began, first = time.perf_counter(), None
                text = TEXTS[(number + turn) % len(TEXTS)]
                for chunk in speaking.speak(text, voices[number % len(voices)], SpeakOptions(seed=turn)):
                    first = first or time.perf_counter() - began
                    frames += chunk.frames
                firsts.append(first or 0.0)
            return frames, firsts

        def all_at_once(times: int) -> tuple[float, list[float]]:
            together = threading.Barrier(listeners)
            with ThreadPoolExecutor(listeners) as pool:
                began = time.perf_counter()
                done = list(pool.map(lambda number: listen(number, times, together), range(listeners)))
            took = time.perf_counter() - began
            return sum(frames for frames, _ in done) / took, [first for _, firsts in done for first in firsts]

        all_at_once(1)  # warm up voices and routes
        rate, firsts = all_at_once(rounds)
    return Measured(replicas, rate, statistics.median(firsts), max(firsts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--listeners", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    measured = [measure(count, given.listeners, given.rounds) for count in given.replicas]
    base = measured[0]
    print_table(
        f"{given.listeners} listeners",
        ["engine", "frames/s", "ratio", "first audio, ms", "worst, ms", "ratio"],
        [
            [
                f"{each.replicas} replicas" if each.replicas else "in this process",
                round(each.frames_per_second),
                round(each.frames_per_second / base.frames_per_second, 2),
                round(1000 * each.first_audio),
                round(1000 * each.worst_first_audio),
                round(each.first_audio / base.first_audio, 2),
            ]
            for each in measured
        ],
    )
    save("replicas", {"rows": [asdict(each) for each in measured]})


if __name__ == "__main__":
    main()
