"""Voice clips in requests: data URLs, and https URLs at allowed hosts."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import httpx

from api.access import MAX_WITH_AUDIO
from engine.errors import InvalidInput

FETCH_TIMEOUT = 60.0  # seconds for a whole clip
READ_TIMEOUT = 15.0  # seconds to connect, and between two parts of a clip
_FIELD = "ref_audio"  # of the requests
_FINAL_DOT = re.compile(r"\.(?=(:[0-9]+)?\Z)")


class ClipSource:
    """Reader of clips. hosts: names such as `example.org` or `example.org:8443` from which clips may be fetched."""

    def __init__(self, hosts: Iterable[str] = (), *, client: httpx.AsyncClient | None = None) -> None:
        """client: for tests."""
        self._hosts = {_normal_host(host.strip()) for host in hosts} - {""}
        self._client = client

    async def read(self, url: str) -> bytes:
        """Return the clip at a URL. Raises InvalidInput."""
        if url[:5].lower() == "data:":
            return data_url(url, _FIELD)
        host = _https_host(url)
        if host not in self._hosts:
            allowed = f" or an https address at {', '.join(sorted(self._hosts))}" if self._hosts else ""
            raise InvalidInput(f"{_FIELD}: send the clip as a data URL (data:audio/wav;base64,…){allowed}.")
        try:
            async with asyncio.timeout(FETCH_TIMEOUT):
                return await self._fetch(url)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise InvalidInput(f"{_FIELD}: the clip cannot be fetched from {host}; send it itself.") from error

    async def _fetch(self, url: str) -> bytes:
        client = self._client or httpx.AsyncClient(timeout=READ_TIMEOUT, trust_env=False)
        clip = bytearray()
        # A redirect could lead to a host that is not allowed.
        async with client, client.stream("GET", url, follow_redirects=False) as response:
            if response.status_code != httpx.codes.OK:
                raise InvalidInput(f"{_FIELD}: the clip's host answers with status {response.status_code}.")
            async for part in response.aiter_bytes():
                clip += part
                if len(clip) > MAX_WITH_AUDIO:
                    raise InvalidInput(f"{_FIELD}: the clip is larger than {MAX_WITH_AUDIO >> 20} MB.")
        return bytes(clip)


def _https_host(url: str) -> str:
    """Return the host and port of an https URL as `_normal_host` does; "" for anything else."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return _normal_host(parts.netloc) if parts.scheme.lower() == "https" else ""


def _normal_host(host: str) -> str:
    """Return `host[:port]` in lower case, without the final dot of a name."""
    return _FINAL_DOT.sub("", host.lower())


def data_url(url: str, field: str) -> bytes:
    """Decode a data URL. field: its name in the request, for errors. Raises InvalidInput for anything else."""
    head, comma, data = url.partition(",")
    if not (head.lower().startswith("data:") and comma):
        raise InvalidInput(f"{field}: send the clip as a data URL (data:audio/wav;base64,…).")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{field}: the data URL does not hold base64.") from error
