"""Export of a spoken script: one audio file, an audio book with chapters, or an archive with a file for each card.

All are written to anonymous temporary files, take by take, so that memory stays bounded.
"""

from __future__ import annotations

import io
import math
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING, BinaryIO

from engine.audio.output.encode import RATES
from engine.audio.output.mastering import SILENT
from engine.errors import InvalidInput
from studio.audio_files.audiobook import Chapter, write_audiobook
from studio.audio_files.concatenate import FileFormat, TakeAudio, take_loudness, write_takes
from studio.files.file_names import safe_file_name, short_stem, take_file_name
from studio.provenance.provenance import Provenance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from storage.repositories.scripts.cards import CardRecord
    from storage.scripts.script_library import ScriptLibrary

_VOICE_LOUDNESS = -26.0  # LUFS, of each voice before the final gain; peaks of speech are less than 26 dB above it


class ScriptExport:
    """The files of one script, as it is when this is created.

    lufs: target loudness; None to leave it as it is. With a target, all voices of a joined file are equally loud.

    Raises ScriptNotFound. Methods raise InvalidInput if nothing is spoken, and TakeNotFound if a take is deleted
    meanwhile.
    """

    def __init__(self, scripts: ScriptLibrary, script_id: str, *, owner: str, lufs: float | None = None) -> None:
        self._scripts, self._owner, self._lufs = scripts, owner, lufs
        # Writing a file takes minutes, during which cards may be changed and spoken.
        spoken = scripts.spoken(script_id, owner=owner)
        self._script, self._cards = spoken.script, spoken.cards
        self._provenances = {take.id: Provenance.of_record(take) for take in spoken.takes}
        self._voices = {take.id: take.voice_id or take.voice_name for take in spoken.takes}

    def sound(self, format: FileFormat) -> BinaryIO:
        """Return all takes, with the pauses between them."""
        return _written(lambda file: write_takes(file, self._takes(), format, self._tags(), self._lufs))

    def audiobook(self) -> BinaryIO:
        """Return an .m4b with the script's chapters and its cover."""
        cover = self._scripts.cover(self._script.id, owner=self._owner) or None

        def write(file: BinaryIO) -> None:
            with tempfile.TemporaryFile() as whole:
                write_takes(whole, self._takes(), "wav", {}, self._lufs, rates=RATES["mp3"], lossy=True)
                write_audiobook(whole, file, self._script.name, self._chapters(), cover, self._tags())

        return _written(write)

    def cards(self, format: FileFormat) -> BinaryIO:
        """Return a .zip with a file for each card, numbered by position."""

        def write(file: BinaryIO) -> None:
            if not self._provenances:
                raise InvalidInput("cards.unspoken")
            with zipfile.ZipFile(file, "w") as archive:  # audio does not compress
                for card, take in self._sounds():
                    part, tags = io.BytesIO(), self._provenances[card.take_id or ""].tags()
                    write_takes(part, [TakeAudio(take, speed=card.speed)], format, tags, self._lufs)
                    archive.writestr(_card_name(card, format), part.getvalue())

        return _written(write)

    def _sounds(self) -> Iterator[tuple[CardRecord, bytes]]:
        return self._scripts.sounds(self._cards, owner=self._owner)

    def _takes(self) -> Iterator[TakeAudio]:
        gains = self._gains()
        for card, sound in self._sounds():
            yield TakeAudio(sound, card.pause, card.speed, gains[self._voices[card.take_id or ""]])

    def _gains(self) -> Mapping[str, float]:
        """Return the gain in dB for each voice's takes that makes all voices equally loud; without a target 0.

        A voice that is silent or too short to measure has the mean gain.
        """
        voices = set(self._voices.values())
        if self._lufs is None or len(voices) < 2:
            return dict.fromkeys(voices, 0.0)
        powers, seconds = defaultdict[str, float](float), defaultdict[str, float](float)
        for card, sound in self._sounds():
            if (loudness := take_loudness(sound)) > SILENT:
                voice, duration = self._voices[card.take_id or ""], card.duration or 0.0
                powers[voice] += duration * 10 ** (loudness / 10)
                seconds[voice] += duration
        gains = {voice: _VOICE_LOUDNESS - 10 * math.log10(power / seconds[voice]) for voice, power in powers.items()}
        return dict.fromkeys(voices, fmean(gains.values() or [0.0])) | gains

    def _tags(self) -> Mapping[str, str]:
        """Return the tags of a joined file. The author is the artist, and speech the composer, players' narrator."""
        tags = Provenance.joined(self._provenances.values()).tags() | {"title": self._script.name}
        if author := self._script.author:
            tags |= {"artist": author, "album_artist": author, "composer": tags["artist"]}
        return tags

    def _chapters(self) -> list[Chapter]:
        """Return the chapters, with their starts in the joined audio. Cards before the first have the script's name.

        The chapter of an unspoken card begins with the next spoken one.
        """
        chapters: list[Chapter] = []
        place, waiting = 0.0, self._script.name
        for card in self._cards:
            waiting = card.chapter or waiting
            if card.seconds is None:
                continue
            if waiting:
                chapters.append(Chapter(place, waiting))
                waiting = ""
            place += card.seconds + card.pause
        return chapters


def _written(write: Callable[[BinaryIO], None]) -> BinaryIO:
    """Return an anonymous temporary file, filled by `write`. It is deleted when it is closed."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  # closed after it was sent
    try:
        write(file)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def _card_name(card: CardRecord, format: FileFormat) -> str:
    title = take_file_name(card.speaker or "", card.text).removeprefix(" – ")
    return safe_file_name(f"{card.position + 1:04} {short_stem(title)}.{format}")
