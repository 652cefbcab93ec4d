"""`/health/live`, `/health/ready` and `/metrics`, for operators of the server."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from api.context import ApiContext, context_of
from api.errors import ErrorBody, documented

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The server's state."""

    status: Literal["ok"] = "ok"


@router.get("/health/live", operation_id="live")
async def live() -> Health:
    """Report that the process responds."""
    return Health()


@router.get("/health", operation_id="health", responses={503: {"model": ErrorBody}})
@router.get("/health/ready", operation_id="ready", responses={503: {"model": ErrorBody}})
async def ready(request: Request) -> Health:
    """Report whether a model is loaded and running, and the library can be read. A full queue does not matter.

    A model that was unloaded because it was idle counts as loaded.
    """
    await run_in_threadpool(_check, context_of(request))
    return Health()


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **documented(),
    },
)
async def metrics(request: Request) -> Response:
    """Return counts and the engine's state in Prometheus' text format."""
    return Response(await run_in_threadpool(context_of(request).metrics.text), media_type=CONTENT_TYPE_LATEST)


def _check(context: ApiContext) -> None:
    """Raise EngineBusy during a change of the model, EngineClosed without a running one, or DatabaseUnavailable."""
    context.app.engine.check_loaded()
    context.app.storage.check()
