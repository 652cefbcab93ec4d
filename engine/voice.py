"""Voices: a speaker's data as values and as one portable file, without torch or a database.

A `Voice` is a name and one or more references; a `Reference` is a prepared clip, its transcript and its codes. All
fields are checked on construction, so any `Voice` can be stored and exported.

A voice file (little endian). It holds no archive, no path and no code: only a header and bytes.

    8 bytes  magic, which reveals text-mode transfers as in PNG     2 bytes  version (1)
    4 bytes  length of the header                the header: JSON in UTF-8; "tags" and "portrait" only if any
    for each reference: its codes as bytes (`engine.codes`), then its clip (FLAC); their lengths are in the header
    the portrait (WebP), if any; its length is in the header
    32 bytes SHA-256 of all of the above
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from engine.codes import MAX_CODES_BYTES, Codes, checked_codes, codes_from_bytes, codes_to_bytes
from engine.errors import InvalidCodes, InvalidInput, InvalidName, InvalidVoiceFile, UnusableReference
from engine.files.bounded import parse_json
from engine.messages import UserMessage

VOICE_FILE_SUFFIX = ".voice"
MAX_NAME = 80  # characters, as are the other limits of text
MAX_TRANSCRIPT = 10_000
MAX_DESCRIPTION = 2_000
MAX_SENTENCE = 2_000
MAX_WHO = 200
MAX_LANGUAGE = 35  # the longest tag that RFC 5646 requires software to support
MAX_TAGS = 12
MAX_TAG = 40
MAX_FINGERPRINT = 128
MAX_PORTRAIT = 64 << 10  # bytes
MAX_REFERENCES = 16
MAX_DURATION = 120.0  # seconds of one reference
MAX_CLIP_BYTES = 6 << 20

_BUILT_IN = "0" * 16
_BUILT_IN_ID = re.compile(rf"{_BUILT_IN}[0-9a-f]{{16}}")
_FILE_MAGIC = b"\x89RPV\r\n\x1a\n"
_FILE_VERSION = 1
_FILE_HEAD = struct.Struct("<8sHI")
_DIGEST_BYTES = 32
_MAX_HEADER_BYTES = 2 << 20
MAX_FILE_BYTES = (
    _FILE_HEAD.size + _MAX_HEADER_BYTES + MAX_REFERENCES * (MAX_CODES_BYTES + MAX_CLIP_BYTES) + _DIGEST_BYTES
)
_DURATION_TOLERANCE = 0.1  # seconds between a clip's header and its reference
_INVISIBLE = {"Cf", "Mn", "Me", "Zs"}  # categories without visible characters


def clean_name(name: str) -> str:
    """Return a voice's name as stored: NFC, trimmed, runs of white space collapsed to one space, in any script.

    Raises InvalidName for a name without visible characters, with more than 80, or with control characters.
    """
    cleaned = " ".join(unicodedata.normalize("NFC", name).split())
    categories = {unicodedata.category(character) for character in cleaned}
    if categories <= _INVISIBLE:
        raise InvalidName("voices.no_name")
    if len(cleaned) > MAX_NAME:
        raise InvalidName("voices.long_name", most=MAX_NAME, count=len(cleaned))
    if categories & {"Cc", "Cs"}:
        raise InvalidName("voices.odd_name")
    return cleaned


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags as stored, in order: cleaned like names, without a leading "#", without duplicates.

    Tags that differ only in case are duplicates; empty ones are dropped. Raises InvalidInput for more than 12 tags, for
    a tag of more than 40 characters, and for control characters or commas, which separate tags, in one.
    """
    found: dict[str, str] = {}
    for tag in tags:
        cleaned = " ".join(unicodedata.normalize("NFC", tag).split()).lstrip("# ")
        if cleaned:
            _check_tag(cleaned)
            found.setdefault(unicodedata.normalize("NFC", cleaned.casefold()), cleaned)
    if len(found) > MAX_TAGS:
        raise InvalidInput("voices.many_tags", most=MAX_TAGS, count=len(found))
    return tuple(found.values())


