"""The upload route, replacing Gradio's own. Uploads are limited both while they arrive and while they are stored.

An aborted upload leaves no file: only complete files are stored. A page deletes its uploads when it is closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive

from engine.messages import UserMessage
from storage import durable_files
from web.gradio_internals import is_admitted
from web.http.request_body import BodyRejected, Disconnected, read_body
from web.http.responses import error_response
from web.identity.addresses import client_address
from web.ui.i18n import Translations
from web.uploads.files import MAX_UPLOAD_MB, discard_upload
from web.uploads.store import NO_ROOM, UploadStore

UPLOAD_PATH = "/gradio_api/upload"
MAX_BYTES = MAX_UPLOAD_MB << 20  # per request
OVERHEAD = 64 << 10  # bytes of a request besides its files
MAX_FILES = 8  # per request
SILENCE = 30.0  # seconds without a byte
SLOWEST, LAG = 10_000, 60.0  # bytes per second; seconds that an upload may lag behind that rate
AT_ONCE, AT_ONCE_OF_ONE = 12, 3  # concurrent uploads: in all, per address
MAX_DISCARDED = 100  # files per DELETE request

LARGE = UserMessage("upload.large", {"mb": MAX_UPLOAD_MB})
BUSY = UserMessage("upload.busy")
NO_FILE = UserMessage("upload.no_file")
STRANGER = UserMessage("owner.logged_out")
SLOW = UserMessage("upload.slow")
NO_PATHS = "The request does not name the files to delete."


_Paths = TypeAdapter(Annotated[list[str], Field(max_length=MAX_DISCARDED)])


class _Refused(Exception):
    """Raised for an upload beyond the limits. status: HTTP status of the response."""

    def __init__(self, status: int, message: UserMessage) -> None:
        super().__init__(status, message)
        self.status, self.message = status, message


class UploadEndpoint:
    """Accepts uploads, and deletes those that a page no longer needs."""

    def __init__(
        self,
        folder: Path,
        translations: Translations,
        *,
        admitted: Callable[[Request], bool] = is_admitted,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """folder: the upload folder. translations: of the answers. admitted: whether a visitor may upload.

        clock: in the file system's time.
        """
        self._folder, self._translations, self._admitted = folder, translations, admitted
        self._store = UploadStore(folder, clock=clock)
        self._coming: dict[str, list[int]] = {}  # bytes of the uploads under way, by address

    def routes(self) -> list[Route]:
        """Return the routes for `web.launch.launch`."""
        return [
            Route(UPLOAD_PATH, self._answer, methods=["POST"]),
            Route(UPLOAD_PATH, self._discard, methods=["DELETE"]),
        ]

    def expire(self) -> None:
        """Delete files that have been unused for hours. Call it periodically."""
        self._store.expire()

    async def _discard(self, request: Request) -> Response:
        """Delete the files at the paths that a page sends. Only that page knows its paths."""
        if not self._admitted(request):
            return self._refusal(401, STRANGER, request)
        try:
            paths = _Paths.validate_json(await read_body(request.headers, request.receive), strict=True)
        except BodyRejected as error:
            return error_response(error.status, str(error), request.headers, {"Connection": "close"})
        except Disconnected:
            return Response(status_code=400)
        except ValidationError:
            return error_response(400, NO_PATHS, request.headers)
        for path in paths:
            await asyncio.to_thread(discard_upload, {"path": path}, self._folder)
        return Response(status_code=204)

    async def _answer(self, request: Request) -> Response:
        headers, address = request.headers, client_address(request)
        if not self._admitted(request):
            return self._refusal(401, STRANGER, request)
        if not headers.get("content-type", "").startswith("multipart/form-data"):
            return self._refusal(415, NO_FILE, request)
        declared = headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > MAX_BYTES + OVERHEAD:
            return self._refusal(413, LARGE, request)
        size = int(declared) or MAX_BYTES + OVERHEAD
        if not self._try_begin(address, size):
            return self._refusal(429, BUSY, request, {"Retry-After": "2"})
        try:
            if message := await asyncio.to_thread(self._store.refusal, address, *self._bytes_coming(address)):
                return self._refusal(429, message, request, {"Retry-After": "60"})
            return JSONResponse(await self._receive(request, address))
        except _Refused as error:
            return self._refusal(error.status, error.message, request, {"Connection": "close"})
        except (HTTPException, MultiPartException):
            return self._refusal(400, NO_FILE, request)
        except ClientDisconnect:
            return Response(status_code=400)
        finally:
            self._over(address, size)

    def _refusal(
        self, status: int, message: UserMessage, request: Request, more: Mapping[str, str] | None = None
    ) -> Response:
        texts = self._translations.texts_for(request.headers.get("accept-language", ""))
        return error_response(status, texts.write(message), request.headers, more)

    async def _receive(self, request: Request, address: str) -> list[str]:
        counted = Request(request.scope, _counted(request.receive))
        try:
            async with counted.form(max_files=MAX_FILES, max_fields=4, max_part_size=1_000) as form:
                files = [file for file in form.getlist("files") if isinstance(file, UploadFile)]
                if not files:
                    raise _Refused(400, NO_FILE)
                return [
                    str(await asyncio.to_thread(self._store.keep, file.file, file.filename or "file", address))
                    for file in files
                ]
        except OSError as error:
            if durable_files.is_full(error):
                raise _Refused(507, NO_ROOM) from error
            raise

    def _try_begin(self, address: str, size: int) -> bool:
        if sum(map(len, self._coming.values())) >= AT_ONCE or len(self._coming.get(address, ())) >= AT_ONCE_OF_ONE:
            return False
        self._coming.setdefault(address, []).append(size)
        return True

    def _bytes_coming(self, address: str) -> tuple[int, int]:
        return sum(self._coming[address]), sum(map(sum, self._coming.values()))

    def _over(self, address: str, size: int) -> None:
        self._coming[address].remove(size)
        if not self._coming[address]:
            del self._coming[address]


def _counted(receive: Receive) -> Receive:
    """Wrap `receive` to raise _Refused for too many bytes, or when the client stalls or sends too slowly."""
    clock, size = asyncio.get_running_loop().time, 0
    first_due = clock() + LAG

    async def counted() -> Message:
        nonlocal size
        try:
            async with asyncio.timeout_at(min(clock() + SILENCE, first_due + size / SLOWEST)):
                message = await receive()
        except TimeoutError as error:
            raise _Refused(408, SLOW) from error
        size += len(message.get("body", b""))
        if size > MAX_BYTES + OVERHEAD:
            raise _Refused(413, LARGE)
        return message

    return counted
