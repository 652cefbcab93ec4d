"""Whole scripts as files: durations, pauses, chapters, subtitles and access by owner."""

import io
import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
import soundfile
from pyloudnorm import Meter

from engine.audio.output.tags import read_tags
from engine.errors import InvalidInput
from storage import Storage
from storage.errors import LibraryError
from storage.repositories.takes import NewTake
from studio.provenance.provenance import ARTIST, Provenance
from studio.script import Card, parse
from tests.studio.books.making import picture
from tests.support.fake_engine import SAMPLE_RATE, FakeEngine, buzz
from tests.web.conftest import make_context
from web.downloads.links import DownloadFile, DownloadStream
from web.downloads.scripts import SCRIPT_FORMATS, script_producer
from web.identity.owners import Owner

OWNER = "browser:ann"
Serve = Callable[..., str]


def spoken(text: str, seconds: float, voice: str = "Ann", gain: float = 0.0) -> NewTake:
    file, sound = io.BytesIO(), buzz(0, round(seconds * SAMPLE_RATE), 110) * 10 ** (gain / 20)
    soundfile.write(file, sound, SAMPLE_RATE, format="FLAC", subtype="PCM_16")
    return NewTake(text=text, audio=file.getvalue(), duration=seconds, seed=7, voice_name=voice)


@pytest.fixture
def script(storage: Storage) -> str:
    """Three cards, the second without a take."""
    cards = [Card("One.", "Ann", 0.5), Card("Two.", "Ben", 0.25), Card("Three.", None, 9.0)]
    script_id = storage.scripts.create("A play / in parts", cards, owner=OWNER).id
    one, _, three = storage.scripts.cards(script_id, owner=OWNER)
    storage.scripts.attach(one.id, spoken("One.", 1.0), owner=OWNER)
    storage.scripts.attach(three.id, spoken("Three.", 2.0), owner=OWNER)
    return script_id


def export_script(storage: Storage, script: str, format: str, owner: str = OWNER) -> tuple[str, bytes]:
    file = script_producer(storage.scripts)(owner, f"{script}.{format}")
    if isinstance(file, DownloadFile):
        return file.name, file.data
    with file.file:
        return file.name, file.file.read()


@pytest.mark.parametrize(
    ("name", "stem"), [("It rains.", "It rains"), ("…", "…"), ("...", "file"), ("雨" * 100, "雨" * 66)]
)
def test_file_is_named_after_its_script(storage: Storage, script: str, name: str, stem: str) -> None:
    storage.scripts.rename(script, name, owner=OWNER)
    assert export_script(storage, script, "srt")[0] == f"{stem}.srt"


@pytest.mark.parametrize("format", ["wav", "flac", "mp3", "opus"])
def test_sound_export_has_takes_and_pauses(storage: Storage, script: str, format: str) -> None:
    name, data = export_script(storage, script, format)
    assert name == f"A play / in parts.{format}"
    tags = read_tags(data)
    assert (tags["title"], tags["artist"]) == ("A play / in parts", ARTIST)
    provenance = Provenance.read(tags["comment"])
    assert provenance == Provenance.joined(map(Provenance.of_record, storage.scripts.spoken(script, owner=OWNER).takes))
    assert provenance is not None
    assert len(provenance.seeds) == 1
    assert provenance.made
    samples, rate = soundfile.read(io.BytesIO(data), dtype="float32")
    assert len(samples) / rate == pytest.approx(1.0 + 0.5 + 2.0, abs=0.1)
    loud = np.abs(samples) > 0.01
    assert loud[: round(0.9 * rate)].any()
    assert not loud[round(1.1 * rate) : round(1.4 * rate)].any(), "the pause is silent"
    assert loud[round(1.6 * rate) :].any()


@pytest.mark.parametrize("format", ["wav", "flac", "mp3", "opus", "wav~16"])
def test_sound_export_names_title_and_author(storage: Storage, script: str, format: str) -> None:
    storage.scripts.rename(script, "Der Prozeß 審判 🎧", owner=OWNER)
    storage.scripts.set_author(script, "Franz Kafka & 夏目漱石", owner=OWNER)
    tags = read_tags(export_script(storage, script, format)[1])
    assert (tags["title"], tags["artist"]) == ("Der Prozeß 審判 🎧", "Franz Kafka & 夏目漱石")
    assert Provenance.read(tags["comment"]) is not None