def _check_tag(tag: str) -> None:
    if "," in tag or {unicodedata.category(character) for character in tag} & {"Cc", "Cs"}:
        raise InvalidInput("voices.odd_tag")
    if len(tag) > MAX_TAG:
        raise InvalidInput("voices.long_tag", most=MAX_TAG, start=tag[:MAX_TAG], count=len(tag))


def check_field(value: str, field: str, limit: int) -> None:
    """Raise InvalidInput for text that is too long or cannot be stored. field: a key of `field.*`, for the message."""
    if len(value) > limit:
        raise InvalidInput("field.too_long", field=UserMessage(f"field.{field}"), most=limit, count=len(value))
    # PostgreSQL cannot store NUL; half of a surrogate pair has no UTF-8.
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInput("field.no_text", field=UserMessage(f"field.{field}"))


def _flac_stream_info(clip: bytes) -> tuple[int, int, int]:
    """Return sample rate, channels and samples from a FLAC file's STREAMINFO (RFC 9639 section 8.2)."""
    if len(clip) < 42 or clip[:4] != b"fLaC" or clip[4] & 0x7F or clip[5:8] != b"\0\0\x22":
        raise UnusableReference("reference.not_flac")
    packed = int.from_bytes(clip[18:26], "big")  # 20 bits sample rate, 3 channels - 1, 5 bits a sample - 1, 36 samples
    return packed >> 44, (packed >> 41 & 0x7) + 1, packed & (1 << 36) - 1


@dataclass(frozen=True, eq=False)
class Reference:
    """A prepared clip, its transcript, and its codes. Compared by value.

    Raises UnusableReference for an impossible clip, sample rate or duration; InvalidCodes; InvalidInput for the
    transcript.
    """

    transcript: str  # the words of exactly this clip
    codes: Codes  # uint16 [K, T], read-only
    clip: bytes  # FLAC, mono; b"" when unknown
    sample_rate: int  # Hz, of the clip
    duration: float  # seconds

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", checked_codes(self.codes))
        object.__setattr__(self, "duration", float(self.duration))
        check_field(self.transcript, "transcript", MAX_TRANSCRIPT)
        if not 1_000 <= self.sample_rate <= 384_000:
            raise UnusableReference("reference.kept_rate", rate=self.sample_rate)
        if not (math.isfinite(self.duration) and 0 < self.duration <= MAX_DURATION):
            raise UnusableReference("reference.kept_length", seconds=self.duration, most=MAX_DURATION)
        if self.clip:
            self._check_clip()

    def _check_clip(self) -> None:
        if len(self.clip) > MAX_CLIP_BYTES:
            raise UnusableReference("reference.kept_size", most=MAX_CLIP_BYTES >> 20)
        sample_rate, channels, samples = _flac_stream_info(self.clip)
        if channels != 1 or sample_rate != self.sample_rate:
            raise UnusableReference("reference.not_mono", rate=self.sample_rate)
        if abs(samples / sample_rate - self.duration) > _DURATION_TOLERANCE:
            raise UnusableReference("reference.other_length", seconds=self.duration)

    def _values(self) -> tuple[object, ...]:
        codes = (self.codes.shape, self.codes.tobytes())
        return self.transcript, codes, self.clip, self.sample_rate, self.duration

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, Reference) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())


@dataclass(frozen=True)
class BuiltInVoice:
    """A voice built into the model: one of its named speakers, or a description if the model takes one.

    description: of the voice, or how the named speaker should speak.
    """

    speaker: str = ""
    description: str = ""

    @property
    def id(self) -> str:
        """Id of the speaker, whatever its case, in the form of a saved voice's id; its 16 leading zeros mark it."""
        return _BUILT_IN + hashlib.sha256(self.speaker.strip().lower().encode()).hexdigest()[: 32 - len(_BUILT_IN)]


def is_built_in_voice(voice_id: str) -> bool:
    """Return whether an id is that of a built-in voice of a model, whether or not the model is loaded."""
    return _BUILT_IN_ID.fullmatch(voice_id) is not None


def check_portrait(picture: bytes) -> None:
    """Raise InvalidInput unless a picture is a WebP of at most MAX_PORTRAIT bytes, or empty."""
    if picture and not (picture[:4] == b"RIFF" and picture[8:12] == b"WEBP" and len(picture) <= MAX_PORTRAIT):
        raise InvalidInput("portrait.stored")


