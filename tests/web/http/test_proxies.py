"""The nginx and Caddy examples of docs/deploy.md, with other ports and paths, under attack from a sibling site."""

import asyncio
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import soundfile
from websockets.asyncio.client import connect

from api.app import create_api
from storage import Storage, VoiceRecord
from storage.api_keys import NewKey
from studio.context import AppContext
from studio.engines.model_manager import ModelManager
from tests.paths import ROOT
from tests.support.fake_engine import FakeEngine, voice
from tests.support.looping import run
from tests.support.ports import free_port
from tests.support.waiting import until
from tests.web.conftest import serving
from tests.web.http.test_strange_pages import SECRET
from tests.web.visitor import Visitor, page_config
from web.http.hosts import is_local
from web.identity.accounts import load_accounts
from web.uploads.endpoint import MAX_BYTES

DEPLOY = (ROOT / "docs" / "deploy.md").read_text("utf-8")
NAME, SIBLING = "voices.example.org", "blog.example.org"
PASSWORD = "a good password"
TIMEOUT = 60.0  # seconds: generous, since the machine may be busy

Proxy = Callable[[Path, str, int], tuple[list[str], dict[str, str]]]


def example(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DEPLOY, re.DOTALL)
    assert found, f"docs/deploy.md has an example for {language}"
    return found.group(1)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    names = f"subjectAltName=DNS:{NAME}"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]  # made in no time
    command = ["openssl", "req", "-x509", *kind, "-days", "2", "-subj", "/CN=test"]
    subprocess.run([*command, "-addext", names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def nginx(folder: Path, upstream: str, port: int) -> tuple[list[str], dict[str, str]]:
    cert, key = certificate(folder)
    server = example("nginx").replace("listen 443", f"listen 127.0.0.1:{port}").replace("127.0.0.1:7860", upstream)
    server = server.replace(f"/etc/ssl/{NAME}.pem", str(cert)).replace(f"/etc/ssl/{NAME}.key", str(key))
    kept = [f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")]
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/log; events {{}}\n"
        f"http {{ access_log off; {' '.join(kept)} {server} }}"
    )
    user = ["-g", "user root;"] if os.getuid() == 0 else []
    return ["nginx", "-p", str(folder), "-c", str(config), "-e", f"{folder}/log", *user], {}


def caddy(folder: Path, upstream: str, port: int) -> tuple[list[str], dict[str, str]]:
    options = f"{{\n admin off\n local_certs\n skip_install_trust\n auto_https disable_redirects\n https_port {port}\n"
    options += " default_bind 127.0.0.1\n}\n"
    site = example("caddy").replace("127.0.0.1:7860", upstream)
    config = folder / "Caddyfile"
    config.write_text(options + site)
    homes = {"HOME": str(folder), "XDG_DATA_HOME": f"{folder}/data", "XDG_CONFIG_HOME": f"{folder}/config"}
    return ["caddy", "run", "--config", str(config), "--adapter", "caddyfile"], homes


@contextmanager
def proxied(proxy: Proxy, folder: Path, upstream: str) -> Iterator[str]:
    """Run the proxy; yield the URL of the page."""
    port = free_port()
    command, environment = proxy(folder, upstream, port)
    with (folder / "output").open("wb") as output:
        running = subprocess.Popen(command, env=os.environ | environment, stdout=output, stderr=output)
        try:
            until(lambda: running.poll() is not None or _listens(port))
            assert running.poll() is None, (folder / "output").read_text()
            yield f"https://{NAME}:{port}/"
        finally:
            running.terminate()
            running.wait(TIMEOUT)


def live_session(page: str, key: str) -> dict[str, str]:
    """Open a speech session over a web socket through the proxy; return the API's first message.

    The client with threads reads and writes one TLS connection at once, which Python's ssl does not support.
    """
    place = urlsplit(page)

    async def first_message() -> dict[str, str]:
        async with connect(
            f"wss://{place.netloc}/v1/audio/speech/stream",
            host="127.0.0.1",
            port=place.port,
            ssl=trusting(),
            proxy=None,
            additional_headers={"Authorization": f"Bearer {key}"},
        ) as socket:
            await socket.send(json.dumps({"type": "session.config", "voice": SECRET}))
            answer: dict[str, str] = json.loads(await asyncio.wait_for(socket.recv(), TIMEOUT))
            return answer

    return run(first_message)


def _listens(port: int) -> bool:
    """Whether the proxy has its certificate: Caddy issues one after it has begun to listen."""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=1) as plain,
            trusting().wrap_socket(plain, server_hostname=NAME),
        ):
            return True
    except OSError:
        return False


def trusting() -> ssl.SSLContext:
    """Settings that accept any certificate."""
    accepting = ssl.create_default_context()
    accepting.check_hostname, accepting.verify_mode = False, ssl.CERT_NONE
    return accepting


