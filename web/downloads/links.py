"""Links to stored files: signed for one owner and one item, valid for minutes, with no path in them.

links = DownloadLinks(secret, {"voice": voice_producer(library)})
url = links.sign(owner, "voice", voice_id)      # "/reprise/files/…", from the page's own host
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

from engine.audio.output.mastering import LOUDNESS
from engine.errors import InvalidOption, RepriseError
from engine.voice import check_field
from storage.errors import LibraryError
from studio.files.file_names import safe_file_name
from web.limits.budgets import PoolFull
from web.limits.worker_pool import WorkerPool
from web.ui.i18n import Translations
from web.ui.messages import error_message

if TYPE_CHECKING:
    from web.identity.owners import Owner

PATH_PREFIX = "/reprise/files/"
MAX_ID = 200  # characters
VALID_SECONDS = 10 * 60
MAX_VALID_SECONDS = 60 * 60
# Threads; running and waiting jobs; jobs per owner: a browser requests six files at a time.
FILES, EXPORTS = (4, 64, 12), (2, 16, 2)
NORMALIZED_KINDS = ("take", "script")
LUFS_VALUES = tuple(f"{-lufs:g}" for lufs in LOUDNESS)  # of their links, negative: "?lufs=16"
BLOCK = 1 << 18  # bytes per chunk
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True)
class DownloadFile:
    """A file in memory. name: suggested file name."""

    data: bytes
    name: str
    mime: str


@dataclass(frozen=True)
class DownloadStream:
    """A file too large for memory. `file` is read from its start and closed after sending."""

    file: BinaryIO
    name: str
    mime: str


# Takes an owner's key and an id, returns the file. Raises LibraryError if the owner has no such item.
FileProducer = Callable[[str, str], DownloadFile | DownloadStream]


class DownloadLinks:
    """Signs and serves download links. An item is looked up under its owner when its link is followed."""

    def __init__(
        self,
        secret: bytes,
        producers: Mapping[str, FileProducer],
        *,
        root_path: str = "",
        clock: Callable[[], float] = time.time,
        translations: Translations | None = None,
    ) -> None:
        """producers: by kind of item. root_path: the proxy's, as in Gradio's `launch`. translations: for error
        responses."""
        self._translations = translations or Translations.load()
        self._producers = dict(producers)
        self._files, self._exports = WorkerPool(*FILES), WorkerPool(*EXPORTS)
        self._root = urlsplit(root_path).path.rstrip("/")
        self._clock = clock
        self._serializer = URLSafeSerializer(
            secret,
            salt="reprise.file",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )

    def sign(self, owner: Owner, kind: str, id: str, seconds: int = VALID_SECONDS) -> str:
        """Return the URL of one of the owner's items, relative to the page's host.

        seconds: validity, up to an hour. Whether the item exists is checked when the link is followed.
        Raises InvalidOption for an unknown kind, InvalidInput for an invalid id.
        """
        if kind not in self._producers or not 0 < seconds <= MAX_VALID_SECONDS:
            raise InvalidOption(f"There are no links to a “{kind}” for {seconds} seconds.")
        check_field(id, "id", MAX_ID)
        token: str = self._serializer.dumps([owner.key, kind, id, int(self._clock()) + seconds])
        return f"{self._root}{PATH_PREFIX}{token}"

    def routes(self) -> list[Route]:
        """Return the routes for `web.launch.launch`."""
        return [Route(PATH_PREFIX + "{token}", self._answer, methods=["GET"])]  # Starlette adds HEAD

    async def _answer(self, request: Request) -> Response:
        texts = self._translations.texts_for(request.headers.get("accept-language", ""))
        try:
            owner, kind, id, until = self._serializer.loads(request.path_params["token"])
        except (BadData, ValueError, TypeError):
            return _refusal(403, texts("notice.link_wrong"))
        if self._clock() >= until:
            return _refusal(410, texts("notice.link_expired"))
        if kind not in self._producers:
            return _refusal(403, texts("notice.link_wrong"))
        # The loudness is not part of the signed token: the client may choose any supported one.
        lufs = request.query_params.get("lufs", "")
        if kind in NORMALIZED_KINDS and lufs in LUFS_VALUES:
            id = f"{id}~{lufs}"
        pool = self._exports if is_export(kind, id) else self._files
        try:
            return await pool.run(owner, lambda: self._produced(kind, owner, id, request))
        except Exception as error:
            return _refusal(_status(error), error_message(error, texts))

    def _produced(self, kind: str, owner: str, id: str, request: Request) -> Response:
        made = self._producers[kind](owner, id)
        return _stream_response(made) if isinstance(made, DownloadStream) else _file_response(made, request)


def is_export(kind: str, id: str) -> bool:
    """Return whether the file is slow to produce (seconds to minutes): archives, scripts, lossy or normalized audio."""
    return kind in ("voices", "script") or "~" in id or id.endswith((".mp3", ".opus"))


def _file_response(file: DownloadFile, request: Request) -> Response:
    """Return the file or the requested range. Safari plays audio only from servers that support ranges.

    Starlette's `FileResponse` needs a path; this data is in memory, from the database or just made.
    """
    size = len(file.data)
    headers = _headers(file)
    asked = request.headers.get("range", "")
    if request.headers.get("if-range", headers["ETag"]) != headers["ETag"]:
        asked = ""  # the browser holds part of another version
    match parse_range(asked, size):
        case None:
            return Response(file.data, 200, headers, file.mime)
        case range() as part if part:
            headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
            return Response(file.data[part.start : part.stop], 206, headers, file.mime)
    return Response(None, 416, {**headers, "Content-Range": f"bytes */{size}"})


def _stream_response(made: DownloadStream) -> Response:
    """Return the whole file, ignoring ranges: it is produced for this response only."""
    size = made.file.seek(0, os.SEEK_END)
    headers = {**_private(made.name), "Content-Length": str(size)}
    return StreamingResponse(_blocks(made.file), 200, headers, made.mime)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while block := file.read(BLOCK):
            yield block


def parse_range(asked: str, size: int) -> range | None:
    """Return the bytes that a Range header requests of `size`; empty if unsatisfiable, None for the whole file.

    Invalid headers and multiple ranges are ignored, as RFC 9110 allows.
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


def _headers(file: DownloadFile) -> dict[str, str]:
    tag = f'"{hashlib.sha256(file.data).hexdigest()}"'
    return {**_private(file.name), "Accept-Ranges": "bytes", "ETag": tag}


def _private(name: str) -> dict[str, str]:
    return {
        "Cache-Control": "private, no-store",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(safe_file_name(name), safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def _status(error: Exception) -> int:
    if isinstance(error, PoolFull):
        return 429
    if isinstance(error, LibraryError):
        return 404 if isinstance(error, LookupError) else 503
    return 400 if isinstance(error, RepriseError) else 500


def _refusal(status: int, sentence: str) -> Response:
    content: dict[str, Any] = {"detail": sentence}
    return JSONResponse(content, status, {"Cache-Control": "no-store"})
