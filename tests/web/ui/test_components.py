"""Custom components and their modules; parsing and cutting of the clips that the recorder sends."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from engine.audio.decode import LONGEST, Recording, decode
from engine.audio.merge import MAX_MERGED_SECONDS
from engine.errors import InvalidInput
from tests.paths import CLIP
from tests.web.conftest import store_upload
from web.tabs.new_voice.clips import MAX_CLIPS, PEAKS_PER_SECOND, ChosenClip, chosen_clips, peaks, split_by_length
from web.ui import components
from web.ui.components import clip_input
from web.ui.modules import STATIC
from web.uploads.files import MAX_UPLOAD_MB, delete_upload


@pytest.fixture
def clip(tmp_path: Path) -> dict[str, Any]:
    path = store_upload(tmp_path, "clip.flac", CLIP.read_bytes())
    return {"path": str(path), "name": "My clip", "seconds": 3.125, "start": 0, "end": 3.125, "words": " Hello. "}


def test_empty_values_have_no_clips(tmp_path: Path) -> None:
    for value in (None, {}, "", {"chosen": 0, "clips": []}):
        assert chosen_clips(value, tmp_path) == ()


def test_clips_keep_their_order_and_words(clip: dict[str, Any], tmp_path: Path) -> None:
    value = {"chosen": 1, "clips": [{**clip, "name": name, "words": name * 2} for name in "abc"]}
    assert [(made.name, made.words) for made in chosen_clips(value, tmp_path)] == [
        ("a", "aa"),
        ("b", "bb"),
        ("c", "cc"),
    ]


def test_whole_clip_is_its_file_and_a_part_is_cut_sample_exactly(clip: dict[str, Any], tmp_path: Path) -> None:
    (whole,) = chosen_clips({"chosen": 0, "clips": [clip]}, tmp_path)
    assert (whole.words, whole.end, whole.length, whole.audio()) == ("Hello.", None, 3.125, Path(clip["path"]))
    (part,) = chosen_clips({"chosen": 0, "clips": [{**clip, "start": 0.5, "end": 2.0}]}, tmp_path)
    data = part.audio()
    assert isinstance(data, bytes)
    cut, everything = decode(data), decode(CLIP)
    assert (cut.sample_rate, part.length) == (16_000, 1.5)
    np.testing.assert_array_equal(cut.samples.numpy(), everything.samples.numpy()[8_000:32_000])


def test_part_of_a_clip_beyond_full_scale_is_not_clipped(tmp_path: Path) -> None:
    samples = np.sin(np.arange(16_000) / 9).astype(np.float32) * 7
    soundfile.write(tmp_path / "loud.wav", samples, 16_000, subtype="FLOAT")
    data = ChosenClip(tmp_path / "loud.wav", "loud", start=0.25).audio()
    np.testing.assert_array_equal(decode(data).samples.numpy(), samples[4_000:])


@pytest.mark.parametrize(
    "change",
    [
        {"path": "/etc/passwd"},
        {"path": None},
        {"path": "a\0b"},
        {"start": 2, "end": 1},
        {"start": -1},
        {"start": "0"},
        {"start": True},
        {"end": float("nan")},
    ],
)
def test_forged_clips_are_rejected(clip: dict[str, Any], tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        chosen_clips({"chosen": 0, "clips": [{**clip, **change}]}, tmp_path)


def test_malformed_values_are_rejected(clip: dict[str, Any], tmp_path: Path) -> None:
    several: list[Any] = [[clip] * (MAX_CLIPS + 1), "clips", [None], [3]]
    for clips in several:
        with pytest.raises(InvalidInput):
            chosen_clips({"chosen": 0, "clips": clips}, tmp_path)
    for value in (clip, "text", [clip], 3):
        with pytest.raises(InvalidInput):
            chosen_clips(value, tmp_path)


def test_empty_part_is_reported(clip: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="nothing_left"):
        ChosenClip(Path(clip["path"]), "clip", start=30.0, end=31.0).audio()


def test_delete_upload_removes_the_file_and_its_empty_folder(clip: dict[str, Any], tmp_path: Path) -> None:
    (made,) = chosen_clips({"clips": [clip]}, tmp_path)
    beside = made.path.with_name("other.wav")
    beside.write_bytes(b"somebody else's")
    delete_upload(made.path)
    assert beside.exists()
    beside.unlink()
    delete_upload(made.path)
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.one_of(st.none(), st.floats(0.1, 90)), max_size=6))
def test_split_by_length_uses_every_clip_that_fits(lengths: list[float | None]) -> None:
    clips = [ChosenClip(Path(str(i)), str(i), seconds=seconds) for i, seconds in enumerate(lengths)]
    used, left = split_by_length(clips)
    assert sorted(used + left, key=lambda clip: clip.name) == clips
    assert used[:1] == tuple(clips[:1]), "the first always fits"
    seconds = sum(clip.length or 0 for clip in used)
    assert len(used) == 1 or seconds <= MAX_MERGED_SECONDS
    assert all(seconds + (clip.length or 0) > MAX_MERGED_SECONDS for clip in left)


@given(st.integers(1, 4_000))
def test_peaks_have_fifty_values_per_second(count: int) -> None:
    import torch

    samples = torch.sin(torch.arange(count) * 0.7) * 2
    found = np.array(peaks(Recording(samples, 1_000)))
    assert len(found) == -(-count * PEAKS_PER_SECOND // 1_000)
    assert found.min() >= 0
    assert found.max() <= 1


def test_limits_equal_those_of_the_scripts() -> None:
    assert f"const MAX_CLIPS = {MAX_CLIPS};" in (STATIC / "new_voice/clips/clips.js").read_text("utf-8")
    assert f"const PEAKS_PER_SECOND = {PEAKS_PER_SECOND};" in (STATIC / "sound/peaks.js").read_text("utf-8")
    props = clip_input().props
    assert (props["max_mb"], props["longest"], props["most_merged"]) == (MAX_UPLOAD_MB, LONGEST, MAX_MERGED_SECONDS)


def test_every_component_has_its_module() -> None:
    used = re.findall(r'_component\(\s*"([\w/]+)"', Path(components.__file__).read_text("utf-8"))
    listed = re.findall(r'^  "([\w/]+)": \w+,$', (STATIC / "main.js").read_text("utf-8"), re.MULTILINE)
    assert sorted(used) == sorted(listed)


def accepted(component: str) -> set[str]:
    """Return the types and endings of files that a component's file input offers."""
    (types,) = re.findall(r'accept="(.*?)"', (STATIC / f"{component}.html").read_text("utf-8"))
    return set(types.split(","))


def test_an_iphone_offers_the_files_that_file_inputs_take() -> None:
    """Safari on an iPhone takes `audio/*` for videos, and has one type for all endings that it does not know."""
    (formats,) = re.findall("SOUND_FORMATS = {(.*?)}", (STATIC / "sound" / "formats.js").read_text("utf-8"))
    endings = {f".{name}" for name in re.findall(r"(\w+):", formats)}
    for component in ("status/checker", "new_voice/recorder"):
        assert endings <= accepted(component), component
    assert accepted("library/library") == {".voice", ".zip", "application/octet-stream"}
