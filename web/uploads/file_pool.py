"""Threads for handlers that read an uploaded file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr
from anyio.to_thread import run_sync

from web.identity.addresses import client_address
from web.limits.worker_pool import WorkerPool
from web.uploads.files import discard_upload

T = TypeVar("T")
THREADS, CAPACITY, PER_ADDRESS = 2, 16, 2  # files being read; with those that wait; of one address


class FilePool:
    """A pool for one handler on the event loop, so that files never occupy the handlers' threads."""

    def __init__(self, folder: str | Path) -> None:
        """folder: the upload folder."""
        self._folder = folder
        self._pool = WorkerPool(THREADS, CAPACITY, PER_ADDRESS)

    async def run(self, request: gr.Request, upload: Any, work: Callable[[], T]) -> T:
        """Run a job on a thread, delete the upload that it reads, and return its result.

        upload: an untrusted value, as for `discard_upload`. Raises PoolFull, or the job's error.
        """
        try:
            return await self._pool.run(client_address(request), work)
        finally:
            await run_sync(discard_upload, upload, self._folder)
