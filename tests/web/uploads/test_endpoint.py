"""Uploads over HTTP: storage, limits, expiry and cleanup."""

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from storage import Storage
from tests.support.clock import Clock
from tests.support.fake_engine import FakeEngine
from tests.web.conftest import serving
from tests.web.visitor import Visitor
from web.folders import LOCK
from web.identity.accounts import load_accounts
from web.ui.i18n import Translations
from web.uploads import endpoint as uploads
from web.uploads import store
from web.uploads.endpoint import UploadEndpoint
from web.uploads.files import uploaded_path

Send = Callable[..., Any]  # returns the response of Starlette's test client
MARGIN = 60.0  # seconds: more than a test takes


@pytest.fixture
def clock() -> Clock:
    return Clock(time.time())


@pytest.fixture
def endpoint(tmp_path: Path, clock: Clock) -> UploadEndpoint:
    return UploadEndpoint(tmp_path, Translations.load(), admitted=lambda _request: True, clock=clock)


@pytest.fixture
def send(endpoint: UploadEndpoint) -> Iterator[Send]:
    client = TestClient(Starlette(routes=endpoint.routes()))

    def sent(*files: tuple[str, bytes], field: str = "files") -> Any:
        return client.post(uploads.UPLOAD_PATH, files=[(field, file) for file in files])

    yield sent
    client.close()


def test_upload_is_stored_at_an_unguessable_path(send: Send, tmp_path: Path) -> None:
    paths = send(("clip.wav", b"sound"), ("clip.wav", b"sound")).json()
    assert len(set(paths)) == 2, "the same file sent twice is stored twice"
    for path in map(Path, paths):
        assert path.name == "clip.wav"
        assert path.read_bytes() == b"sound"
        assert path.parent.parent == tmp_path
        assert len(path.parent.name) == 32
        assert path.parent.stat().st_mode & 0o077 == 0
        assert uploaded_path({"path": str(path)}, tmp_path) == path.resolve()


@pytest.mark.parametrize("name", ["../../up.wav", "/etc/hostname", "..", ".", "a\nb", "\\", "x" * 400, "con:"])
def test_hostile_file_names_stay_in_the_folder(send: Send, tmp_path: Path, name: str) -> None:
    (path,) = send((name, b"x")).json()
    assert Path(path).parent.parent == tmp_path
    assert Path(path).is_file()


@pytest.mark.parametrize("name", ["録" * 84 + ".wav", "音" * 200 + ".MP3", "é" * 130 + ".flac", "録" * 100])
def test_long_file_name_is_cut_to_the_bytes_of_a_file_system(send: Send, name: str) -> None:
    answer = send((name, b"x"))
    assert answer.status_code == 200, answer.text
    kept = Path(answer.json()[0])
    assert kept.is_file()
    assert kept.suffix == Path(name).suffix
    assert len(kept.name.encode()) <= 255
    assert kept.stem in name


def test_malformed_uploads_are_rejected(send: Send, endpoint: UploadEndpoint, tmp_path: Path) -> None:
    assert send(("a", b""), field="others").status_code == 400
    assert send(*[("a", b"")] * (uploads.MAX_FILES + 1)).status_code == 400
    client = TestClient(Starlette(routes=endpoint.routes()))
    assert client.post(uploads.UPLOAD_PATH, content=b"x").status_code == 415
    broken = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post(uploads.UPLOAD_PATH, content=b"--x\r\nnonsense", headers=broken).status_code == 400
    assert (
        client.post(uploads.UPLOAD_PATH, content=b"", headers={"content-type": "multipart/form-data"}).status_code
        == 400
    )
    assert list(tmp_path.iterdir()) == []


