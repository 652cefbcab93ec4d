"""An HTTP client of a served page that sends what a browser sends, or forged values."""

from __future__ import annotations

import json
import secrets
import weakref
from operator import itemgetter
from typing import Any

import httpx


def page_config(page: str) -> dict[str, Any]:
    """Return the configuration that the page's scripts read from its markup."""
    start = page.index("window.gradio_config = ") + len("window.gradio_config = ")
    config: dict[str, Any] = json.JSONDecoder().raw_decode(page, start)[0]
    return config


class Visitor:
    """A client with one open page. `token`: stored by the browser and sent with each event."""

    def __init__(self, url: str, **headers: str) -> None:
        page, _, query = url.partition("?")
        self.http = httpx.Client(base_url=page, headers=headers, timeout=60)
        if query:  # a link with the start-up token, which the browser then stores
            self.http.get("", params=query)
        weakref.finalize(self, self.http.close)  # an unclosed socket would make a later test fail
        self.token: Any = None
        self._session = secrets.token_hex(8)
        self._config: dict[str, Any] | None = None

    def log_in(self, username: str, password: str) -> int:
        """Log in; return the status of the response."""
        return self.http.post("login", data={"username": username, "password": password}).status_code

    def arrive(self) -> dict[str, Any]:
        """Open the page; return the names of its voices by id, and the notice."""
        _, token, _, notice, picker, _ = self.event("load", None, [self.token, None], outputs=6)
        self.token = token
        return {"voices": {id: name for name, id in picker["choices"]}, "notice": notice}

    def click(self, elem_id: str, *values: Any) -> list[Any]:
        """Send a button's event with these inputs and the token; return its outputs."""
        return self.event("click", elem_id, [*values, self.token])

    def press(self, kind: str, **sent: Any) -> list[Any]:
        """Send an event of the Library's list with `sent` as its data; return its outputs."""
        picked = [""] if kind in ("remove", "restore") else []  # the picker's value
        return self.event(kind, "rp-library", [*picked, self.token], sent=sent)

    def event(
        self, kind: str, elem_id: str | None, data: list[Any], outputs: int | None = None, sent: Any = None
    ) -> list[Any]:
        """Send an event; return its outputs. Raises HTTPStatusError if the server refuses the request."""
        body = {"data": data, "fn_index": self._function(kind, elem_id, outputs), "session_hash": self._session}
        body |= {"event_data": sent} if sent is not None else {}
        answer = self.http.post("gradio_api/run/predict", json=body)
        answer.raise_for_status()
        values: list[Any] = answer.json()["data"]
        return values

    def speak(self, text: str, voice_id: str) -> dict[str, Any]:
        """Speak through the queue; return the last message of the take."""
        data = [text, voice_id, "", 0.7, 0.8, 30, 0, 1, "", "fake", self.token, "ticket"]
        body = {"data": data, "fn_index": self._function("click", "rp-speak", 1), "session_hash": self._session}
        self.http.post("gradio_api/queue/join", json=body).raise_for_status()
        with self.http.stream("GET", "gradio_api/queue/data", params={"session_hash": self._session}) as events:
            for line in events.iter_lines():
                message = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                if message.get("msg") == "process_completed":
                    return dict(message["output"]["data"][0])
        raise AssertionError("the queue closed before the take was done")

    def _function(self, kind: str, elem_id: str | None, outputs: int | None) -> int:
        config = self._config or page_config(self.http.get("").text)
        self._config = config if config["dependencies"] else None  # the login page has none
        ids = {part["props"].get("elem_id"): part["id"] for part in config["components"]}
        for function in filter(itemgetter("backend_fn"), config["dependencies"]):
            wanted = {(ids.get(elem_id), kind)} if elem_id else {(None, kind), (config.get("app_id"), kind)}
            kinds = {(target[0] if elem_id else None, target[1]) for target in function["targets"]}
            if kinds & wanted and (outputs is None or len(function["outputs"]) == outputs):
                return int(function["id"])
        raise LookupError(f"there is no {kind} of {elem_id}")
