"""Releases are found in folders and on the Hub, and failures raise errors with readable messages."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ReleaseForbidden, ReleaseIncomplete, ReleaseNotFound
from engine.families.registry import notice_of
from engine.files import hub_connection
from engine.release import hub
from engine.release.hub import find_release, known_release


def test_release_folders_are_found_and_missing_ones_rejected(tmp_path: Path) -> None:
    assert find_release(tmp_path) == tmp_path
    assert find_release("bundled").name == "bundled"
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "none", "no folder at all"):
        with pytest.raises(ReleaseNotFound):
            find_release(wrong)


@pytest.mark.parametrize(
    "model", ["a--b/c", "../x", "a/..", "-a/b", "a/b.git", "a/" + "b" * 100, "a/b@", "a/b@c@d", "a/b@../c"]
)
def test_ids_that_the_hub_refuses_are_no_releases(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where no such folder is
    check_no_release(model)


@pytest.mark.parametrize("model", ["~nosuchuser/model", "a" * 300, "a/" + "b" * 300, "\0/b"])
def test_impossible_paths_are_no_releases(model: str) -> None:
    check_no_release(model)


def check_no_release(model: str) -> None:
    assert known_release(model) is None
    for find in (find_release, notice_of):
        with pytest.raises(ReleaseNotFound) as caught:
            find(model)
        assert caught.value.message.key == "release.none"


@pytest.mark.parametrize(
    ("raised", "ours", "says"),
    [
        ("GatedRepoError", ReleaseForbidden, "licence"),
        ("RepositoryNotFoundError", ReleaseNotFound, "no repository"),
        ("RevisionNotFoundError", ReleaseNotFound, "no revision v2"),
        ("LocalEntryNotFoundError", ReleaseIncomplete, "network"),
    ],
)
def test_hub_errors_become_release_errors(
    monkeypatch: pytest.MonkeyPatch, raised: str, ours: type[Exception], says: str
) -> None:
    fail_downloads(hub_error(raised), monkeypatch)
    with pytest.raises(ours, match=says):
        find_release("someone/something@v2")


def test_repository_without_a_version_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_downloads(hub_error("RevisionNotFoundError"), monkeypatch)
    with pytest.raises(ReleaseNotFound, match="no revision main"):
        find_release("someone/something")


def hub_error(name: str) -> Exception:
    import httpx
    from huggingface_hub import errors

    kind = getattr(errors, name)
    response = httpx.Response(401, request=httpx.Request("GET", "https://example.invalid"))
    error: Exception = kind("x") if name == "LocalEntryNotFoundError" else kind("x", response=response)
    return error


def fail_downloads(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all downloads from the Hub fail, without asking it."""
    import huggingface_hub

    def fail(*_args: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(hub, "hub_answers", lambda *_: True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)


def test_lost_connection_is_a_release_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The errors of the Hub's HTTP client are neither the Hub's own nor operating system errors."""
    from huggingface_hub import errors

    base = next(each for each in errors.HfHubHTTPError.__mro__ if each.__module__.startswith(("httpx", "requests")))
    failure = next(each for each in every_subclass(base) if each.__name__ in ("ReadTimeout", "ReadError"))
    assert not issubclass(failure, (OSError, errors.HfHubHTTPError))
    fail_downloads(failure("the connection was lost"), monkeypatch)
    with pytest.raises(ReleaseIncomplete, match="network"):
        find_release("someone/something")


@pytest.fixture
def downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the release someone/something, in a cache of which a Hub could be asked."""
    from huggingface_hub import constants

    commit = "a" * 40
    known = tmp_path / "models--someone--something"
    (known / "refs").mkdir(parents=True)
    (known / "refs/main").write_text(commit)
    (known / "snapshots" / commit).mkdir(parents=True)
    (known / "snapshots" / commit / "config.json").write_text("{}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub_connection, "ANSWER_SECONDS", 0.1)
    return known / "snapshots" / commit


def test_downloaded_release_does_not_wait_for_a_hub_without_answers(
    downloaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a firewall that drops packets."""
    from huggingface_hub import constants

    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert find_release("someone/something") == downloaded


def test_revision_is_a_version_of_its_own(downloaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    pinned = downloaded.with_name("b" * 40)
    pinned.mkdir()
    (pinned / "config.json").write_text("{}")
    (downloaded.parents[1] / "refs/v2").write_text(pinned.name)
    for revision, folder in {"v2": pinned, "b" * 40: pinned, "main": downloaded}.items():
        model = f"someone/something@{revision}"
        assert known_release(model) == find_release(model) == folder
    assert known_release("someone/something") == downloaded
    assert known_release("someone/something@v3") is None
    with pytest.raises(ReleaseIncomplete, match="something@v3"):
        find_release("someone/something@v3")


def test_first_download_from_a_hub_without_answers_is_refused(
    downloaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ReleaseIncomplete, match="network"):
            find_release("someone/else")


def test_all_addresses_of_the_hub_are_tried_in_the_same_time(downloaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client applies a timeout to each of them."""
    from huggingface_hub import HfApi, constants

    over, tried = threading.Event(), list[bool]()
    monkeypatch.setattr(HfApi, "model_info", lambda *_, **__: tried.append(over.wait(5)))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert find_release("someone/something") == downloaded
    assert not tried
    over.set()


def every_subclass(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from every_subclass(each)
