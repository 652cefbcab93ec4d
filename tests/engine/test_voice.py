"""Voices: names, values and voice files survive round trips, and invalid ones are rejected."""

import hashlib
import io
import json
import pickle
import struct
import unicodedata
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine.codes import MAX_FRAMES, codes_to_bytes
from engine.errors import InvalidCodes, InvalidInput, InvalidName, InvalidVoiceFile, UnusableReference
from engine.voice import (
    MAX_CLIP_BYTES,
    MAX_FILE_BYTES,
    MAX_PORTRAIT,
    MAX_REFERENCES,
    BuiltInVoice,
    Consent,
    Reference,
    Voice,
    clean_name,
    clean_tags,
    is_built_in_voice,
)

SAMPLE_RATE = 22050

# A slow machine must not fail these tests.
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def clip(seconds: float = 0.1, channels: int = 1, sample_rate: int = SAMPLE_RATE, form: str = "FLAC") -> bytes:
    noise = np.random.default_rng(0).normal(scale=0.1, size=(round(seconds * sample_rate), channels))
    file = io.BytesIO()
    soundfile.write(file, noise, sample_rate, format=form)
    return file.getvalue()


CODES: np.ndarray = np.random.default_rng(0).integers(0, 1024, (10, 12))
CLIP = clip()
REFERENCE = Reference("Es war einmal …", CODES, CLIP, SAMPLE_RATE, 0.1)
CONSENT = Consent("Ada", datetime(2026, 11, 21, 8, 30, 1, 250, tzinfo=UTC), "This voice is mine.")
VOICE = Voice("Ада", (REFERENCE, replace(REFERENCE, clip=b"")), "codec-a", "ru", "Warm\nand low", CONSENT)
FILE = VOICE.to_bytes()
HEADER_START = 14


def sealed_file(header: bytes, blobs: bytes = b"", version: int = 1) -> bytes:
    """Build a voice file with a valid checksum around any header and blobs."""
    body = b"\x89RPV\r\n\x1a\n" + struct.pack("<HI", version, len(header)) + header + blobs
    return body + hashlib.sha256(body).digest()


def split_file() -> tuple[dict[str, Any], bytes]:
    """Return the header and blobs of FILE."""
    (length,) = struct.unpack_from("<I", FILE, 10)
    return json.loads(FILE[HEADER_START : HEADER_START + length]), FILE[HEADER_START + length : -32]


# Names


