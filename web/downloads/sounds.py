"""Audio as downloads: takes in four formats, and the clips of voices.

take   "<id>.<format>", format one of wav, flac, mp3, opus; "<id>" alone is wav, "<id>@125.<format>" at speed 1.25;
       "<id>.<format>~16" at -16 LUFS
clip   "<voice id>", or "<voice id>.<number>" for a clip other than the first: a 16-bit WAV
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
import soundfile

from engine.audio.output.mastering import LOUDNESS
from storage.errors import TakeNotFound, VoiceNotFound
from studio.audio_files.concatenate import FileFormat, TakeAudio, write_takes
from studio.files.file_names import take_file_name
from studio.provenance.provenance import Provenance, public_name
from studio.takes.settings import REPAIRED, SAMPLING_SETTINGS, SPEED
from studio.voices.available_voices import is_described
from web.downloads.links import DownloadFile, FileProducer

if TYPE_CHECKING:
    from storage import VoiceLibrary
    from storage.repositories.takes import TakeRecord
    from studio.takes.store import TakeStore
    from web.downloads.links import DownloadLinks
    from web.identity.owners import Owner

FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
_SHOWN_SETTINGS = (*SAMPLING_SETTINGS, SPEED, REPAIRED)
_PARTS = 120  # of a waveform as it is drawn
MIMES = {"wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "opus": "audio/ogg"}


def take_producer(takes: TakeStore) -> FileProducer:
    """Return a producer for an owner's takes, named after the voice and the first words."""

    def produce(owner: str, asked: str) -> DownloadFile:
        asked, lufs = split_loudness(asked)
        item, _, format = asked.partition(".")
        take_id, _, percent = item.partition("@")
        if (format or "wav") not in FORMATS:
            raise TakeNotFound("take.format", format=format, formats=tuple(FORMATS))
        record = takes.get(take_id, owner=owner)
        chosen = cast(FileFormat, format or "wav")
        name = take_file_name(record.voice_name, record.text)
        sound = converted(
            takes.audio(take_id, owner=owner), chosen, _speed(percent), Provenance.of_record(record), lufs
        )
        return DownloadFile(sound, f"{name}.{chosen}", MIMES[chosen])

    return produce


def sound_facts(
    record: TakeRecord, owner: Owner, links: DownloadLinks, valid: int = 600, speed: float = 1.0
) -> dict[str, Any]:
    """Return the player's details of a take, for details.js. valid: lifetime of the links in seconds.

    speed: the card's playback speed, in hundredths.
    """
    item = sound_id(record.id, speed)
    return {
        "text": record.text,
        "voice": {"id": record.voice_id or "", "name": record.voice_name},
        "seed": record.seed,
        "model": public_name(record.model),
        "settings": {name: record.settings[name] for name in _SHOWN_SETTINGS if name in record.settings},
        "ending": record.stop_reason,
        "words": [(start, end, begins / speed, ends / speed) for start, end, begins, ends in record.words],
        "name": f"{take_file_name(record.voice_name, record.text)}.wav",
        "tags": Provenance.of_record(record).tags(),
        "links": sound_links(item, owner, links, valid),
    }


def sound_links(item: str, owner: Owner, links: DownloadLinks, valid: int) -> dict[str, str]:
    """Return links to a sound by format. item: from `sound_id`. valid: their lifetime in seconds."""
    return {kind: links.sign(owner, "take", f"{item}.{kind}", valid) for kind in FORMATS}


def sound_id(take_id: str, speed: float) -> str:
    """Return the name of a take at a speed, in hundredths, as used in links and by the player."""
    return take_id if speed == 1 else f"{take_id}@{round(100 * speed)}"


def clip_producer(library: VoiceLibrary) -> FileProducer:
    """Return a producer for clips of voices. Synthetic clips (described and sample voices) get provenance tags."""

    def produce(owner: str, asked: str) -> DownloadFile:
        voice_id, _, number = asked.partition(".")
        voice = library.load(voice_id, owner=owner)
        clips = [reference.clip for reference in voice.references]
        place = int(number) if number.isascii() and number.isdigit() and len(number) < 4 else 0
        if place >= len(clips) or not clips[place]:
            raise VoiceNotFound("voices.no_recording", name=voice.name)
        record = library.get(voice_id, owner=owner)
        spoken = record.shared or is_described(record)
        provenance = Provenance((), (record.id,), (), record.created.date()) if spoken else None
        return DownloadFile(converted(clips[place], "wav", provenance=provenance), f"{voice.name}.wav", MIMES["wav"])

    return produce


def peaks_of(flac: bytes) -> list[int]:
    """Return the waveform of a stored FLAC: the peak of each of `_PARTS` equal parts, 0 to 100."""
    samples, _ = soundfile.read(io.BytesIO(flac), dtype="int16")
    parts = np.array_split(np.abs(samples.astype(np.int32)), min(_PARTS, max(1, len(samples))))
    return [int(part.max(initial=0)) * 100 // 32768 for part in parts]


def split_loudness(asked: str) -> tuple[str, float | None]:
    """Split "<item>~16" into the item and the loudness in LUFS; None if it is missing or not supported."""
    item, _, number = asked.partition("~")
    return item, next((lufs for lufs in LOUDNESS if f"{-lufs:g}" == number), None)


def _speed(percent: str) -> float:
    """Parse the speed in a link. It needs no validation, because links are signed."""
    return int(percent) / 100 if percent else 1.0


def converted(
    flac: bytes, format: FileFormat, speed: float = 1.0, provenance: Provenance | None = None, lufs: float | None = None
) -> bytes:
    """Convert a stored FLAC to another format, speed and loudness. provenance: written to the file's tags.

    Raises InvalidInput for a damaged file.
    """
    file = io.BytesIO()
    write_takes(file, [TakeAudio(flac, speed=speed)], format, provenance.tags() if provenance else {}, lufs)
    return file.getvalue()
