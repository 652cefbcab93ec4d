"""Signed links: their rules, and downloads over HTTP from a served page."""

import threading
from collections.abc import Callable, Iterator
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidInput, InvalidOption
from engine.voice import Voice
from storage import Storage, VoiceLibrary
from storage.errors import VoiceNotFound
from tests.support.clock import Clock
from tests.support.fake_engine import FakeEngine, voice
from tests.support.waiting import until
from tests.web.conftest import serving
from web.downloads.links import (
    MAX_VALID_SECONDS,
    VALID_SECONDS,
    DownloadFile,
    DownloadLinks,
    is_export,
    parse_range,
)
from web.downloads.voices import voice_producer
from web.identity.owners import Owner, OwnerResolver

Serve = Callable[..., str]
ANNA, BEN = Owner("browser", "a" * 32), Owner("browser", "b" * 32)
TAKE = bytes(range(256)) * 40
SECRET = b"signing"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    with Storage.open(tmp_path_factory.mktemp("links") / "voices.db") as opened:
        yield opened


@pytest.fixture(scope="module")
def library(storage: Storage) -> VoiceLibrary:
    return storage.voices


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock(1_000_000.0)


@pytest.fixture(scope="module")
def links(library: VoiceLibrary, clock: Clock) -> DownloadLinks:
    def take(owner: str, id: str) -> DownloadFile:
        match id:
            case "broken":
                raise RuntimeError("/secret/path")
            case "empty":
                return DownloadFile(b"", "nothing.wav", "audio/wav")
            case "named":
                return DownloadFile(b"<script>", '../../Zoë "1"\r\nX-Evil: yes.html', "text/html")
        if owner != ANNA.key:
            raise VoiceNotFound("There is no such take.")
        return DownloadFile(TAKE, "Anna.wav", "audio/wav")

    return DownloadLinks(SECRET, {"take": take, "voice": voice_producer(library)}, clock=clock)


@pytest.fixture(scope="module")
def http(storage: Storage, links: DownloadLinks) -> Iterator[httpx.Client]:
    """A client of a page that all tests share, as they share its library, links and clock."""
    with serving() as serve:
        url = serve(FakeEngine(), storage, "browser", routes=links.routes())
        with httpx.Client(base_url=url, timeout=60) as client:
            yield client


def test_link_serves_its_file_until_it_expires(http: httpx.Client, links: DownloadLinks, clock: Clock) -> None:
    link = links.sign(ANNA, "take", "1", seconds=60)
    answer = http.get(link)
    assert (answer.status_code, answer.content) == (200, TAKE)
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["cache-control"] == "private, no-store"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''Anna.wav"
    head = http.head(link)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(TAKE)))
    assert http.post(link).status_code == 404

    clock.now += 59
    assert http.get(link).status_code == 200
    clock.now += 1
    refused = http.get(link)
    assert refused.status_code == 410
    assert refused.json() == {"detail": "This link has expired. Reload the page to get a new one."}


