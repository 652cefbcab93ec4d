"""Undocumented names of Gradio that its endpoints use."""

from contextvars import ContextVar

import gradio as gr
from gradio.context import LocalContext
from gradio.events import api
from gradio.routes import App
from starlette.applications import Starlette


def double(number: int, request: gr.Request) -> int:
    return 2 * number


def test_undocumented_names_of_gradio_exist() -> None:
    """Without them, `create_endpoints` has no functions, no application, or no calls that can be cancelled."""
    with gr.Blocks(analytics_enabled=False) as blocks:
        api(double, api_name="double", concurrency_limit=None)
    (function,) = blocks.fns.values()
    assert (function.api_name, len(function.inputs)) == ("double", 1), "one endpoint, with the inputs of its signature"
    blocks.queue(max_size=1)
    assert isinstance(App.create_app(blocks), Starlette), "an application for a server of one's own"
    blocks.run_startup_events()
    assert isinstance(LocalContext.event_id, ContextVar)
    assert LocalContext.event_id.get(None) is None, "the id that a cancellation names, set during a call"