def test_request_size_is_bounded(send: Send, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_BYTES", 100_000)
    assert send(("a", b"x" * 60_000), ("b", b"x" * 60_000), ("c", b"x" * 60_000)).status_code == 413
    assert list(tmp_path.iterdir()) == []


def test_endless_request_is_aborted(endpoint: UploadEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_BYTES", 100_000)

    def endless() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
        for _ in range(1_000):
            yield b"x" * 10_000

    client = TestClient(Starlette(routes=endpoint.routes()))
    kind = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post(uploads.UPLOAD_PATH, content=endless(), headers=kind).status_code == 413
    assert list(tmp_path.iterdir()) == []


def test_stored_bytes_per_address_are_bounded(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEPT_OF_ONE", 10_000)
    assert send(("a", b"x" * 10_001)).status_code == 429, "its size is declared"
    first = send(("a", b"x" * 9_000)).json()
    refused = send(("b", b"x" * 1_000))
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    Path(first[0]).unlink()
    assert send(("b", b"x" * 1_000)).status_code == 200, "a deleted upload no longer counts"


@pytest.mark.parametrize("limit", ["KEPT_OF_ONE", "KEPT"])
def test_uploads_in_progress_count_towards_the_limits(
    endpoint: UploadEndpoint, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(store, limit, 10_000)
    client = TestClient(Starlette(routes=endpoint.routes()))
    inside: list[int] = []

    def slow() -> Iterator[bytes]:
        file = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
        yield file + b"x" * (6_000 - len(file))
        for size in (6_000, 2_000):
            second = client.post(uploads.UPLOAD_PATH, files=[("files", ("b", b"x" * size))])
            inside.append(second.status_code)
        yield b"\r\n--x--\r\n"

    kind = {"content-type": "multipart/form-data; boundary=x", "content-length": "6009"}
    assert client.post(uploads.UPLOAD_PATH, content=slow(), headers=kind).status_code == 200
    assert inside == [429, 200]


def test_file_count_per_address_and_total_size_are_bounded(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FILES_OF_ONE", 2)
    assert send(("a", b""), ("b", b"")).status_code == 200
    assert send(("c", b"")).status_code == 429
    monkeypatch.setattr(store, "FILES_OF_ONE", 9)
    monkeypatch.setattr(store, "KEPT", 0)
    assert "no room" in send(("c", b"")).json()["detail"]


def test_refusals_are_in_the_visitors_language(endpoint: UploadEndpoint) -> None:
    client = TestClient(Starlette(routes=endpoint.routes()))
    refused = client.post(uploads.UPLOAD_PATH, content=b"x", headers={"accept-language": "de-AT"})
    assert refused.json()["error"] == "Es ist keine Datei angekommen. Wähle sie noch einmal."


def test_uploads_leave_spare_disk_space(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SPARE", 1 << 60)
    assert "no room" in send(("c", b"")).json()["detail"]


def test_unused_uploads_expire(send: Send, endpoint: UploadEndpoint, clock: Clock, tmp_path: Path) -> None:
    send(("a", b"x"))
    clock.now += store.HOURS * 3600 - MARGIN
    endpoint.expire()
    assert len(list(tmp_path.iterdir())) == 1
    clock.now += 2 * MARGIN
    endpoint.expire()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", ["KEPT_OF_ONE", "KEPT"])
def test_idle_uploads_are_evicted_oldest_first(
    send: Send, clock: Clock, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(store, limit, 13_000)
    oldest, needed, older, newest = (Path(send(("a", b"x" * 3_000)).json()[0]) for _ in range(4))
    assert send(("b", b"x" * 3_000)).status_code == 429, "all files may belong to open pages"
    clock.now += store.IDLE + MARGIN
    for path, unused in ((oldest, 3 * MARGIN), (older, 2 * MARGIN), (newest, MARGIN)):
        os.utime(path, (clock.now - store.IDLE - unused,) * 2)
    os.utime(needed, (clock.now, clock.now))
    assert send(("b", b"x" * 3_000)).status_code == 200
    assert [path.exists() for path in (oldest, older, newest, needed)] == [False, True, True, True]
    assert not oldest.parent.exists()
    assert send(("c", b"x" * 3_000)).status_code == 200
    assert [path.exists() for path in (older, newest, needed)] == [False, True, True]


def test_closed_page_deletes_only_its_own_files(send: Send, endpoint: UploadEndpoint, tmp_path: Path) -> None:
    client = TestClient(Starlette(routes=endpoint.routes()))
    mine, mine_too, theirs = (send(("a", b"x")).json()[0] for _ in range(3))
    outside = tmp_path.parent / "outside.wav"
    outside.write_bytes(b"x")
    lock = tmp_path / LOCK
    lock.touch()
    named = [mine, mine_too, str(outside), str(lock), f"{theirs}/../../..", str(tmp_path), "", "\0", mine]
    for body, status in ((named, 204), (named, 204), ("x", 400), ([1], 400), ([""] * 101, 400)):
        assert client.request("DELETE", uploads.UPLOAD_PATH, json=body).status_code == status
    assert client.request("DELETE", uploads.UPLOAD_PATH, content=b"{").status_code == 400
    assert set(tmp_path.iterdir()) == {lock, Path(theirs).parent}
    assert outside.exists()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Storage.open(tmp_path_factory.mktemp("uploads") / "voices.db") as storage, serving() as serve:
        yield serve(FakeEngine(), storage)


def test_aborted_upload_leaves_no_file_and_frees_its_slot(served: str) -> None:
    parts = urlsplit(served)
    assert parts.hostname is not None
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n' + b"x" * 2_000_000
    for _ in range(uploads.AT_ONCE + 2):
        with socket.create_connection((parts.hostname, parts.port or 80)) as plain:
            plain.sendall(
                b"POST /gradio_api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n"
                b"Content-Type: multipart/form-data; boundary=x\r\n\r\n" + head
            )
    answer = httpx.post(f"{served}gradio_api/upload", files={"files": ("a", b"x")}, timeout=30)
    while answer.status_code == 429:  # the server has not noticed yet that the clients are gone
        answer = httpx.post(f"{served}gradio_api/upload", files={"files": ("a", b"x")}, timeout=30)
    (path,) = answer.json()
    assert [each.name for each in Path(path).parents[1].iterdir() if each.is_dir()] == [Path(path).parent.name]


def test_slow_upload_is_closed_and_frees_its_slot(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends a byte now and then is never silent."""
    monkeypatch.setattr(uploads, "LAG", 0.2)
    monkeypatch.setattr(uploads, "AT_ONCE_OF_ONE", 1)
    parts = urlsplit(served)
    assert parts.hostname is not None
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
    with socket.create_connection((parts.hostname, parts.port or 80)) as plain:
        plain.sendall(
            b"POST /gradio_api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n" % (len(head) + 100) + head
        )
        while not select.select([plain], [], [], 0.05)[0]:  # the answer to a byte sent after it would be a reset
            plain.sendall(b"x")
        answer = plain.recv(100)
    assert answer.startswith(b"HTTP/1.1 408")
    assert httpx.post(f"{served}gradio_api/upload", files={"files": ("a", b"x")}, timeout=30).status_code == 200


def test_upload_requires_login(served: str, tmp_path: Path) -> None:
    with Storage.open(tmp_path / "voices.db") as storage, serving() as serve:
        accounts = load_accounts(["anna:a good password"])
        anna, nobody = (Visitor(url) for url in [serve(FakeEngine(), storage, "user", accounts=accounts)] * 2)
        file = {"files": ("a", b"x")}
        assert nobody.http.post("gradio_api/upload", files=file).status_code == 401
        assert nobody.http.request("DELETE", "gradio_api/upload", json=[]).status_code == 401
        assert anna.log_in("anna", "a good password") == 200
        kept = anna.http.post("gradio_api/upload", files=file)
        assert kept.status_code == 200
        assert anna.http.request("DELETE", "gradio_api/upload", json=kept.json()).status_code == 204
        assert not Path(kept.json()[0]).exists()
