"""Tags for the provenance of a file, written into every exported file and read from any file.

They say that the speech is synthetic, and name model, voice, seed and date. Anyone can remove or forge them. The
watermark (`studio.provenance.watermark`) is harder to remove, but carries no data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, unquote

from engine.audio.decode import decode
from engine.audio.output.tags import read_tags
from engine.messages import UserMessage
from storage.errors import VoiceNotFound
from storage.validation import LOCAL
from studio.provenance.watermark import CHECKED_SECONDS, load_watermark, watermark_installed
from studio.voices.available_voices import BUILT_IN_PREFIX

if TYPE_CHECKING:
    from storage import VoiceLibrary
    from storage.repositories.takes import TakeRecord

ARTIST = "Synthetic speech (Reprise)"
MAX_VALUES = 16  # models, voices and seeds each, of a file joined from many takes
_KIND, _MAKER = "synthetic speech", "made-by=Reprise"
_LONGEST = 200  # characters of a name


def public_name(model: str) -> str:
    """Return the public name of a model: for the path of a folder, only its last part."""
    return PurePath(model).name if Path(model).is_absolute() else model


@dataclass(frozen=True)
class Provenance:
    """The provenance of a file. voices: ids, or `model:NAME` for the model's own. made: the date, UTC."""

    models: tuple[str, ...] = ()
    voices: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    made: date | None = None

    @classmethod
    def from_take(cls, model: str, voice: str | None, seed: int, made: datetime | None = None) -> Provenance:
        """Return the provenance of one take. made: now by default."""
        name = public_name(model)
        return cls(
            (name,) if name else (),
            (voice,) if voice else (),
            (seed,),
            (made or datetime.now(UTC)).astimezone(UTC).date(),
        )

    @classmethod
    def of_record(cls, record: TakeRecord) -> Provenance:
        """Return the provenance of a stored take."""
        return cls.from_take(record.model, record.voice_id, record.seed, record.created)

    @classmethod
    def joined(cls, provenances: Iterable[Provenance]) -> Provenance:
        """Return the provenance of a file joined from takes: each model, voice and seed once, and the last date."""
        parts = tuple(provenances)
        return cls(
            tuple(dict.fromkeys(name for each in parts for name in each.models))[:MAX_VALUES],
            tuple(dict.fromkeys(voice for each in parts for voice in each.voices))[:MAX_VALUES],
            tuple(dict.fromkeys(seed for each in parts for seed in each.seeds))[:MAX_VALUES],
            max((each.made for each in parts if each.made), default=None),
        )

    def tags(self) -> dict[str, str]:
        """Return the tags for an encoder. The comment is ASCII, which every container preserves."""
        day = self.made.isoformat() if self.made else ""
        fields = {
            "model": ",".join(map(_quoted, self.models)),
            "voice": ",".join(map(_quoted, self.voices)),
            "seed": ",".join(map(str, self.seeds)),
            "date": day,
        }
        comment = "; ".join([_KIND, _MAKER, *(f"{name}={value}" for name, value in fields.items() if value)])
        return {"artist": ARTIST, "comment": comment, "date": day}

    @classmethod
    def read(cls, comment: str) -> Provenance | None:
        """Parse a file's comment; None if Reprise did not write it. Invalid values are left out."""
        kind, *fields = [part.strip() for part in comment.split(";")]
        if kind != _KIND or _MAKER not in fields:
            return None
        values = dict(part.partition("=")[::2] for part in fields)

        def several(name: str) -> tuple[str, ...]:
            return tuple(unquote(each)[:_LONGEST] for each in values.get(name, "").split(",") if each)[:MAX_VALUES]

        seeds = tuple(int(each) for each in several("seed") if each.isascii() and each.isdigit() and len(each) < 20)
        return cls(several("model"), several("voice"), seeds, _day(values.get("date", "")))


@dataclass(frozen=True)
class FileCheck:
    """Result of checking a file. provenance: from its tags; None if they are not from Reprise.

    watermark: in the first 30 s; "unknown" if the packages to check it are not installed.
    """

    provenance: Provenance | None
    watermark: Literal["found", "missing", "unknown"]

    @property
    def ours(self) -> bool:
        """Whether the tags or the watermark say that Reprise made the file."""
        return self.provenance is not None or self.watermark == "found"

    def messages(self, voices: Sequence[str] = ()) -> list[UserMessage]:
        """Return the findings as user-facing messages. voices: names to show in place of the ids."""
        provenance = self.provenance
        found = [UserMessage("provenance.tagged" if provenance else "provenance.untagged")]
        if provenance:
            facts = {
                "model": ", ".join(provenance.models),
                "voice": ", ".join(voices or provenance.voices),
                "seed": ", ".join(map(str, provenance.seeds)),
                "date": provenance.made.isoformat() if provenance.made else "",
            }
            found += [UserMessage(f"provenance.{name}", {name: value}) for name, value in facts.items() if value]
        return [*found, UserMessage(f"provenance.watermark_{self.watermark}")]


def voice_names(provenance: Provenance, library: VoiceLibrary, owner: str = LOCAL) -> tuple[str, ...]:
    """Return the names of the provenance's voices; the id of a voice that the owner does not have."""
    return tuple(_voice_name(voice, library, owner) for voice in provenance.voices)


def check_file(source: bytes | str | Path) -> FileCheck:
    """Check the tags and the watermark of a file. Raises UnusableReference for one that is not audio."""
    sound = decode(source, max_seconds=CHECKED_SECONDS)
    provenance = Provenance.read(read_tags(source).get("comment", ""))
    if not watermark_installed():
        return FileCheck(provenance, "unknown")
    found = load_watermark().found(sound.samples, sound.sample_rate)
    return FileCheck(provenance, "found" if found else "missing")


def _quoted(name: str) -> str:
    return quote(name[:_LONGEST], safe="/:._-")


def _voice_name(voice: str, library: VoiceLibrary, owner: str) -> str:
    if voice.startswith(BUILT_IN_PREFIX):
        return voice.removeprefix(BUILT_IN_PREFIX)
    try:
        return library.get(voice, owner=owner).name
    except VoiceNotFound:
        return voice


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
