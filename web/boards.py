"""Lists that the page draws from plain values: the history, and what the server is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradio as gr

from web.components import read

if TYPE_CHECKING:
    from web.translations import Translations


def history_list(translations: Translations) -> gr.HTML:
    """What was spoken. Its value: as `web.events.history` makes it; events: `star`, `withdraw`, `again`, each with an
    id, and `more`, `refresh`."""
    return _board("history", translations, "history_rows.js", "history.js")


def status_board(translations: Translations) -> gr.HTML:
    """What the server is doing. Its value: as `web.events.status` makes it; event: `look`, while it is seen."""
    return _board("status", translations, "status_rows.js", "status.js")


def _board(name: str, translations: Translations, *scripts: str) -> gr.HTML:
    return gr.HTML(
        value=None,
        html_template=read(f"{name}.html"),
        js_on_load=translations.script(name) + read("words.js", *scripts),
        apply_default_css=False,
        elem_id=f"rp-{name}",
    )