@dataclass(frozen=True)
class Consent:
    """Consent to cloning: who gave it, when (stored in UTC), and the words. Raises InvalidInput."""

    who: str
    when: datetime  # aware
    sentence: str

    def __post_init__(self) -> None:
        check_field(self.who, "consent_who", MAX_WHO)
        check_field(self.sentence, "consent_sentence", MAX_SENTENCE)
        if self.when.utcoffset() is None:
            raise InvalidInput("voices.no_time_zone")
        try:
            object.__setattr__(self, "when", self.when.astimezone(UTC))
        except OverflowError as error:
            raise InvalidInput("voices.no_time") from error


@dataclass(frozen=True)
class Voice:
    """A name and its references. Compared by value; name and tags are cleaned by `clean_name` and `clean_tags`.

    Raises InvalidName; InvalidCodes when references differ in their number of codebooks; InvalidInput for the
    other fields.
    """

    name: str
    references: tuple[Reference, ...]  # one or more
    codec_fingerprint: str  # of the codec that made the codes
    language: str = "en"
    description: str = ""
    consent: Consent | None = None
    tags: tuple[str, ...] = ()
    portrait: bytes = field(default=b"", repr=False)  # a picture, WebP

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", clean_name(self.name))
        object.__setattr__(self, "references", tuple(self.references))
        object.__setattr__(self, "tags", clean_tags(self.tags))
        check_field(self.language, "language", MAX_LANGUAGE)
        check_field(self.description, "description", MAX_DESCRIPTION)
        check_field(self.codec_fingerprint, "fingerprint", MAX_FINGERPRINT)
        check_portrait(self.portrait)
        if not self.codec_fingerprint:
            raise InvalidInput("voices.no_fingerprint")
        if not 1 <= len(self.references) <= MAX_REFERENCES:
            raise InvalidInput("voices.references", most=MAX_REFERENCES, count=len(self.references))
        if len({reference.codes.shape[0] for reference in self.references}) != 1:
            raise InvalidCodes("voices.two_codecs")

    def to_bytes(self) -> bytes:
        """Write the voice as one portable file, described at the top of this module."""
        codes = [codes_to_bytes(reference.codes) for reference in self.references]
        header = json.dumps(_header(self, codes), ensure_ascii=False, separators=(",", ":")).encode()
        parts = [_FILE_HEAD.pack(_FILE_MAGIC, _FILE_VERSION, len(header)), header]
        for blob, reference in zip(codes, self.references, strict=True):
            parts += [blob, reference.clip]
        body = b"".join([*parts, self.portrait])
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Voice:
        """Read a file written by `to_bytes`. Its checksum is verified before anything is parsed.

        Raises InvalidVoiceFile when it is damaged, too large, of a newer version, or not a voice file at all.
        """
        header, blobs = _opened(data)
        try:
            return _voice(parse_json(header), blobs)
        except InvalidInput as error:
            raise InvalidVoiceFile("voicefile.unusable", why=error.message) from error
        # The checksum is right, but `to_bytes` did not write the header.
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidVoiceFile("voicefile.header") from error


@dataclass(frozen=True)
class EncodedVoice:
    """A new voice, and notes for the user."""

    voice: Voice
    notes: tuple[UserMessage, ...]


def voices_of(voice: object) -> tuple[Voice, ...]:
    """Return the voices with references that `Engine.speak` is given: none for one of the model's own.

    Raises TypeError for anything but voices.
    """
    if voice is None or isinstance(voice, BuiltInVoice):
        return ()
    voices = voice if isinstance(voice, Sequence) and not isinstance(voice, str | bytes) else (voice,)
    return tuple(_checked_voice(each) for each in voices)


def _checked_voice(voice: object) -> Voice:
    if not isinstance(voice, Voice):
        raise TypeError(f"a voice is a Voice or a BuiltInVoice, not {type(voice).__name__}")
    return voice


