"""Work on uploaded files."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.looping import run
from web.limits.budgets import PoolFull
from web.limits.worker_pool import WorkerPool
from web.uploads.file_pool import FilePool
from web.uploads.store import UploadStore

REQUEST = cast(Any, SimpleNamespace(client=SimpleNamespace(host="192.0.2.1")))


def test_file_is_deleted_whether_its_job_succeeds_fails_or_is_refused(tmp_path: Path) -> None:
    def stored() -> dict[str, str]:
        return {"path": str(UploadStore(tmp_path).keep(io.BytesIO(b"Hello."), "a.txt", "192.0.2.1"))}

    async def main() -> None:
        pool, upload = FilePool(tmp_path), stored()
        assert await pool.run(REQUEST, None, lambda: "No file.") == "No file."
        assert await pool.run(REQUEST, upload, Path(upload["path"]).read_text) == "Hello."
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(ZeroDivisionError):
            await pool.run(REQUEST, stored(), lambda: 1 / 0)
        assert list(tmp_path.iterdir()) == []
        pool._pool = WorkerPool(1, 0, 1)
        with pytest.raises(PoolFull):
            await pool.run(REQUEST, stored(), lambda: None)
        assert list(tmp_path.iterdir()) == []

    run(main)