@calm
@given(st.text())
def test_clean_name_is_idempotent(name: str) -> None:
    try:
        cleaned = clean_name(name)
    except InvalidName:
        return
    assert clean_name(cleaned) == cleaned == unicodedata.normalize("NFC", cleaned).strip()
    assert 1 <= len(cleaned) <= 80
    assert "".join(cleaned.split()) == "".join(unicodedata.normalize("NFC", name).split())


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        (" Ada\n Lovelace\t", "Ada Lovelace"),
        ("Jose\N{COMBINING ACUTE ACCENT}", "José"),
        ("\u3000山田\u3000太郎", "山田 太郎"),
        ("👩\u200d🔬 и 🎤", "👩\u200d🔬 и 🎤"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("e\N{COMBINING ACUTE ACCENT}" * 80, "é" * 80),
    ],
)
def test_names_of_any_script_are_cleaned(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned


@pytest.mark.parametrize(
    "name", ["", "  \n", "\u200b\u200d", "\N{COMBINING ACUTE ACCENT}", "x" * 81, "a\0b", "a\x07", "\ud800"]
)
def test_invalid_names_are_rejected(name: str) -> None:
    with pytest.raises(InvalidName):
        clean_name(name)
    with pytest.raises(InvalidName):
        replace(VOICE, name=name)


# Values


def test_voices_and_references_compare_by_value() -> None:
    again = Reference("Es war einmal …", CODES.astype(np.uint16), CLIP, SAMPLE_RATE, 0.1)
    assert again == REFERENCE
    assert hash(again) == hash(REFERENCE)
    assert replace(VOICE, references=(again, VOICE.references[1])) == VOICE
    assert again != replace(again, codes=CODES + 1)
    assert again != replace(again, codes=CODES.reshape(12, 10))
    assert again != "reference"


def test_a_speaker_has_one_id_however_it_is_typed() -> None:
    assert is_built_in_voice(BuiltInVoice("ryan").id)
    for forged in ("0" * 16, "0" * 16 + "\0" * 16, BuiltInVoice("ryan").id + "0", "1" * 32):
        assert not is_built_in_voice(forged)
    assert BuiltInVoice(" Uncle_Fu ").id == BuiltInVoice("uncle_fu", "You are calm.").id != BuiltInVoice("ryan").id


def test_reference_copies_its_codes() -> None:
    mine = CODES.astype(np.uint16)
    reference = replace(REFERENCE, codes=mine)
    mine[:] = 0
    assert reference == REFERENCE
    with pytest.raises(ValueError, match="read-only"):
        reference.codes[0, 0] = 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"transcript": "x" * 10_001}, InvalidInput),
        ({"transcript": "nul\0"}, InvalidInput),
        ({"transcript": "half \udc00"}, InvalidInput),
        ({"sample_rate": 0}, UnusableReference),
        ({"sample_rate": 44100}, UnusableReference),
        ({"duration": 0.0}, UnusableReference),
        ({"duration": float("nan")}, UnusableReference),
        ({"duration": float("inf")}, UnusableReference),
        ({"duration": 121.0}, UnusableReference),
        ({"duration": 0.3}, UnusableReference),
        ({"clip": b"fLaC"}, UnusableReference),
        ({"clip": clip(form="WAV")}, UnusableReference),
        ({"clip": clip(form="OGG")}, UnusableReference),
        ({"clip": clip(channels=2)}, UnusableReference),
        ({"clip": CLIP + bytes(MAX_CLIP_BYTES)}, UnusableReference),
    ],
)
def test_invalid_references_are_rejected(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        replace(REFERENCE, **changes)


@pytest.mark.parametrize(("sample_rate", "seconds"), [(8000, 1.0), (44100, 30.0), (192000, 0.5)])
def test_duration_must_match_the_clip(sample_rate: int, seconds: float) -> None:
    kept = clip(seconds, sample_rate=sample_rate)
    assert Reference("", CODES, kept, sample_rate, seconds).duration == seconds
    with pytest.raises(UnusableReference, match="does not last"):
        Reference("", CODES, kept, sample_rate, seconds + 0.2)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"references": ()}, InvalidInput),
        ({"references": (REFERENCE,) * (MAX_REFERENCES + 1)}, InvalidInput),
        ({"references": (REFERENCE, replace(REFERENCE, codes=CODES[:9]))}, InvalidCodes),
        ({"codec_fingerprint": ""}, InvalidInput),
        ({"codec_fingerprint": "x" * 129}, InvalidInput),
        ({"language": "x" * 36}, InvalidInput),
        ({"description": "x" * 2001}, InvalidInput),
        ({"description": "\ud800"}, InvalidInput),
    ],
)
def test_invalid_voices_are_rejected(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        replace(VOICE, **changes)


def test_consent_time_is_converted_to_utc() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    assert (
        replace(CONSENT, when=datetime(2026, 11, 21, 14, 0, tzinfo=east)).when.isoformat()
        == "2026-11-21T08:30:00+00:00"
    )
    for wrong in (datetime(2026, 11, 21), datetime.min.replace(tzinfo=east)):
        with pytest.raises(InvalidInput, match="time"):
            replace(CONSENT, when=wrong)
    with pytest.raises(InvalidInput, match="sentence"):
        replace(CONSENT, sentence="x" * 2001)


# Files

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
references = st.builds(
    Reference,
    texts,
    arrays.arrays(np.uint16, st.tuples(st.just(4), st.integers(1, 9))),
    st.sampled_from([b"", CLIP]),
    st.just(SAMPLE_RATE),
    st.floats(0.05, 0.15),
)
voices = st.builds(
    Voice,
    st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20),
    st.lists(references, min_size=1, max_size=3).map(tuple),
    st.text("0123456789abcdef", min_size=1),
    texts,
    texts,
    st.none() | st.builds(Consent, texts, st.datetimes(timezones=st.just(UTC)), texts),
)


@calm
@given(voices)
def test_voice_survives_its_file(voice: Voice) -> None:
    data = voice.to_bytes()
    assert Voice.from_bytes(data) == voice
    assert Voice.from_bytes(data).to_bytes() == data


