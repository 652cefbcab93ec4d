"""Gradio's page, without what it does with values before our events get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

if TYPE_CHECKING:
    from gradio.block_function import BlockFunction
    from gradio.state_holder import SessionState


class Page(gr.Blocks):
    """Blocks whose events get their inputs as the browser sent them, and parse them themselves (`web.ui.events`).

    Gradio would copy, or fetch from elsewhere, every file that a value names, and keep each input of each session.
    """

    async def preprocess_data(
        self,
        block_fn: BlockFunction,
        inputs: list[Any],
        state: SessionState | None,
        explicit_call: bool = False,
    ) -> list[Any]:
        """The inputs as they are; their number was checked before (`web.http.bodies`)."""
        return list(inputs)
