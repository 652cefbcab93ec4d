"""Starting the page. Everything goes through Gradio's `launch`, as Hugging Face Spaces need it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gradio as gr

    from engine.engine import Engine
    from storage import VoiceLibrary


@contextmanager
def private_folder() -> Iterator[str]:
    """A folder of this process alone for uploads and finished takes; it goes when the process goes."""
    # Gradio reads it whenever it makes a page.
    folder = tempfile.mkdtemp(prefix="reprise-")
    before = os.environ.get("GRADIO_TEMP_DIR")
    os.environ["GRADIO_TEMP_DIR"] = folder
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if before is None:
            del os.environ["GRADIO_TEMP_DIR"]
        else:
            os.environ["GRADIO_TEMP_DIR"] = before


def launch(demo: gr.Blocks, **options: Any) -> Any:
    """Launches with our looks and our privacy: no run history, no monitoring, no API page, bounded uploads.

    `options` are `launch`'s own: server_name, server_port, share, prevent_thread_lock.
    """
    from web.components import MAX_UPLOAD_MB
    from web.page import looks

    return demo.launch(
        run_history=False,
        enable_monitoring=False,
        footer_links=[],
        max_file_size=f"{MAX_UPLOAD_MB}mb",
        show_error=False,
        pwa=False,
        **looks(),
        **options,
    )


def serve(engine: Engine, library: VoiceLibrary, **options: Any) -> None:
    """Serves the page until the process is told to stop. `options` as for `launch`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is private is cleared away
    with private_folder() as folder:
        from web.page import create_app

        launch(create_app(engine, library, folder), **options)
