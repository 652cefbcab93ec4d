"""Our own components: `gr.HTML` with markup and scripts of `web/static`, which nothing serves as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr

from engine.errors import InvalidInput

STATIC = Path(__file__).parent / "static"
MAX_UPLOAD_MB = 50


def read(name: str) -> str:
    """A file of `web/static`."""
    return (STATIC / name).read_text("utf-8")


def player(sample_rate: int) -> gr.HTML:
    """Plays a take while it arrives. Its value: a message of `web.speaking`; events: `halt`, `abandon`."""
    worklet = json.dumps(read("take.js") + read("take_worklet.js"))
    script = f"const WORKLET_SOURCE = {worklet};\n" + read("take.js") + read("outputs.js") + read("player.js")
    return _component("player.html", script, "rp-player-block", rate=sample_rate)


def clip_input() -> gr.HTML:
    """Records a clip or takes a file. Its value goes through `uploaded_path`."""
    return _component("recorder.html", read("recorder.js"), "rp-clip-block", max_mb=MAX_UPLOAD_MB)


def courier() -> gr.HTML:
    """Hands the browser a file, `{"name": str, "data": base64}`, without writing it anywhere."""
    return _component(None, read("courier.js"), "rp-courier")


def _component(markup: str | None, script: str, elem_id: str, **props: Any) -> gr.HTML:
    return gr.HTML(
        value=None,
        html_template=read(markup) if markup else "",
        js_on_load=script,
        apply_default_css=False,
        elem_id=elem_id,
        **props,
    )


def uploaded_path(value: object, folder: str | Path) -> Path | None:
    """The file behind the value of `clip_input` or of an upload button, None when there is none.

    The value comes from the browser: only files among this page's uploads are accepted. Raises InvalidInput.
    """
    if not value:
        return None
    path = value.get("path") if isinstance(value, dict) else None
    if not isinstance(path, str) or "\0" in path:
        raise InvalidInput("That is not a file that was uploaded here.")
    resolved = Path(path).resolve()
    if not (resolved.is_relative_to(Path(folder).resolve()) and resolved.is_file()):
        raise InvalidInput("The file is no longer on the server. Choose it again.")
    return resolved
