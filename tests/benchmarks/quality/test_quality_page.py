"""The quality page shows the results and audio of a run, and replaces an earlier page."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from benchmarks import _report
from benchmarks.evaluation_set import Clip, EvaluationSet, Speaker
from benchmarks.quality import quality_page
from benchmarks.quality.kept import RESULTS, forget_results, keep_results
from benchmarks.quality.quality_page import main, write_page

pytest.importorskip("matplotlib")

RATE = 22050


def wave(path: Path, hertz: float) -> Path:
    soundfile.write(path, 0.3 * np.sin(2 * np.pi * hertz * np.arange(RATE) / RATE), RATE)
    return path


@pytest.fixture
def data(tmp_path: Path) -> EvaluationSet:
    speakers = []
    for i in range(4):
        clip = Clip(wave(tmp_path / f"reference-{i}.wav", 200), f"I am <number> {i}.")
        speakers.append(Speaker(f"voice-{i}", f"teacher {i}", clip, (Clip(clip.path, f"Sentence {i}."),), i == 3))
    return EvaluationSet(tuple(speakers), ())


@pytest.fixture
def kept(tmp_path: Path, data: EvaluationSet) -> Path:
    folder = tmp_path / "kept"
    folder.mkdir()
    for number, speaker in enumerate(data.speakers):
        for part in ("teachers", "codec", "speech"):
            wave(folder / f"{part}-{number:02d}-{speaker.name}.wav", 300 + number)
    return folder


def results(data: EvaluationSet) -> dict[str, Any]:
    parts = ("teachers", "codec", "speech")
    heard = [{"voice": speaker.name, "heard": {"domain": f"heard {speaker.name}"}} for speaker in data.speakers]
    figures = {part: {"word error": {"text": f".1 of {part}"}} for part in parts}
    figures["speech"]["loops"] = {"text": "0 loops"}
    understood = {part: {"women's voices": {"text": f".2 of {part}"}} for part in parts}
    return {
        "machine": _report.machine(),
        "figures": figures,
        "understood": understood,
        "utterances": {part: [heard, []] for part in parts},
    }


def test_page_shows_every_third_voice_with_audio(tmp_path: Path, data: EvaluationSet, kept: Path) -> None:
    page = tmp_path / "docs" / "index.html"
    write_page(kept, data, results(data), page)
    text = page.read_text("utf-8")
    files = re.findall(r'src="([^"]+)"', text)
    assert len(files) == 2 * 2 * 4  # picture and audio of two voices: reference, teacher, codec, model
    assert {path.name for path in page.parent.iterdir()} == {*files, "index.html"}
    sound, rate = soundfile.read(page.parent / "voice-3-cloned.mp3")
    spectrum = np.abs(np.fft.rfft(sound[:RATE]))
    assert rate == RATE
    assert abs(int(spectrum.argmax()) * RATE / len(sound[:RATE]) - 303) < 2
    for shown in (
        ".1 of codec",
        ".2 of speech",
        "0 loops",
        "heard voice-3",
        "I am &lt;number&gt; 3.",
        "none of this teacher",
    ):
        assert shown in text, shown
    assert "voice-1" not in text
    assert text.count("none of this teacher") == 1


def test_page_compares_with_an_earlier_release(tmp_path: Path, data: EvaluationSet, kept: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    for number, speaker in enumerate(data.speakers):
        wave(before / f"speech-{number:02d}-{speaker.name}.wav", 500 + number)
    page = tmp_path / "docs" / "index.html"
    write_page(kept, data, results(data), page, before)
    assert page.read_text("utf-8").count("By an earlier release.") == 2
    sound, _ = soundfile.read(page.parent / "voice-3-before.mp3")
    assert abs(int(np.abs(np.fft.rfft(sound[:RATE])).argmax()) * RATE / len(sound[:RATE]) - 503) < 2


def test_new_page_removes_files_of_an_earlier_one(tmp_path: Path, data: EvaluationSet, kept: Path) -> None:
    page = tmp_path / "docs" / "index.html"
    write_page(kept, data, results(data), page)
    first = set(page.parent.iterdir())
    write_page(kept, EvaluationSet(data.speakers[1:2], ()), results(data), page)
    assert set(page.parent.iterdir()) - first
    assert len(list(page.parent.glob("*.mp3"))) == 4


def test_folder_without_kept_audio_leaves_the_earlier_page(tmp_path: Path, data: EvaluationSet, kept: Path) -> None:
    page = tmp_path / "docs" / "index.html"
    write_page(kept, data, results(data), page)
    first = {path.name: path.read_bytes() for path in page.parent.iterdir()}
    with pytest.raises(FileNotFoundError, match="run voice_quality --keep again"):
        write_page(tmp_path, data, results(data), page)
    assert {path.name: path.read_bytes() for path in page.parent.iterdir()} == first


def test_page_is_that_of_the_results_beside_the_audio(
    tmp_path: Path, data: EvaluationSet, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EvaluationSet, "load", lambda: data)
    published = tmp_path / "docs" / "index.html"
    monkeypatch.setattr(quality_page, "PAGE", published)
    with pytest.raises(FileNotFoundError, match="run voice_quality --keep again"):
        main([str(kept)])
    keep_results(kept, "voice_quality-mine", results(data))
    main([str(kept)])
    assert not published.exists()
    assert ".1 of codec" in (kept / "page" / "index.html").read_text("utf-8")
    keep_results(kept, "voice_quality", results(data))
    main([str(kept)])
    assert ".1 of codec" in published.read_text("utf-8")
    forget_results(kept)
    assert not (kept / RESULTS).exists()
