"""Links to what the library holds: signed for one owner and one thing, good for minutes, with no path in them.

links = Links(secret, {"voice": voice_files(library)})
url = links.sign(owner, "voice", voice_id)      # "/reprise/files/…", for the page's own address
launch(demo, routes=links.routes())
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote, urlsplit

from itsdangerous import BadData, URLSafeSerializer
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from engine.errors import InvalidOption, LibraryError, RepriseError
from engine.voice import VOICE_FILE_SUFFIX, check_text
from web.limits.budgets import PoolFull
from web.limits.pools import Pool
from web.ui.messages import sentence_of

if TYPE_CHECKING:
    from storage import VoiceLibrary
    from web.identity.owners import Owner

PLACE = "/reprise/files/"
MAX_ID = 200  # characters
SECONDS = 10 * 60
MAX_SECONDS = 60 * 60
# Being made at once, with those that wait, and of these of one owner: a browser asks for six files at a time.
FILES, EXPORTS = (4, 64, 12), (2, 16, 2)
BLOCK = 1 << 18  # bytes sent at once
WRONG = "This link is not one of this server's. Reload the page to get a new one."
EXPIRED = "This link is no longer good. Reload the page to get a new one."
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True)
class File:
    """What a link hands out. `name`: what the browser saves it as."""

    data: bytes
    name: str
    mime: str


@dataclass(frozen=True)
class OpenFile:
    """What a link hands out that is too large to be held: `file` is read from its start, and closed when it is sent."""

    file: BinaryIO
    name: str
    mime: str


# From an owner's key and an id to the file; raises LibraryError where the owner has no such thing.
Producer = Callable[[str, str], File | OpenFile]


class Links:
    """Signs links and answers them. What a link names is looked up as its owner's when it is followed."""

    def __init__(
        self,
        secret: bytes,
        producers: Mapping[str, Producer],
        *,
        root_path: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`producers`: by the kind of thing. `root_path`: where a proxy serves the page, as for Gradio's `launch`."""
        self._producers = dict(producers)
        self._files, self._exports = Pool(*FILES), Pool(*EXPORTS)
        self._root = urlsplit(root_path).path.rstrip("/")
        self._clock = clock
        self._serializer = URLSafeSerializer(
            secret,
            salt="reprise.file",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )

    def sign(self, owner: Owner, kind: str, id: str, seconds: int = SECONDS) -> str:
        """The address of one of the owner's things, from the root of the page's own host on.

        `seconds`: how long it is good, up to an hour. Whether there is such a thing shows when the link is followed.
        Raises InvalidOption for a kind that nothing produces, InvalidInput for what can be no id.
        """
        if kind not in self._producers or not 0 < seconds <= MAX_SECONDS:
            raise InvalidOption(f"There are no links to a “{kind}” for {seconds} seconds.")
        check_text(id, "id", MAX_ID)
        token: str = self._serializer.dumps([owner.key, kind, id, int(self._clock()) + seconds])
        return f"{self._root}{PLACE}{token}"

    def routes(self) -> list[Route]:
        """For `web.serve.launch`."""
        places = [PLACE]
        if self._root and PLACE.startswith(self._root + "/"):
            # Starlette takes the proxy's place off every path, also where the proxy has done so already.
            places.append(PLACE.removeprefix(self._root))
        return [Route(place + "{token}", self._answer, methods=["GET"]) for place in places]  # HEAD comes with GET

    async def _answer(self, request: Request) -> Response:
        try:
            owner, kind, id, until = self._serializer.loads(request.path_params["token"])
        except (BadData, ValueError, TypeError):
            return _refusal(403, WRONG)
        if self._clock() >= until:
            return _refusal(410, EXPIRED)
        if kind not in self._producers:
            return _refusal(403, WRONG)
        pool = self._exports if is_export(kind, id) else self._files
        try:
            return await pool.run(owner, lambda: self._produced(kind, owner, id, request))
        except Exception as error:
            return _refusal(_status(error), sentence_of(error))

    def _produced(self, kind: str, owner: str, id: str, request: Request) -> Response:
        made = self._producers[kind](owner, id)
        return _sent(made) if isinstance(made, OpenFile) else _served(made, request)


def is_export(kind: str, id: str) -> bool:
    """Whether it may take seconds or minutes to make the file: archives, whole scripts, and lossy sounds."""
    return kind in ("voices", "script") or id.endswith((".mp3", ".opus"))


def voice_files(library: VoiceLibrary) -> Producer:
    """Produces an owner's voices as portable files."""

    def produce(owner: str, voice_id: str) -> File:
        record = library.get(voice_id, owner=owner)
        data = library.export_voice(voice_id, owner=owner)
        return File(data, record.name + VOICE_FILE_SUFFIX, "application/octet-stream")

    return produce


def _served(file: File, request: Request) -> Response:
    """All of a file, or the one range asked for: Safari plays no sound from a server without ranges."""
    size = len(file.data)
    headers = _headers(file)
    asked = request.headers.get("range", "")
    if request.headers.get("if-range", headers["ETag"]) != headers["ETag"]:
        asked = ""  # what the browser has the beginning of was another file
    match span(asked, size):
        case None:
            return Response(file.data, 200, headers, file.mime)
        case range() as part if part:
            headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
            return Response(file.data[part.start : part.stop], 206, headers, file.mime)
    return Response(None, 416, {**headers, "Content-Range": f"bytes */{size}"})


def _sent(made: OpenFile) -> Response:
    """All of it, whatever range is asked for: it was made for this answer, and goes with it."""
    size = made.file.seek(0, os.SEEK_END)
    headers = {**_private(made.name), "Content-Length": str(size)}
    return StreamingResponse(_blocks(made.file), 200, headers, made.mime)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while block := file.read(BLOCK):
            yield block


def span(asked: str, size: int) -> range | None:
    """The bytes that a Range header asks of `size`; empty where there are none, None for all.

    As RFC 9110 allows, what cannot be read and what asks for several ranges counts as not asked.
    """
    match = _RANGE.fullmatch(asked.strip())
    if not match or asked.strip() == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        return range(max(0, size - int(last)), size)
    if last and int(last) < int(first):
        return None
    return range(int(first), min(int(last) + 1, size) if last else size)


def _headers(file: File) -> dict[str, str]:
    tag = f'"{hashlib.sha256(file.data).hexdigest()[:32]}"'
    return {**_private(file.name), "Accept-Ranges": "bytes", "ETag": tag}


def _private(name: str) -> dict[str, str]:
    return {
        "Cache-Control": "private, no-store",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file_name(name), safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def file_name(name: str) -> str:
    """Without what would be a folder, or what no header can say."""
    kept = "".join("_" if letter in '/\\:*?"<>|' or not letter.isprintable() else letter for letter in name)
    return kept.strip(" .") or "file"


def _status(error: Exception) -> int:
    if isinstance(error, PoolFull):
        return 429
    if isinstance(error, LibraryError):
        return 404 if isinstance(error, LookupError) else 503
    return 400 if isinstance(error, RepriseError) else 500


def _refusal(status: int, sentence: str) -> Response:
    content: dict[str, Any] = {"detail": sentence}
    return JSONResponse(content, status, {"Cache-Control": "no-store"})