def _header(voice: Voice, codes: Sequence[bytes]) -> dict[str, Any]:
    consent = voice.consent
    more: dict[str, Any] = {"tags": list(voice.tags)} if voice.tags else {}  # omitted if empty, as in older files
    if voice.portrait:
        more["portrait"] = len(voice.portrait)
    return {
        "name": voice.name,
        "language": voice.language,
        "description": voice.description,
        "codec_fingerprint": voice.codec_fingerprint,
        "consent": consent and {"who": consent.who, "when": consent.when.isoformat(), "sentence": consent.sentence},
        "references": [
            {
                "transcript": reference.transcript,
                "sample_rate": reference.sample_rate,
                "duration": reference.duration,
                "codes": len(blob),
                "clip": len(reference.clip),
            }
            for reference, blob in zip(voice.references, codes, strict=True)
        ],
        **more,
    }


def _opened(data: bytes) -> tuple[bytes, memoryview]:
    """Check size, magic, version and checksum of a voice file; return its header and blobs."""
    if len(data) > MAX_FILE_BYTES:
        raise InvalidVoiceFile("voicefile.large", most=MAX_FILE_BYTES >> 20)
    if len(data) < _FILE_HEAD.size + _DIGEST_BYTES or not data.startswith(_FILE_MAGIC):
        raise InvalidVoiceFile("voicefile.other")
    _, version, length = _FILE_HEAD.unpack_from(data)
    if version != _FILE_VERSION:
        raise InvalidVoiceFile("voicefile.version", version=str(version), readable=str(_FILE_VERSION))
    body = memoryview(data)[:-_DIGEST_BYTES]
    if hashlib.sha256(body).digest() != data[-_DIGEST_BYTES:]:
        raise InvalidVoiceFile("voicefile.damaged")
    end = _FILE_HEAD.size + length
    if length > _MAX_HEADER_BYTES or end > len(body):
        raise InvalidVoiceFile("voicefile.header")
    return bytes(body[_FILE_HEAD.size : end]), body[end:]


def _fields(value: Any, **types: type | tuple[type, ...]) -> list[Any]:
    """Return the values of a JSON object that must have exactly these keys, with values of exactly these types."""
    if type(value) is not dict or value.keys() != types.keys():
        raise TypeError(f"expected an object of {sorted(types)}")
    for key, expected in types.items():
        # Not isinstance: true is an int in Python.
        if type(value[key]) not in (expected if isinstance(expected, tuple) else (expected,)):
            raise TypeError(f"{key} is a {type(value[key]).__name__}")
    return [value[key] for key in types]


def _voice(header: Any, blobs: memoryview) -> Voice:
    tags, portrait = (header.pop("tags", []), header.pop("portrait", 0)) if type(header) is dict else ([], 0)
    name, language, description, fingerprint, consent, entries = _fields(
        header,
        name=str,
        language=str,
        description=str,
        codec_fingerprint=str,
        consent=(dict, type(None)),
        references=list,
    )
    if len(entries) > MAX_REFERENCES:
        raise InvalidInput("voices.references", most=MAX_REFERENCES, count=len(entries))
    references = []
    rest = blobs
    for entry in entries:
        reference, used = _reference(entry, rest)
        references.append(reference)
        rest = rest[used:]
    if type(portrait) is not int or len(rest) != portrait:
        raise ValueError("bytes are left over or missing")
    about = (fingerprint, language, description, _consent(consent), _tags(tags))
    return Voice(name, tuple(references), *about, portrait=bytes(rest))


def _tags(value: Any) -> tuple[str, ...]:
    if type(value) is not list or any(type(tag) is not str for tag in value):
        raise TypeError("tags are a list of text")
    return clean_tags(value)


def _reference(entry: Any, blobs: memoryview) -> tuple[Reference, int]:
    """Return the reference at the start of `blobs`, and its length in bytes."""
    transcript, sample_rate, duration, codes, clip = _fields(
        entry, transcript=str, sample_rate=int, duration=float, codes=int, clip=int
    )
    if codes < 0 or clip < 0 or codes + clip > len(blobs):
        raise ValueError("the header does not fit what follows it")
    end = codes + clip
    kept = codes_from_bytes(bytes(blobs[:codes]))
    return Reference(transcript, kept, bytes(blobs[codes:end]), sample_rate, duration), end


def _consent(value: Any) -> Consent | None:
    if value is None:
        return None
    who, when, sentence = _fields(value, who=str, when=str, sentence=str)
    return Consent(who, datetime.fromisoformat(when), sentence)
