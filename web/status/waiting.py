"""Who waits in the page's own queue to speak; the engine knows only those that the page let through."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gradio as gr

SPEECH = "speech"  # the queue's name, as the Speak tab has it


def waiting(demo: gr.Blocks) -> list[str]:
    """The sessions whose takes wait, in order. They tell pages apart, and are to be told to nobody."""
    queue = demo._queue.event_queue_per_concurrency_id.get(SPEECH)  # Gradio shows it to its own pages alone
    return [] if queue is None else [str(event.session_hash) for event in list(queue.queue)]