def test_voice_file_follows_the_format() -> None:
    header, blobs = split_file()
    codes = codes_to_bytes(CODES)
    assert blobs == codes + CLIP + codes
    assert header == {
        "name": "Ада",
        "language": "ru",
        "description": "Warm\nand low",
        "codec_fingerprint": "codec-a",
        "consent": {
            "who": "Ada",
            "when": "2026-11-21T08:30:01.000250+00:00",
            "sentence": "This voice is mine.",
        },
        "references": [
            {
                "transcript": "Es war einmal …",
                "sample_rate": SAMPLE_RATE,
                "duration": 0.1,
                "codes": len(codes),
                "clip": length,
            }
            for length in (len(CLIP), 0)
        ],
    }
    assert Voice.from_bytes(sealed_file(json.dumps(header).encode(), blobs)) == VOICE


@calm
@given(st.integers(0, len(FILE) - 1), st.integers(1, 255))
def test_flipped_bits_in_a_file_are_detected(position: int, flip: int) -> None:
    damaged = bytearray(FILE)
    damaged[position] ^= flip
    with pytest.raises(InvalidVoiceFile):
        Voice.from_bytes(bytes(damaged))


@calm
@given(st.integers(0, len(FILE) - 1), st.binary(max_size=4))
def test_truncated_or_spliced_files_are_detected(length: int, more: bytes) -> None:
    for damaged in (FILE[:length], FILE[:length] + more + b"!" + FILE[length:]):
        with pytest.raises(InvalidVoiceFile):
            Voice.from_bytes(damaged)


@calm
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_rejected(data: bytes) -> None:
    for given_ in (data, FILE[:HEADER_START] + data, sealed_file(data), sealed_file(b"{}", data)):
        with pytest.raises(InvalidVoiceFile):
            Voice.from_bytes(given_)


jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("2026-11-21"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@calm
@given(st.data(), jsons)
def test_forged_header_gives_a_voice_or_raises(data: st.DataObject, value: Any) -> None:
    """Replace one value anywhere in the header and recompute the checksum."""
    header, blobs = split_file()
    inside = data.draw(st.sampled_from([header, header["consent"], *header["references"]]))
    inside[data.draw(st.sampled_from(sorted(inside)))] = value
    forged = sealed_file(json.dumps(header).encode(), blobs)
    try:
        voice = Voice.from_bytes(forged)
    except InvalidVoiceFile:
        return
    assert Voice.from_bytes(voice.to_bytes()) == voice


def forged(**changes: Any) -> bytes:
    header, blobs = split_file()
    return sealed_file(json.dumps({**header, **changes}).encode(), blobs)


def forged_reference(**changes: Any) -> bytes:
    header, _ = split_file()
    first, second = header["references"]
    return forged(references=[{**first, **changes}, second])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "not a voice file"),
        (sealed_file(b"{}", version=2), "version 2"),
        (b"\x89RPV\n\x1a\n" + FILE[8:], "not a voice file"),  # as after a transfer in text mode
        (sealed_file(b"[" * 100_000), "header"),
        (sealed_file(b"1" * 5_000), "header"),
        (sealed_file(b"\xff{}"), "header"),
        (sealed_file(b" " * ((2 << 20) + 1)), "header"),
        (forged(extra=1), "header"),
        (forged(consent=False), "header"),
        (forged(name="\ud800"), "control characters"),
        (forged(name=""), "needs a name"),
        (forged(references=[]), "header"),
        (forged(references=[{}] * 17), "1 to 16 references"),
        (forged(consent={"who": "", "when": "2026-11-21T08:30:00", "sentence": ""}), "time zone"),
        (forged(consent={"who": "", "when": "0001-01-01T00:00:00+14:00", "sentence": ""}), "time"),
        (forged_reference(clip=0), "codes"),
        (forged_reference(clip=10**9), "header"),
        (forged_reference(codes=-1), "header"),
        (forged_reference(duration=float("nan")), "header"),
        (forged_reference(duration=1e300), "cannot last"),
        (sealed_file(b"[" + b"[]," * 600_000 + b"1]"), "header"),
        (sealed_file(b'{"name": "a", ' + FILE[HEADER_START + 1 :], FILE[:0]), "header"),
        (forged_reference(sample_rate=10**400), "cannot have"),
        (forged_reference(sample_rate=True), "header"),
        (forged_reference(transcript="\0"), "transcript"),
        (sealed_file(FILE[HEADER_START : -32 - 1]), "header"),
    ],
)
def test_invalid_files_are_rejected_with_reason(data: bytes, sentence: str) -> None:
    with pytest.raises(InvalidVoiceFile, match=sentence):
        Voice.from_bytes(data)


