"""`GET /v1/models`: the loaded model, under its own name and OpenAI's names."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from api.access import GUEST, caller_of
from api.context import OPENAI_MODELS, ApiContext, context_of
from api.errors import documented

router = APIRouter(tags=["models"])


class Model(BaseModel):
    """A model, in OpenAI's format."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelName(BaseModel):
    """A model, as in the lists of other servers."""

    id: str


class ModelList(BaseModel):
    """The models, in OpenAI's format (`data`) and that of other servers (`models`)."""

    object: Literal["list"] = "list"
    data: list[Model]
    models: list[ModelName]


@router.get("/v1/models", operation_id="list_models", responses=documented())
@router.get("/v1/audio/models", operation_id="list_audio_models", responses=documented())
async def list_models(request: Request) -> ModelList:
    """List the names of the loaded model; without a key, only OpenAI's."""
    context = context_of(request)
    names = OPENAI_MODELS if caller_of(request) == GUEST else (context.model, *OPENAI_MODELS)
    return ModelList(data=[_model(context, name) for name in names], models=[ModelName(id=name) for name in names])


@router.get("/v1/models/{model:name}", operation_id="retrieve_model", responses=documented(404))
async def retrieve_model(model: str, request: Request) -> Model:
    """Describe a model."""
    context = context_of(request)
    context.check_model(model)
    return _model(context, model)


def _model(context: ApiContext, name: str) -> Model:
    return Model(id=name, created=context.started, owned_by="reprise")
