"""Voices to store, an open library, concurrent calls, and row counts read directly from the database."""

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import soundfile
from sqlalchemy import Engine, create_engine, event, text

from engine.voice import Consent, Reference, Voice
from storage import Storage, VoiceLibrary

Result = TypeVar("Result")

SAMPLE_RATE = 22050
CONSENT = Consent("Ada", datetime(2026, 11, 21, 8, 30, tzinfo=UTC), "This voice is mine; you may clone it.")


def clip(seed: int = 0, seconds: float = 0.1) -> bytes:
    noise = np.random.default_rng(seed).normal(scale=0.1, size=round(seconds * SAMPLE_RATE))
    file = io.BytesIO()
    soundfile.write(file, noise, SAMPLE_RATE, format="FLAC")
    return file.getvalue()


def codes(seed: int = 0, frames: int = 12, codebooks: int = 10) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1024, (codebooks, frames))


def reference(seed: int = 0, transcript: str = "One reference.") -> Reference:
    return Reference(transcript, codes(seed), clip(seed), SAMPLE_RATE, 0.1)


def not_reencoded(voice: Voice) -> Voice:
    """Stand for a re-encoding that must not happen."""
    pytest.fail(voice.name)


@contextmanager
def open_voices(url_or_path: str | Path, *, busy_timeout: float = 10.0) -> Iterator[VoiceLibrary]:
    with Storage.open(url_or_path, busy_timeout=busy_timeout) as storage:
        yield storage.voices


def voice(name: str = "Ada", *, seed: int = 0, references: int = 2, fingerprint: str = "codec-a") -> Voice:
    kept = tuple(reference(seed + index, f"Reference {index} of {name}.") for index in range(references))
    return Voice(name, kept, fingerprint, "en", f"Made from seed {seed}.", CONSENT)


def recoded(original: Voice, fingerprint: str, seed: int = 7) -> Voice:
    """Return the voice with other codes of the same clips, as another codec would encode it."""
    kept = tuple(
        Reference(old.transcript, codes(seed + index), old.clip, old.sample_rate, old.duration)
        for index, old in enumerate(original.references)
    )
    return Voice(original.name, kept, fingerprint)


def run_concurrently(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Call all of them from threads that start together; an exception of any call is raised."""
    gate = threading.Barrier(len(calls))

    def wait(call: Callable[[], Result]) -> Result:
        gate.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(wait, calls))


@contextmanager
def inserts_together(table: str, calls: int) -> Iterator[None]:
    """Hold the first insertion into a table by each of so many threads until all have come to it."""
    gate, held = threading.Barrier(calls, timeout=30), threading.local()

    def wait(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith(f"INSERT INTO {table} ") and not getattr(held, "once", False):
            held.once = True
            gate.wait()

    event.listen(Engine, "before_cursor_execute", wait)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", wait)


def lock_awaited(url: str, call: Future[Any]) -> bool:
    """Return True once a connection to PostgreSQL waits for a lock, or False once the call has ended."""
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as observer:
        while not (found := bool(observer.scalar(waiting))) and not call.done():
            pass
    engine.dispose()
    return found


def count_rows(url: str, table: str) -> int:
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = connection.scalar(text(f"SELECT count(*) FROM {table}"))
    engine.dispose()
    return int(rows)