def test_card_speed_is_sample_exact_in_sound_and_subtitles(storage: Storage, script: str) -> None:
    one, _, three = storage.scripts.cards(script, owner=OWNER)
    storage.scripts.set_speed(one.id, 1.25, owner=OWNER)
    storage.scripts.set_speed(three.id, 0.65, owner=OWNER)
    samples, rate = soundfile.read(io.BytesIO(export_script(storage, script, "wav")[1]), dtype="int16")
    first, pause = round(SAMPLE_RATE / 1.25), round(0.5 * SAMPLE_RATE)
    assert (rate, len(samples)) == (SAMPLE_RATE, first + pause + round(2 * SAMPLE_RATE / 0.65))
    assert not samples[first : first + pause].any()
    assert samples[first - 400 : first].any()
    assert samples[first + pause : first + pause + 400].any()
    times = export_script(storage, script, "srt")[1].decode().splitlines()[1::4]
    assert times == ["00:00:00,000 --> 00:00:00,800", "00:00:01,300 --> 00:00:04,377"]
    assert storage.scripts.get(script, owner=OWNER).spoken == pytest.approx(1 / 1.25 + 2 / 0.65)


def probe_file(data: bytes) -> dict[str, Any]:
    """Return the chapters, streams and format that ffprobe reports."""
    command = ["ffprobe", "-v", "error", "-show_chapters", "-show_streams", "-show_format", "-of", "json", "-"]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.skipif(shutil.which("ffprobe") is None, reason="ffprobe is not installed")
def test_audiobook_has_chapters_cover_and_target_loudness(storage: Storage, script: str) -> None:
    one, two, _ = storage.scripts.cards(script, owner=OWNER)
    storage.scripts.set_chapter(one.id, "The first", owner=OWNER)
    storage.scripts.set_chapter(two.id, "The last: ü", owner=OWNER)  # no take: the chapter starts with the third card
    storage.scripts.set_speed(one.id, 1.25, owner=OWNER)
    storage.scripts.set_cover(script, picture("JPEG", 303, 401), owner=OWNER)
    storage.scripts.set_author(script, "Jané Austen", owner=OWNER)
    file = script_producer(storage.scripts)(OWNER, f"{script}.m4b~16")
    assert isinstance(file, DownloadStream)
    assert (file.name, file.mime) == ("A play / in parts.m4b", "audio/mp4")
    with file.file:
        data = file.file.read()
    report = probe_file(data)
    assert [
        (float(each["start_time"]), float(each["end_time"]), each["tags"]["title"]) for each in report["chapters"]
    ] == [
        (0.0, 1.3, "The first"),
        (1.3, 3.3, "The last: ü"),
    ]
    streams = {each["codec_type"]: each for each in report["streams"]}
    assert (streams["audio"]["codec_name"], streams["audio"]["channels"]) == ("aac", 1)
    assert (streams["video"]["codec_name"], streams["video"]["disposition"]["attached_pic"]) == ("mjpeg", 1)
    assert (streams["video"]["width"], streams["video"]["height"]) == (302, 400)
    tags = report["format"]["tags"]
    assert (tags["title"], tags["major_brand"].strip()) == ("A play / in parts", "M4B")
    assert tags["artist"] == tags["album_artist"] == "Jané Austen"
    assert tags["composer"] == ARTIST
    assert "synthetic speech" in tags["comment"].lower()
    with av.open(io.BytesIO(data), "r") as book:
        samples = np.concatenate([frame.to_ndarray()[0] for frame in book.decode(audio=0)])
    assert Meter(SAMPLE_RATE).integrated_loudness(samples) == pytest.approx(-16, abs=0.7)
    assert np.abs(samples).max() < 10 ** (-1 / 20)


