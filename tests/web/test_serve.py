"""Information that the served page reveals, and information that it does not."""

import gc
import json
import logging
import re
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import gradio as gr
import httpx
import pytest

import web.serve
from engine.errors import InvalidOption
from engine.messages import UserMessage
from storage import Storage
from studio.context import AppContext
from studio.engines.model_manager import ModelManager
from studio.startup import paused_collections
from tests.storage.speaking import Clock, spoken
from tests.support.fake_engine import FakeEngine, voice
from tests.support.ports import free_port
from tests.web.conftest import serving
from tests.web.visitor import page_config
from web.binding import checked_address
from web.launch import launch
from web.serve import expire, show_address

Serve = Callable[..., str]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("library") / "voices.db"


@pytest.fixture(scope="module")
def url(database: Path) -> Iterator[str]:
    with Storage.open(database) as storage, serving() as serve:
        engine = FakeEngine()
        engine.notice = UserMessage("Cannot <sing>.")
        storage.voices.add(voice("Wilhelmina"))
        yield serve(engine, storage)


def test_page_has_no_run_history_analytics_or_footer(url: str) -> None:
    config = page_config(httpx.get(url).text)
    assert config["run_history"] is False
    assert config["analytics_enabled"] is False
    assert config["footer_links"] == []


def test_page_names_the_model_with_its_notice(url: str) -> None:
    page = json.dumps(page_config(httpx.get(url).text))
    assert "<strong>fake</strong> on cpu" in page
    assert "Cannot &lt;sing&gt;." in page


def test_voices_are_not_in_the_public_page(url: str) -> None:
    assert "Wilhelmina" not in httpx.get(url).text


def test_no_event_is_a_public_endpoint(url: str) -> None:
    start = (page := httpx.get(url).text).index("window.gradio_api_info = ") + len("window.gradio_api_info = ")
    info = json.JSONDecoder().raw_decode(page, start)[0]
    assert info["named_endpoints"] == {}
    assert info["unnamed_endpoints"] == {}


def test_files_of_library_and_code_are_not_served(url: str, database: Path) -> None:
    import web.page

    for path in (
        database,
        Path(web.page.__file__),
        Path(web.page.__file__).parent / "static/player/player.js",
    ):
        assert path.exists()
        assert httpx.get(f"{url}gradio_api/file={path}").status_code in (403, 404)


def test_upload_size_is_bounded(url: str) -> None:
    files = {"files": ("clip.wav", b"\0" * (51 * 2**20))}
    assert httpx.post(f"{url}gradio_api/upload", files=files, timeout=60).status_code == 413


def test_old_takes_expire_and_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(datetime(2026, 11, 21, tzinfo=UTC))
    with Storage.open(tmp_path / "v.db", clock=clock) as storage, caplog.at_level(logging.INFO):
        storage.history.add(spoken())
        expire(storage)
        assert caplog.text == ""
        clock.pass_time(days=31)
        expire(storage)  # after such a time, takes are deleted by the call of the next day
        assert caplog.text == ""
        clock.pass_time(days=1)
        expire(storage)
        assert "Deleted 1 expired takes from the history." in caplog.text
        assert storage.history.page().total == 0


def test_shared_page_loads_no_external_scripts(serve: Serve, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradio.networking.setup_tunnel", lambda **_: "https://a1b2.gradio.live")
    answer = httpx.get(serve(FakeEngine(), storage, share=True))
    sources = re.findall(r'<(?:script|link)[^>]* (?:src|href)="(https?://[^"]+)"', answer.text)
    assert sources == []
    assert 'src="./assets/' in answer.text


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_page_is_served_at_ipv6_addresses(
    serve: Serve, engine: FakeEngine, storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked_address("::1") == checked_address("[::1]") == "[::1]"
    everywhere = serve(engine, storage, server_name="::")
    assert httpx.get(everywhere.replace("[::]", "[::1]")).status_code == 200
    show_address(everywhere, None, open_browser=False)
    assert capsys.readouterr().out == f"Reprise is at {everywhere.replace('[::]', 'localhost')}\n"


def test_garbage_is_collected_again_when_the_page_is_served(
    engine: FakeEngine, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Served(Exception):
        pass

    def stop(url: str, *_: object, **__: object) -> None:
        raise Served(httpx.get(url, follow_redirects=True).status_code, gc.isenabled(), gc.get_freeze_count() > before)

    monkeypatch.setattr(web.serve, "show_address", stop)
    before = gc.get_freeze_count()
    with pytest.raises(Served) as served, paused_collections():
        web.serve.serve(AppContext.create(ModelManager(engine), storage), server_port=free_port())  # type: ignore[arg-type]
    assert served.value.args == (200, True, True)


def test_page_that_cannot_reach_itself_is_an_error_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at :: where IPv6 is switched off: the address can be bound, but not called."""
    monkeypatch.setattr(httpx, "get", Mock(side_effect=httpx.ConnectError("Cannot assign requested address")))
    with gr.Blocks() as page:
        pass
    try:
        with pytest.raises(InvalidOption, match=r"cannot be reached at 127.0.0.1 .*Cannot assign requested address"):
            launch(page, server_port=free_port())
    finally:
        page.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid", "a..b"])
def test_foreign_address_is_refused_at_once(host: str) -> None:
    with gr.Blocks() as page, pytest.raises(InvalidOption, match=r"cannot be served at .* by --host"):
        launch(page, server_name=host)


def test_failed_startup_check_does_not_stop_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradio.networking.url_ok", lambda _: False)  # its result after 3 s without a response
    with gr.Blocks() as page:
        pass
    try:
        assert httpx.get(launch(page, server_port=free_port())).status_code == 200
    finally:
        page.close()