def test_header_past_the_end_is_rejected() -> None:
    body = b"\x89RPV\r\n\x1a\n" + struct.pack("<HI", 1, 2**32 - 1) + b"{}"
    with pytest.raises(InvalidVoiceFile, match="header"):
        Voice.from_bytes(body + hashlib.sha256(body).digest())


def test_oversized_file_is_rejected() -> None:
    with pytest.raises(InvalidVoiceFile, match="larger"):
        Voice.from_bytes(bytes(MAX_FILE_BYTES + 1))


def test_archives_and_pickles_are_rejected_unopened(tmp_path: Any) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return open, (str(tmp_path / "sprung"), "w")

    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../escape", bytes(10_000_000))
    for data in (bomb.getvalue(), pickle.dumps(Trap())):
        for wrapped in (data, sealed_file(data), sealed_file(json.dumps(split_file()[0]).encode(), data)):
            with pytest.raises(InvalidVoiceFile):
                Voice.from_bytes(wrapped)
    assert list(tmp_path.iterdir()) == []


def test_largest_voice_fits_the_file_limit() -> None:
    codes = np.full((64, MAX_FRAMES), 0xFFFF)
    largest = Reference("\x01" * 10_000, codes, CLIP, SAMPLE_RATE, 0.1)
    voice = Voice("x" * 80, (largest,), "f" * 128, description="\x01" * 2000)
    data = voice.to_bytes()
    assert Voice.from_bytes(data) == voice
    assert (len(data) + MAX_CLIP_BYTES - len(CLIP)) * MAX_REFERENCES <= MAX_FILE_BYTES
    wordy = replace(voice, references=(replace(largest, codes=CODES),) * MAX_REFERENCES)
    assert Voice.from_bytes(wordy.to_bytes()) == wordy


# Tags


@pytest.mark.parametrize(
    ("tags", "cleaned"),
    [
        ((), ()),
        (("warm", " Warm ", "WARM"), ("warm",)),
        (("# story", "##x", "#", "  "), ("story", "x")),
        (("é", "e\N{COMBINING ACUTE ACCENT}", "a \t b"), ("é", "a b")),
        ([f"{number}" for number in range(12)], tuple(f"{number}" for number in range(12))),
    ],
)
def test_tags_are_cleaned_and_deduplicated(tags: Any, cleaned: tuple[str, ...]) -> None:
    assert clean_tags(tags) == cleaned
    assert replace(VOICE, tags=tags).tags == cleaned


@pytest.mark.parametrize(
    ("tags", "sentence"),
    [
        ([f"{number}" for number in range(13)], "12 tags"),
        (["x" * 41], "40 characters"),
        (["a,b"], "commas"),
        (["nul\0"], "control"),
        (["\ud800"], "control"),
        (["\ud800" * 41], "control"),  # half a character cannot be shown in a message either
    ],
)
def test_invalid_tags_are_rejected(tags: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        replace(VOICE, tags=tags)


def test_tags_are_stored_in_the_file_only_if_present() -> None:
    tagged = replace(VOICE, tags=("warm", "story"))
    assert Voice.from_bytes(tagged.to_bytes()) == tagged
    assert b'"tags"' not in FILE
    assert Voice.from_bytes(FILE).tags == ()
    for wrong in ("warm", ["warm", 1], None, [["warm"]]):
        with pytest.raises(InvalidVoiceFile, match="header"):
            Voice.from_bytes(forged(tags=wrong))
    with pytest.raises(InvalidVoiceFile, match="40 characters"):
        Voice.from_bytes(forged(tags=["x" * 41]))


def test_portrait_is_the_end_of_the_file() -> None:
    picture = b"RIFF1234WEBP" + bytes(MAX_PORTRAIT - 12)
    pictured = replace(VOICE, portrait=picture)
    assert Voice.from_bytes(pictured.to_bytes()) == pictured
    assert b'"portrait"' not in FILE
    for wrong in (1, True, "0", None):
        with pytest.raises(InvalidVoiceFile, match="header"):
            Voice.from_bytes(forged(portrait=wrong))
    for other in (picture + b"\0", b"RIFF1234JPEG", b"JPEG1234WEBP"):
        with pytest.raises(InvalidInput, match="picture"):
            replace(VOICE, portrait=other)