@contextmanager
def served_behind(
    proxy: Proxy, folder: Path, storage: Storage, engine: FakeEngine
) -> Iterator[tuple[str, VoiceRecord, str]]:
    """Yield the page's URL behind the proxy, the one voice of its user, and a key of the API."""
    if not shutil.which(proxy.__name__) or not shutil.which("openssl"):
        pytest.skip(f"{proxy.__name__} is not installed (Debian: apt-get install nginx-light caddy openssl)")
    with serving() as serve:
        kept = storage.voices.add(voice(SECRET), owner="user:anna")
        _, key = storage.keys.create(NewKey("Phone", "user:anna"))
        accounts = load_accounts([f"anna:{PASSWORD}"])
        api = create_api(AppContext.create(ModelManager(engine), storage), is_local)  # type: ignore[arg-type]
        url = serve(engine, storage, "user", allowed_hosts=[NAME], accounts=accounts, api=api)
        (place := folder / "proxy").mkdir()
        with proxied(proxy, place, url.split("/")[2]) as target:
            yield target, kept, key


class OnThisMachine(httpx.HTTPTransport):
    """Connects to this machine, whatever a request's host is."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        here = request.url.copy_with(host="127.0.0.1")
        named = {**request.extensions, "sni_hostname": request.url.host}
        sent = httpx.Request(request.method, here, headers=request.headers, stream=request.stream, extensions=named)
        return super().handle_request(sent)


@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_page_behind_a_proxy_rejects_a_sibling_site(
    proxy: Proxy, tmp_path: Path, engine: FakeEngine, storage: Storage
) -> None:
    """Over HTTP: the server decides by the headers that the proxy passes on. `test_strange_pages` has a browser."""
    with served_behind(proxy, tmp_path, storage, engine) as (target, kept, key):
        anna = Visitor(target)
        anna.http = httpx.Client(base_url=target, transport=OnThisMachine(verify=False), timeout=TIMEOUT)
        with anna.http as client:
            assert anna.log_in("anna", PASSWORD) == 200
            cookies = [line for line in client.cookies.jar if line.name.startswith("access-token")]
            assert {(cookie.get_nonstandard_attr("SameSite"), cookie.secure) for cookie in cookies} == {("Lax", True)}
            origin = target.rstrip("/")
            client.headers.update({"origin": origin, "sec-fetch-site": "same-origin"})
            assert list(anna.arrive()["voices"].values()) == [SECRET]
            take = anna.speak("Hello.", kept.id)
            assert take["stop_reason"] == "end", "speech streams through the proxy"
            file = client.get(take["facts"]["links"]["flac"]).content
            assert soundfile.info(io.BytesIO(file)).format == "FLAC", "the take is fetched by its link"
            assert page_config(client.get("").text)["root"] == origin, "the page sends its requests to the proxy"
            assert live_session(target, key)["type"] == "session.created"
            for strange in (origin.replace(NAME, SIBLING), "null"):
                client.headers.update({"origin": strange, "sec-fetch-site": "same-site"})
                assert client.get("").status_code == 403
                with pytest.raises(httpx.HTTPStatusError, match="403"):
                    anna.press("remove", id=kept.id)
        assert [each.name for each in storage.voices.list(owner="user:anna")] == [SECRET]
        assert len(engine.speeches) == 1


def test_caddy_passes_the_largest_upload(tmp_path: Path) -> None:
    if not shutil.which("caddy"):
        pytest.skip("caddy is not installed (Debian: apt-get install caddy)")
    (config := tmp_path / "Caddyfile").write_text(example("caddy"))
    adapted = subprocess.run(
        ["caddy", "adapt", "--config", config, "--adapter", "caddyfile"], check=True, capture_output=True, text=True
    )
    found = re.search(r'"max_size":(\d+)', adapted.stdout)
    assert found is not None
    assert int(found[1]) > MAX_BYTES, "the file and the rest of the form"


def test_proxy_without_forwarding_headers_admits_nobody(tmp_path: Path) -> None:
    """With `proxy_pass` alone, every request seems to come from this machine and to be addressed to it."""
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")

    def silent(folder: Path, upstream: str, port: int) -> tuple[list[str], dict[str, str]]:
        command, environment = nginx(folder, upstream, port)
        config = folder / "nginx.conf"
        config.write_text(re.sub(r"proxy_(set_header|http_version) [^;]*;", "", config.read_text()))
        return command, environment

    with Storage.open(tmp_path / "voices.db") as storage, serving() as serve:
        storage.voices.add(voice(SECRET))
        link = serve(FakeEngine(), storage, "machine")
        (folder := tmp_path / "proxy").mkdir()
        with proxied(silent, folder, link.split("/")[2]) as page:
            through = page.replace(NAME, "127.0.0.1")
            with httpx.Client(verify=False) as stranger:
                assert stranger.get(through).status_code == 401
                assert SECRET not in stranger.get(through).text
                call = {"data": [], "fn_index": 0}
                assert stranger.post(f"{through}gradio_api/run/predict", json=call).status_code == 401
                known = stranger.get(through + "?" + link.partition("?")[2], follow_redirects=True)
                assert known.status_code == 200, "a request with the token is admitted"
