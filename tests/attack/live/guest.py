"""A client of a served page that can send forged requests. It logs in like a browser."""

import json
import socket
from pathlib import Path
from typing import Any

import httpx

from tests.attack.attack import Broken
from tests.attack.live.server import Server
from tests.storage.making import voice
from tests.web.visitor import Visitor

FIRST_VOICE = "Adam"  # a sample
_CONFIG = "window.gradio_config = "  # in the page's markup


class Guest(Visitor):
    """An open page, opened with the link that the server printed; its cookie is sent with all requests."""

    def __init__(self, server: Server, address: str = "", **headers: str) -> None:
        """address: loopback address to connect from; the default one if empty."""
        super().__init__(server.url, **headers)
        if address:
            self.http.close()
            transport = httpx.HTTPTransport(local_address=address)
            self.http = httpx.Client(base_url=server.url, headers=headers, timeout=60, transport=transport)
        self.server = server
        self.http.get(server.link, follow_redirects=True).raise_for_status()
        self._config: dict[str, Any] | None = None

    @property
    def cookies(self) -> str:
        """The cookies, for hand-written requests."""
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.http.cookies.jar)

    @property
    def config(self) -> dict[str, Any]:
        """The page's configuration."""
        if self._config is None:
            page = self.http.get("").raise_for_status().text
            start = page.index(_CONFIG) + len(_CONFIG)
            self._config = dict(json.JSONDecoder().raw_decode(page, start)[0])
        return self._config

    def call(self, function: int, data: list[Any], sent: Any = None) -> httpx.Response:
        """Send an event by its number with any values. Returns the server's answer."""
        body = {"data": data, "fn_index": function, "session_hash": self._session}
        body |= {"event_data": sent} if sent is not None else {}
        return self.http.post("gradio_api/run/predict", json=body)

    def upload(self, data: bytes, name: str = "clip.wav") -> str:
        """Upload a file. Returns its path on the server. Raises HTTPStatusError."""
        answer = self.http.post("gradio_api/upload", files={"files": (name, data)})
        return str(answer.raise_for_status().json()[0])

    def keep_voice(self, name: str) -> str:
        """Import a voice with this name. Returns its id."""
        path = self.upload(voice(name).to_bytes(), "a.voice")
        self.press("import_files", files=[{"path": path, "name": "a.voice", "meta": {"_type": "gradio.FileData"}}])
        for known in self.voices():
            if known["name"] == name:
                return str(known["id"])
        raise Broken(f"An imported voice is missing: {name}.")

    def voices(self) -> list[dict[str, Any]]:
        """The Library tab's list."""
        return list(self.press("relist")[0]["voices"])

    def sample(self) -> str:
        """The id of a sample voice."""
        return next(id for id, name in self.arrive()["voices"].items() if name.startswith(FIRST_VOICE))

    def connect(self) -> socket.socket:
        """Open a raw TCP connection."""
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=30)

    def head(self, method: str, path: str, **headers: str) -> bytes:
        """The head of a hand-written request, with this visitor's cookies."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.server.port}"]
        lines += [f"Cookie: {self.cookies}"] if self.cookies else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def begin_take(self, text: str) -> httpx.Response:
        """Queue a take and open its message stream without reading it; the caller closes it."""
        data = [text, self.sample(), "", 0.7, 0.8, 30, 0, "", "", self.token, "ticket"]
        body = {"data": data, "fn_index": self._function("click", "rp-speak", 1), "session_hash": self._session}
        self.http.post("gradio_api/queue/join", json=body).raise_for_status()
        request = self.http.build_request("GET", "gradio_api/queue/data", params={"session_hash": self._session})
        return self.http.send(request, stream=True)


def wait_for_sound(stream: httpx.Response) -> None:
    """Read until the first chunk of a take. Raises Broken if there is none."""
    for line in stream.iter_lines():
        message = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
        if '"chunk"' in json.dumps(message.get("output") or {}):
            return
        if message.get("msg") == "process_completed":
            raise Broken(f"A take ended without sound: {json.dumps(message)[:500]}")
    raise Broken("The stream of a take ended without sound.")


def clip() -> bytes:
    """A second of speech."""
    return (Path(__file__).parents[2] / "fixtures" / "speech" / "flite_slt.flac").read_bytes()


def status(guest: Guest) -> dict[str, Any]:
    """The values of the Status tab."""
    return dict(guest.event("refresh", "rp-status", [])[0])
