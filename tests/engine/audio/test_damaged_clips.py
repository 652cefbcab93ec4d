"""Damaged and malicious clips decode or raise one sentence, and never open another file or address."""

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from engine.audio.decode import decode
from engine.errors import UnusableReference
from tests.attack.inputs import clips


def test_mutated_clips_decode_or_raise_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    for case in clips.cases(seed=0, count=50):
        clips.run(case)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["wav s64", "wav GSM610", "mov alac", "caf alac", "w64"])
def test_rare_valid_formats_are_read(kind: str) -> None:
    recording = decode(clips.sound_file(kind))
    assert len(recording.samples) / recording.sample_rate == pytest.approx(2, abs=0.1)
    assert 0.1 < float(recording.samples.abs().max()) <= 1


@pytest.mark.parametrize("kind", ["xi", "sds", "voc", "mat5", "paf"])
def test_old_sampler_formats_are_rejected(kind: str) -> None:
    with pytest.raises(UnusableReference, match="not audio that can be read: use wav"):
        decode(clips.sound_file(kind))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("ten minutes in few bytes", "longer than 90 seconds"),
        ("one sample a second", "1 samples a second"),
        ("8 channels of aac", "8 channels: export it again in mono or stereo"),
        ("a packet for each sample", "too many small pieces"),
        ("a film of large pictures", "holds no sound"),
    ],
)
def test_malicious_clip_is_rejected_with_reason(what: str, says: str) -> None:
    with pytest.raises(UnusableReference, match=says):
        decode(clips.crafted()[what])


@pytest.fixture
def clip_server() -> Iterator[tuple[str, list[str]]]:
    """Serve a clip; yield its URL and the list of requested paths."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(clips.sound_file("wav PCM_16"))

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/clip.wav", paths
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", clips.playlists(""))
def test_playlist_opens_no_other_file_or_address(kind: str, clip_server: tuple[str, list[str]], tmp_path: Path) -> None:
    address, paths = clip_server
    secret = tmp_path / "secret.wav"
    secret.write_bytes(clips.sound_file("wav PCM_16"))
    for target in (str(secret), secret.name, f"file:{secret}", f"concat:{secret}", f"subfile,,:{secret}", address):
        text = clips.playlists(target)[kind]
        path = tmp_path / f"clip.{kind.partition(' ')[0]}"
        path.write_text(text)
        for source in (path, text.encode()):
            with pytest.raises(UnusableReference, match="not audio"):
                decode(source)
    assert paths == []


def test_path_is_not_interpreted_as_url_or_protocol(clip_server: tuple[str, list[str]], tmp_path: Path) -> None:
    address, paths = clip_server
    secret = tmp_path / "secret.wav"
    secret.write_bytes(clips.sound_file("wav PCM_16"))
    for source in (address, f"file:{secret}", f"concat:{secret}", "pipe:0", "-"):
        with pytest.raises(UnusableReference, match="cannot be opened"):
            decode(source)
    assert paths == []


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a socket", "a folder"])
def test_only_regular_files_are_opened(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clip.wav"
    monkeypatch.chdir(tmp_path)  # a socket's path can have 107 bytes
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a device":
            path.symlink_to("/dev/zero")
        elif kind == "a socket":
            listening.bind(path.name)
        else:
            path.mkdir()
        with pytest.raises(UnusableReference, match=rf"clip\.wav cannot be opened: it is {kind}, not a regular file"):
            decode(path)