def test_range_requests_work_as_safari_sends_them(http: httpx.Client, links: DownloadLinks) -> None:
    link = links.sign(ANNA, "take", "1")
    size = len(TAKE)
    for asked, part in {"bytes=0-1": TAKE[:2], "bytes=100-": TAKE[100:], "bytes=-5": TAKE[-5:]}.items():
        answer = http.get(link, headers={"range": asked, "accept-encoding": "br, gzip"})
        assert (answer.status_code, answer.content) == (206, part)
        start = TAKE.index(part) if asked != "bytes=-5" else size - 5
        assert answer.headers["content-range"] == f"bytes {start}-{start + len(part) - 1}/{size}"
        assert answer.headers["content-length"] == str(len(part))
        assert "content-encoding" not in answer.headers
    beyond = http.get(link, headers={"range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    tag = http.get(link).headers["etag"]
    for condition, status in ((tag, 206), ('"another"', 200)):
        assert http.get(link, headers={"range": "bytes=5-9", "if-range": condition}).status_code == status
    empty = links.sign(ANNA, "take", "empty")
    assert (http.get(empty).status_code, http.get(empty, headers={"range": "bytes=0-"}).status_code) == (200, 416)


def test_forged_links_and_other_tokens_are_refused(http: httpx.Client, links: DownloadLinks, clock: Clock) -> None:
    link = links.sign(BEN, "take", "1")
    head, _, token = link.rpartition("/")
    payload, _, signature = token.rpartition(".")
    hers = links.sign(ANNA, "take", "1").rpartition("/")[2].rpartition(".")[0]
    foreign = DownloadLinks(b"another", {"take": lambda *_: DownloadFile(b"", "", "")}, clock=clock).sign(
        ANNA, "take", "1"
    )
    unknown = DownloadLinks(SECRET, {"secret": lambda *_: DownloadFile(b"", "", "")}, clock=clock).sign(
        ANNA, "secret", "1"
    )
    key = OwnerResolver("browser", SECRET).resolve_or_issue(None, None).token
    for wrong in (
        f"{hers}.{signature}",
        payload,
        f"{payload}.",
        f".{signature}",
        "x",
        str(key),
        "%00",
        "..%2f..%2fapp",
    ):
        answer = http.get(f"{head}/{wrong}")
        assert answer.status_code in (403, 404), wrong
        assert b"RIFF" not in answer.content
        if answer.status_code == 403:
            assert answer.json() == {
                "detail": "This link is not one of this server’s. Reload the page to get a new one."
            }
    for other in (foreign, unknown):
        assert http.get(other).status_code == 403
    assert http.get(head + "/").status_code in (404, 404)


def test_link_reaches_only_files_of_its_owner(http: httpx.Client, links: DownloadLinks, library: VoiceLibrary) -> None:
    assert http.get(links.sign(BEN, "take", "1")).json() == {"detail": "There is no such take."}
    hers = library.add(voice("Hers"), owner=ANNA.key).id
    found = http.get(links.sign(ANNA, "voice", hers))
    assert Voice.from_bytes(found.content).name == "Hers"
    assert found.headers["content-disposition"].endswith("Hers.voice")
    for id in (hers, hers.upper(), "../voices.db", "/etc/passwd", "' OR 1=1 --", ""):
        answer = http.get(links.sign(BEN, "voice", id))
        assert answer.status_code == 404
        assert list(answer.json()) == ["detail"]
    library.delete(hers, owner=ANNA.key)
    assert http.get(links.sign(ANNA, "voice", hers)).status_code == 404, "a deleted voice is unavailable at once"


def test_download_headers_prevent_script_execution(http: httpx.Client, links: DownloadLinks) -> None:
    answer = http.get(links.sign(ANNA, "take", "named"))
    name = answer.headers["content-disposition"].partition("''")[2]
    assert unquote(name) == "_.._Zoë _1___X-Evil_ yes.html"
    assert "x-evil" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_internal_errors_reveal_no_details(http: httpx.Client, links: DownloadLinks) -> None:
    answer = http.get(links.sign(ANNA, "take", "broken"))
    assert answer.status_code == 500
    assert "went wrong on the server" in answer.json()["detail"]
    assert "secret" not in answer.text


def test_links_work_under_a_proxy_path(
    serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage, clock: Clock
) -> None:
    for root in ("/reprise", "https://voices.example/reprise/"):
        links = DownloadLinks(SECRET, {"voice": voice_producer(library)}, root_path=root, clock=clock)
        assert links.sign(ANNA, "voice", "1").startswith("/reprise/reprise/files/")
    links = DownloadLinks(SECRET, {"voice": voice_producer(library)}, root_path="/reprise", clock=clock)
    url = serve(engine, storage, "browser", routes=links.routes(), root_path="/reprise")
    link = links.sign(ANNA, "voice", library.add(voice("Hers"), owner=ANNA.key).id)
    # A proxy passes the path on unchanged, or without the prefix that it serves.
    for passed_on in (link, link.removeprefix("/reprise")):
        assert httpx.get(url.rstrip("/") + passed_on, timeout=60).status_code == 200


def test_sign_rejects_unknown_kinds_invalid_durations_and_long_ids(links: DownloadLinks) -> None:
    for kind, seconds in (("nothing", VALID_SECONDS), ("take", 0), ("take", MAX_VALID_SECONDS + 1)):
        with pytest.raises(InvalidOption, match="There are no links"):
            links.sign(ANNA, kind, "1", seconds)
    with pytest.raises(InvalidInput, match="200 characters"):
        links.sign(ANNA, "take", "x" * 201)
    assert links.sign(ANNA, "take", "x" * 200, MAX_VALID_SECONDS)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 200))
def test_parse_range_matches_slicing(first: int, last: int, size: int) -> None:
    data = bytes(size)
    both, rest, end = (
        parse_range(text, size) for text in (f"bytes={first}-{last}", f"bytes={first}-", f"bytes=-{last}")
    )
    if last < first:
        assert both is None
    else:
        assert both is not None
        assert len(data[both.start : both.stop]) == len(data[first : last + 1])
    assert rest is not None
    assert len(rest) == len(data[first:])
    assert end is not None
    assert len(end) == min(last, size)


@given(st.text())
def test_parse_range_ignores_malformed_ranges(text: str) -> None:
    for asked in (text, f"bytes={text}-x", "bytes=-", "bytes=1-2,4-5", "items=0-1", f"bytes={'9' * 30}-"):
        assert parse_range(asked, 100) is None


def test_exports_have_a_separate_limit(serve: Serve, engine: FakeEngine, storage: Storage) -> None:
    """While two slow exports of an owner run, a third is refused and quick downloads still work."""
    go, begun = threading.Event(), []

    def script(_owner: str, id: str) -> DownloadFile:
        begun.append(id)
        go.wait(30)
        return DownloadFile(b"sound", "Play.mp3", "audio/mpeg")

    links = DownloadLinks(
        SECRET, {"script": script, "take": lambda _owner, _id: DownloadFile(TAKE, "Take.wav", "audio/wav")}
    )
    url = serve(engine, storage, "browser", routes=links.routes())
    answers: list[int] = []

    def fetch(number: int) -> None:
        answers.append(httpx.get(url.rstrip("/") + links.sign(ANNA, "script", f"{number}.mp3"), timeout=60).status_code)

    threads = [threading.Thread(target=fetch, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(begun) == 2)
    refused = httpx.get(url.rstrip("/") + links.sign(ANNA, "script", "3.mp3"), timeout=60)
    assert (refused.status_code, "Try again" in refused.json()["detail"]) == (429, True)
    assert httpx.get(url.rstrip("/") + links.sign(ANNA, "take", "1.wav"), timeout=60).content == TAKE
    go.set()
    for thread in threads:
        thread.join(30)
    assert answers == [200, 200]


@pytest.mark.parametrize(
    ("slow", "kind", "id"),
    [
        (True, "voices", "all"),
        (True, "script", "1.wav"),
        (True, "take", "1.mp3"),
        (True, "take", "1.opus"),
        (False, "take", "1.wav"),
        (False, "take", "1"),
        (False, "clip", "1.2"),
        (False, "voice", "1"),
    ],
)
def test_is_export_selects_slow_downloads(kind: str, id: str, slow: bool) -> None:
    assert is_export(kind, id) is slow
