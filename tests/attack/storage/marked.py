"""Voices, takes and scripts whose bytes identify their field.

Texts, codes and audio consist of 16-byte tokens, a new one for each field. A token in a file but in no row is a
leftover.
"""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from engine.voice import Consent, Reference, Voice
from storage.repositories.takes import NewTake
from tests.storage.making import SAMPLE_RATE, clip
from tests.storage.speaking import NewCard, card

TOKEN = re.compile(rb"zq[0-9a-f]{14}")
_FLAC_HEAD = clip()[:42]


class Marker:
    """Creates marked objects; `chance` determines their lengths."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def token(self) -> str:
        return f"zq{self.chance.getrandbits(56):014x}"

    def text(self, most: int) -> str:
        """A text of limited length that repeats one token."""
        return " ".join([self.token()] * self.chance.randint(1, max(1, most // 17)))[:most]

    def sound(self, most: int) -> bytes:
        return _FLAC_HEAD + self.token().encode() * self.chance.randint(1, most // 16)

    def codes(self) -> np.ndarray:
        frames = self.chance.randint(8, 400)
        words = np.frombuffer(self.token().encode(), ">u2").astype(np.uint16)
        row = np.resize(words, frames)
        row[0] = 65535  # so that each code has 16 bits, and the packed codes are the token's bytes
        return np.stack([row] * self.chance.randint(1, 4))

    def reference(self, codebooks: np.ndarray | None = None) -> Reference:
        codes = self.codes() if codebooks is None else codebooks
        return Reference(self.text(400), codes, self.sound(40_000), SAMPLE_RATE, 0.1)

    def voice(self) -> Voice:
        """A voice with one reference; two would need equal numbers of codebooks."""
        consent = Consent(self.text(60), datetime.now(UTC), self.text(100))
        tags = [self.token() for _ in range(self.chance.randint(0, 4))]
        return Voice(
            self.text(80), (self.reference(),), "codec-a", "en", self.text(self.chance.choice([50, 2_000])), consent,
            tuple(tags),
        )  # fmt: skip

    def recoded(self, voice: Voice) -> Voice:
        """The voice with codes of another codec."""
        made = tuple(
            Reference(old.transcript, self.codes(), old.clip, old.sample_rate, old.duration) for old in voice.references
        )
        return Voice(voice.name, made, "codec-b")

    def spoken(self, text: str | None = None) -> NewTake:
        said = text or self.text(self.chance.choice([60, 900, 9_000]))
        sound = self.sound(self.chance.choice([100, 5_000, 60_000]))
        settings = {"style": self.text(100)}
        return NewTake(text=said, audio=sound, duration=1.0, seed=7, voice_name=self.text(80), settings=settings)

    def card(self) -> NewCard:
        return card(self.text(self.chance.choice([100, 1_000])), speaker=self.token())


def tokens_in_rows(path: Path) -> set[bytes]:
    """The tokens in the rows of all tables."""
    found: set[bytes] = set()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in connection.execute(f"SELECT * FROM {table}"):
                for value in row:
                    data = value.encode() if isinstance(value, str) else value
                    if isinstance(data, bytes):
                        found.update(TOKEN.findall(data))
    return found


def tokens_in_files(path: Path) -> set[bytes]:
    """The tokens in the bytes of the database file and of all files with its name as prefix."""
    found: set[bytes] = set()
    for file in path.parent.glob(f"{path.name}*"):
        found.update(TOKEN.findall(file.read_bytes()))
    return found


def leftover_tokens(path: Path) -> set[bytes]:
    """The tokens in the files that are in no row. Call it only while nothing writes."""
    in_files = tokens_in_files(path)  # read first, because reading the rows opens the database
    return in_files - tokens_in_rows(path)
