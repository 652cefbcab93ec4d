"""Bounded reading of files given by users: regular files of limited size, and strict JSON objects."""

import json
import os
from pathlib import Path

import pytest

from engine.errors import InvalidConfig, ReleaseIncomplete, UnreadableFile
from engine.files.bounded import MAX_JSON_BYTES, MAX_JSON_DEPTH, open_regular, read_object, read_regular


def test_regular_file_is_read_directly_and_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with open_regular(str(tmp_path / "file"), 5) as file:
        assert file.read() == b"12345"


def test_unreadable_files_are_rejected_with_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "large").write_bytes(bytes((1 << 20) + 1))
    says = {
        "pipe": "a pipe, not a regular file",
        "zero": "a device, not a regular file",
        "loop": "symbolic links",
        "large": "is larger than 1 MB",
        "none": "there is none",
        "nul\0": "cannot be opened",
        "x" * 300: "too long",
    }
    for name, why in says.items():
        with pytest.raises(UnreadableFile, match=why) as raised:
            read_regular(tmp_path / name, 1 << 20)
        assert str(tmp_path) not in str(raised.value), "the message must not show folders"


def test_file_larger_than_its_stated_size_is_rejected() -> None:
    """Files under /proc state a size of 0."""
    with pytest.raises(UnreadableFile, match="is being written to"):
        read_regular("/proc/self/maps", 1 << 20)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": {"b": 1, "b": 2}}', "twice"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": -Infinity}', "-Infinity is not a number"),
        (b'{"a": ' + b"[" * 900, "deeper"),
        (b'{"a": ' + b"[" * 100_000, "more than 1,000 objects and lists"),
        (b'{"a": [' + b"[]," * 2_000 + b"0]}", "more than 1,000 objects and lists"),
        (b'{"' + b'\\"' * 1_000_000, "not valid JSON"),
        (b'{"a": ' + b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH + b"}", "deeper"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "not valid JSON"),
        (b"\xff\xfe{\0}\0", "not valid JSON"),
        (b"[]", "not hold a JSON object"),
        (b"null", "not hold a JSON object"),
        (b" " * (MAX_JSON_BYTES + 1), "larger than"),
    ],
)
def test_invalid_json_is_rejected(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InvalidConfig, match=why):
        read_object(tmp_path / "config.json")


def test_json_object_is_read_and_missing_file_rejected(tmp_path: Path) -> None:
    brackets = "[" * 5_000 + '"'  # brackets in a string do not count as depth
    value = {"a": [1, {"b": 2.5}], "c": brackets}
    (tmp_path / "config.json").write_text(json.dumps(value), encoding="utf-8")
    assert read_object(tmp_path / "config.json") == value
    with pytest.raises(ReleaseIncomplete, match=r"no other\.json"):
        read_object(tmp_path / "other.json")