@pytest.mark.skipif(shutil.which("ffprobe") is None, reason="ffprobe is not installed")
def test_export_is_of_the_script_at_its_start(storage: Storage, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes minutes, during which cards may be spoken."""
    _, two, three = storage.scripts.cards(script, owner=OWNER)
    storage.scripts.set_chapter(three.id, "The last", owner=OWNER)
    sounds = storage.scripts.sounds

    def sounds_while_speaking(*which: Any, **whose: Any) -> Any:
        takes = sounds(*which, **whose)
        yield next(takes)
        storage.scripts.attach(two.id, spoken("Two.", 3.0), owner=OWNER)
        storage.scripts.attach(three.id, spoken("Three.", 4.0), owner=OWNER)
        yield from takes

    monkeypatch.setattr(storage.scripts, "sounds", sounds_while_speaking)
    report = probe_file(export_script(storage, script, "m4b")[1])
    assert [float(each["end_time"]) for each in report["chapters"]] == [1.5, 3.5]
    assert float(report["format"]["duration"]) == pytest.approx(3.5, abs=0.1)


def test_archive_has_one_file_per_spoken_card(storage: Storage, script: str) -> None:
    storage.scripts.set_speed(storage.scripts.cards(script, owner=OWNER)[0].id, 1.25, owner=OWNER)
    name, data = export_script(storage, script, "flac.zip")
    assert name == "A play / in parts.flac.zip"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == ["0001 Ann – One.flac", "0003 Three.flac"]
        lengths = [soundfile.info(io.BytesIO(archive.read(name))).frames for name in archive.namelist()]
    assert lengths == [round(SAMPLE_RATE / 1.25), 2 * SAMPLE_RATE]


@pytest.mark.parametrize("lufs", [-16, -23])
def test_script_export_reaches_target_loudness(storage: Storage, script: str, lufs: int) -> None:
    samples, rate = soundfile.read(io.BytesIO(export_script(storage, script, f"wav~{-lufs}")[1]), dtype="float32")
    assert len(samples) == round(3.5 * rate)
    assert Meter(rate).integrated_loudness(samples) == pytest.approx(lufs, abs=0.5)


@pytest.mark.parametrize(
    ("voices", "format", "levels"),
    [
        (("Ann", "Ben", "Ann"), "wav~16", (0.0, -2.0, -6.0)),
        (("Ann", "Ben", "Ann"), "wav", (0.0, -15.0, -6.0)),
        (("Ann", "Ann", "Ann"), "wav~16", (0.0, -15.0, -6.0)),
    ],
)
def test_voices_are_equally_loud_in_a_file_with_a_loudness(
    storage: Storage, voices: Sequence[str], format: str, levels: Sequence[float]
) -> None:
    """Takes of one voice keep their differences: those of Ann have a mean of -2 dB."""
    script = storage.scripts.create("Talk", [Card(f"{n}.", "Ann", 0.0) for n in range(3)], owner=OWNER).id
    for card, voice, gain in zip(storage.scripts.cards(script, owner=OWNER), voices, (0, -15, -6), strict=True):
        storage.scripts.attach(card.id, spoken(card.text, 2.0, voice, gain), owner=OWNER)
    samples, rate = soundfile.read(io.BytesIO(export_script(storage, script, format)[1]), dtype="float32")
    found = [Meter(rate).integrated_loudness(part) for part in np.split(samples, 3)]
    assert [loudness - found[0] for loudness in found] == pytest.approx(levels, abs=0.3)


def test_voice_with_too_little_to_measure_is_as_loud_as_the_others(storage: Storage) -> None:
    script = storage.scripts.create("Talk", [Card(f"{n}.", "Ann", 0.0) for n in range(3)], owner=OWNER).id
    takes = spoken("0.", 2.0), spoken("1.", 2.0, "Ben", -2.0), spoken("2.", 0.3, "Cid")
    for card, take in zip(storage.scripts.cards(script, owner=OWNER), takes, strict=True):
        storage.scripts.attach(card.id, take, owner=OWNER)
    samples, rate = soundfile.read(io.BytesIO(export_script(storage, script, "wav~20")[1]))
    found = [20 * np.log10(part.std()) for part in np.split(samples, [2 * rate, 4 * rate])]
    assert [level - found[0] for level in found] == pytest.approx([0, 0, 0], abs=1.5)


def test_markdown_export_has_all_cards(storage: Storage, script: str) -> None:
    one, two, _ = storage.scripts.cards(script, owner=OWNER)
    storage.scripts.set_speed(two.id, 1.5, owner=OWNER)
    storage.scripts.set_chapter(one.id, "The first", owner=OWNER)
    storage.scripts.set_paragraph_pause(script, 0.75, owner=OWNER)
    storage.scripts.set_author(script, '"Weird" Ål: \\', owner=OWNER)
    name, text = export_script(storage, script, "md")
    assert name == "A play / in parts.md"
    read = parse(text.decode(), name)
    assert (read.title, read.author, read.paragraph_pause) == ("A play / in parts", '"Weird" Ål: \\', 0.75)
    assert [(card.text, card.speaker, card.pause, card.speed, card.chapter) for card in read.cards] == [
        ("One.", "Ann", 0.5, 1.0, "The first"),
        ("Two.", "Ben", 0.25, 1.5, None),
        ("Three.", None, 9.0, 1.0, None),
    ]


def test_subtitles_follow_the_takes(storage: Storage, script: str) -> None:
    name, data = export_script(storage, script, "srt")
    assert name.endswith(".srt")
    assert data.decode() == "1\n00:00:00,000 --> 00:00:01,000\nOne.\n\n2\n00:00:01,500 --> 00:00:03,500\nThree.\n\n"
    assert (
        export_script(storage, script, "vtt")[1]
        .decode()
        .startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n<v Ann>One.")
    )
    assert [card.text for card in parse(data.decode(), "a.srt").cards] == ["One.", "Three."]


@pytest.mark.parametrize("format", SCRIPT_FORMATS)
def test_empty_scripts_other_owners_and_unknown_formats_are_refused(storage: Storage, script: str, format: str) -> None:
    empty = storage.scripts.create("Empty", [Card("One.")], owner=OWNER).id
    if format != "md":
        with pytest.raises(InvalidInput, match="has been spoken yet"):
            export_script(storage, empty, format)
    with pytest.raises(LibraryError):
        export_script(storage, script, format, owner="browser:ben")
    for wrong in ("exe", "", f"{format}.{format}"):
        with pytest.raises(LibraryError):
            export_script(storage, script, wrong)


def test_damaged_take_leaves_no_open_file(storage: Storage, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    two = storage.scripts.cards(script, owner=OWNER)[1]
    broken = NewTake(text="Two.", audio=b"fLaC and nothing", duration=1.0, seed=7, voice_name="Ann")
    storage.scripts.attach(two.id, broken, owner=OWNER)
    with tempfile.TemporaryFile() as file:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda: file)
        with pytest.raises(InvalidInput, match="damaged"):
            export_script(storage, script, "wav")
        assert file.closed


def test_link_sends_whole_file_and_leaves_no_temporary_file(
    serve: Serve, engine: FakeEngine, storage: Storage, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))  # private to this test: others run in parallel
    context = make_context(engine, storage, tmp_path, "browser")
    url = serve(engine, storage, "browser").rstrip("/")
    produced = script_producer(storage.scripts)(OWNER, f"{script}.wav")
    assert isinstance(produced, DownloadStream)
    expected = produced.file.read()
    before = set(temporary.iterdir())
    link = url + context.links.sign(Owner("browser", "ann"), "script", f"{script}.wav")
    answer = httpx.get(link, headers={"Range": "bytes=0-3"})
    assert (answer.status_code, answer.content) == (200, expected)
    assert answer.headers["content-length"] == str(len(expected))
    assert "A%20play%20_%20in%20parts.wav" in answer.headers["content-disposition"]
    assert "no-store" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("audio/wav")
    assert set(temporary.iterdir()) == before
    nobodys = url + context.links.sign(Owner("browser", "ben"), "script", f"{script}.wav")
    assert httpx.get(nobodys).status_code == 404
    storage.scripts.discard(script, owner=OWNER)
    assert httpx.get(link).status_code == 404
