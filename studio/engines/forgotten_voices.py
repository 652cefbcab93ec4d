"""Voices that were deleted a short while ago, for speech that was requested before."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence

from engine.voice import BuiltInVoice, Voice, voices_of

KEPT = 600.0  # seconds; longer than an unloaded model takes to be loaded
READ_WITHIN = 10.0  # seconds before speech is requested in which its voice is read


class ForgottenVoices:
    """Digests of the codes of voices that were forgotten in the last `KEPT` seconds. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._forgotten: dict[bytes, float] = {}  # when, by digest; the first ones first
        self._lock = threading.Lock()

    def add(self, voice: Voice) -> None:
        """Note that a voice is forgotten now."""
        now = self._clock()
        with self._lock:
            recent = {digest: at for digest, at in self._forgotten.items() if now - at <= KEPT}
            self._forgotten = recent | dict.fromkeys(_digests(voice), now)

    def now(self) -> float:
        """Return the time at which a speech is requested, for `among`."""
        return self._clock()

    def among(self, spoken: Voice | Sequence[Voice] | BuiltInVoice | None, requested: float) -> list[Voice]:
        """Return those of the voices of a speech that were forgotten since they were read. Others may be restored."""
        with self._lock:
            since = requested - READ_WITHIN
            forgotten = {digest for digest, at in self._forgotten.items() if at >= since}
        return [voice for voice in voices_of(spoken) if not forgotten.isdisjoint(_digests(voice))] if forgotten else []


def _digests(voice: Voice) -> set[bytes]:
    return {hashlib.sha256(reference.codes.tobytes()).digest() for reference in voice.references}
