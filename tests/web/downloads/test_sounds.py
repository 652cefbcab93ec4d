"""Takes and clips as downloadable files."""

import io
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
import soundfile

from engine.audio import encode_audio, to_int16
from engine.audio.output.tags import read_tags
from engine.voice import Consent
from storage import Storage, VoiceLibrary
from storage.errors import TakeNotFound, VoiceNotFound
from storage.repositories.takes import NewTake, TakeRecord
from studio.files.file_names import take_file_name
from studio.provenance.provenance import Provenance
from studio.takes.store import TakeStore
from tests.support.fake_engine import SAMPLE_RATE, buzz, voice
from web.downloads.links import DownloadFile
from web.downloads.sounds import FORMATS, clip_producer, sound_id, take_producer

SOUND = buzz(0, SAMPLE_RATE * 2, 120)


@pytest.fixture
def takes(storage: Storage) -> TakeStore:
    return TakeStore(storage)


@pytest.fixture
def take(takes: TakeStore) -> TakeRecord:
    spoken = NewTake("The rain has stopped. Listen!", encode_audio(SOUND, SAMPLE_RATE, "flac"), 2.0, 7, "Anna")
    kept = takes.save(spoken, owner="anna", deletion_token=takes.deletion_token(owner="anna"))
    assert kept is not None
    return kept


def take_file(takes: TakeStore, asked: str) -> DownloadFile:
    file = take_producer(takes)("anna", asked)
    assert isinstance(file, DownloadFile)
    return file


def clip_file(library: VoiceLibrary, asked: str) -> DownloadFile:
    file = clip_producer(library)("anna", asked)
    assert isinstance(file, DownloadFile)
    return file


@pytest.mark.parametrize("format", FORMATS)
def test_take_is_served_in_each_format(takes: TakeStore, take: TakeRecord, format: str) -> None:
    file = take_file(takes, f"{take.id}.{format}")
    assert file.name == f"Anna – The rain has stopped. Listen.{format}"
    samples, rate = soundfile.read(io.BytesIO(file.data))
    assert len(samples) / rate == pytest.approx(2.0, abs=0.1)
    assert Provenance.read(read_tags(file.data)["comment"]) == Provenance.of_record(take)
    assert file.mime == {"wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "opus": "audio/ogg"}[format]


def test_sound_at_a_speed_is_named_by_it(takes: TakeStore, take: TakeRecord) -> None:
    assert (sound_id("a", 1), sound_id("a", 1.15)) == ("a", "a@115")
    samples, rate = soundfile.read(io.BytesIO(take_file(takes, f"{sound_id(take.id, 1.25)}.flac").data))
    assert len(samples) / rate == pytest.approx(1.6, abs=0.02)


def test_take_without_format_is_a_16_bit_wav(takes: TakeStore, take: TakeRecord) -> None:
    file = take_file(takes, take.id)
    assert file == take_file(takes, f"{take.id}.wav")
    samples, rate = soundfile.read(io.BytesIO(file.data), dtype="int16")
    assert (rate, soundfile.info(io.BytesIO(file.data)).subtype) == (SAMPLE_RATE, "PCM_16")
    np.testing.assert_array_equal(samples, to_int16(SOUND))


@pytest.mark.parametrize("asked", ["{id}.aiff", "{id}.wav.exe", "x", "", ".wav", "{id}/../{id}.wav"])
def test_unknown_takes_and_formats_are_refused(takes: TakeStore, take: TakeRecord, asked: str) -> None:
    with pytest.raises(TakeNotFound):
        take_producer(takes)("anna", asked.replace("{id}", take.id))
    with pytest.raises(TakeNotFound):
        take_producer(takes)("ben", f"{take.id}.wav")


def test_voice_clip_is_a_wav_for_its_owner(library: VoiceLibrary) -> None:
    anna = library.add(voice("Anna", seconds=1.5), owner="anna").id
    file = clip_file(library, anna)
    info = soundfile.info(io.BytesIO(file.data))
    assert (file.name, info.subtype, info.duration) == ("Anna.wav", "PCM_16", pytest.approx(1.5))
    assert clip_file(library, f"{anna}.0").data == file.data
    for owner, asked in (("ben", anna), ("anna", f"{anna}.1"), ("anna", "no-such")):
        with pytest.raises(VoiceNotFound):
            clip_producer(library)(owner, asked)


def test_synthetic_clip_is_tagged_with_its_origin(library: VoiceLibrary) -> None:
    described = library.add(replace(voice("Cleo"), description="A low voice."), owner="anna")
    recorded = library.add(replace(voice("Anna"), consent=Consent("Anna", datetime.now(UTC), "I agree.")), owner="anna")
    tags = [read_tags(clip_file(library, each.id).data) for each in (described, recorded)]
    assert f"voice={described.id}" in tags[0].get("comment", "")
    assert "comment" not in tags[1]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Hello.", "Anna – Hello"),
        ("  Two\n lines ", "Anna – Two lines"),
        ("One two three four five six seven eight nine ten", "Anna – One two three four five six seven eight"),
        ("x" * 60, "Anna – " + "x" * 40),
        ("…", "Anna"),
    ],
)
def test_take_file_name_has_voice_and_first_words(text: str, name: str) -> None:
    assert take_file_name("Anna", text) == name
