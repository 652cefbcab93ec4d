"""The upload route, in place of Gradio's own: uploads are limited while they arrive, and while they are kept.

An aborted upload leaves nothing: a file gets its name when it is complete.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive

from studio.file_names import safe_file_name
from web.gradio_internals import is_admitted
from web.http.request_body import BodyRejected
from web.http.responses import error_response, retry_later_response
from web.identity.addresses import client_address
from web.uploads import MAX_UPLOAD_MB

UPLOAD_PATH = "/gradio_api/upload"
MOST_BYTES = MAX_UPLOAD_MB << 20  # of one request
OVERHEAD = 64 << 10  # bytes of a request beside its files
MOST_FILES = 8  # of one request
SILENCE = 30.0  # seconds without a byte
AT_ONCE, AT_ONCE_OF_ONE = 12, 3  # uploads under way: of all visitors, of an address
KEPT, KEPT_OF_ONE = 2 << 30, 300 << 20  # bytes: of all visitors, of an address
FILES_OF_ONE = 250
SPARE = 256 << 20  # bytes of free disk space
HOURS = 6.0  # longer than any job

LARGE = f"The file is larger than {MAX_UPLOAD_MB} MB. Send a shorter or a compressed one."
BUSY = "Other files are still on their way. Try again in a moment."
FULL = "Too many of your files are waiting on the server. Use or remove some, or try again later."
NO_ROOM = "The server has no room for files at present. Try again later."
NO_FILE = "The request holds no files."
STRANGER = "You are not logged in any more. Reload the page and log in."
SLOW = "The file stopped coming. Send it again."


@dataclass
class _Kept:
    """Uploads of an address: size and age by file."""

    files: dict[Path, tuple[int, float]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.files.values())


class UploadEndpoint:
    """Stores uploads in folders with unguessable names."""

    def __init__(
        self,
        folder: Path,
        *,
        admitted: Callable[[Request], bool] = is_admitted,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """folder: of all uploads. admitted: whether a visitor may upload."""
        self._folder, self._admitted, self._clock = folder, admitted, clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._coming: dict[str, int] = {}

    def routes(self) -> list[Route]:
        """Routes for `web.serve.launch`."""
        return [Route(UPLOAD_PATH, self._answer, methods=["POST"])]

    def expire(self) -> None:
        """Delete files that were not used for hours. Call it periodically."""
        with self._lock:
            old = [path for kept in self._kept.values() for path in kept.files if self._is_old(kept.files[path][1])]
        for path in old:
            shutil.rmtree(path.parent, ignore_errors=True)
        with self._lock:
            self._tidy()

    async def _answer(self, request: Request) -> Response:
        headers, address = request.headers, client_address(request)
        if not self._admitted(request):
            return error_response(401, STRANGER, headers)
        if not headers.get("content-type", "").startswith("multipart/form-data"):
            return error_response(415, NO_FILE, headers)
        declared = headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > MOST_BYTES + OVERHEAD:
            return error_response(413, LARGE, headers)
        if sentence := await asyncio.to_thread(self._full, address):
            return retry_later_response(429, sentence, headers, 60)
        if not self._begun(address):
            return retry_later_response(429, BUSY, headers, 2)
        try:
            return JSONResponse(await self._taken(request, address))
        except BodyRejected as error:
            return error_response(error.status, str(error), headers, {"Connection": "close"})
        except (HTTPException, MultiPartException):
            return error_response(400, NO_FILE, headers)
        except ClientDisconnect:
            return Response(status_code=400)
        finally:
            self._over(address)

    async def _taken(self, request: Request, address: str) -> list[str]:
        counted = Request(request.scope, _counted(request.receive))
        try:
            async with counted.form(max_files=MOST_FILES, max_fields=4, max_part_size=1_000) as form:
                files = [file for file in form.getlist("files") if isinstance(file, UploadFile)]
                if not files:
                    raise BodyRejected(400, NO_FILE)
                return [str(await asyncio.to_thread(self._keep, file, address)) for file in files]
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise BodyRejected(507, NO_ROOM) from error
            raise

    def _keep(self, file: UploadFile, address: str) -> Path:
        """Store a complete file under its name."""
        folder = self._folder / secrets.token_hex(16)
        path = folder / safe_file_name(file.filename or "file")[-120:]
        folder.mkdir(mode=0o700)
        try:
            with path.open("wb") as kept:
                shutil.copyfileobj(file.file, kept, 1 << 20)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        with self._lock:
            self._kept.setdefault(address, _Kept()).files[path] = (path.stat().st_size, self._clock())
        return path

    def _full(self, address: str) -> str:
        """Why an address may not upload more; "" where it may."""
        with self._lock:
            self._tidy()
            own, all_of_it = self._kept.get(address, _Kept()), sum(kept.size for kept in self._kept.values())
            if own.size >= KEPT_OF_ONE or len(own.files) >= FILES_OF_ONE:
                return FULL
        room = shutil.disk_usage(self._folder).free - SPARE
        return NO_ROOM if all_of_it >= KEPT or room < MOST_BYTES else ""

    def _tidy(self) -> None:
        """Drop records of files that were used, and thereby deleted."""
        for kept in self._kept.values():
            kept.files = {path: about for path, about in kept.files.items() if path.exists()}
        self._kept = {address: kept for address, kept in self._kept.items() if kept.files}

    def _begun(self, address: str) -> bool:
        with self._lock:
            if sum(self._coming.values()) >= AT_ONCE or self._coming.get(address, 0) >= AT_ONCE_OF_ONE:
                return False
            self._coming[address] = self._coming.get(address, 0) + 1
            return True

    def _over(self, address: str) -> None:
        with self._lock:
            self._coming[address] -= 1
            if not self._coming[address]:
                del self._coming[address]

    def _is_old(self, since: float) -> bool:
        return self._clock() - since > HOURS * 3600


def _counted(receive: Receive) -> Receive:
    """A `receive` that raises BodyRejected for too many bytes, and for a client that sends none for too long."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        try:
            async with asyncio.timeout(SILENCE):
                message = await receive()
        except TimeoutError as error:
            raise BodyRejected(408, SLOW) from error
        size += len(message.get("body", b""))
        if size > MOST_BYTES + OVERHEAD:
            raise BodyRejected(413, LARGE)
        return message

    return counted
