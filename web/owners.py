"""Whose voices a request is about: the one place that knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.library import LOCAL

if TYPE_CHECKING:
    import gradio as gr


def owner_of(request: gr.Request | None) -> str:
    """The owner behind a request. Nobody logs in yet: whoever can open the page is the one local owner."""
    return LOCAL
