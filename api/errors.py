"""Errors in OpenAI's format: `{"error": {"message", "type", "param", "code"}}`, with the error tree's messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.params import Body
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from engine.errors import EngineBusy, EngineClosed, InvalidInput, RepriseError
from storage.errors import ConsentNotFound, DatabaseUnavailable, NameTaken, OwnerDeleted, VoiceNotFound, VoiceProtected
from studio.access import KeyRefused, LimitReached
from studio.user_messages import user_message


class ModelNotFound(InvalidInput):
    """The `model` of a request is not a name of the loaded model."""


class ServerBusy(RepriseError):
    """Too many jobs of one kind are running and waiting, of all callers or of this one."""

    def __init__(self) -> None:
        super().__init__("The server is busy with other requests of this kind: try again in a moment.")


# The status, type and code of each kind of error; the first match applies.
_KINDS: tuple[tuple[type[RepriseError], int, str, str | None], ...] = (
    (KeyRefused, 401, "invalid_request_error", "invalid_api_key"),
    (VoiceNotFound, 404, "invalid_request_error", "voice_not_found"),
    (ConsentNotFound, 404, "invalid_request_error", "consent_not_found"),
    (VoiceProtected, 403, "invalid_request_error", "voice_protected"),
    (NameTaken, 409, "invalid_request_error", "name_taken"),
    (OwnerDeleted, 409, "invalid_request_error", "owner_deleted"),
    (ModelNotFound, 404, "invalid_request_error", "model_not_found"),
    (InvalidInput, 400, "invalid_request_error", None),
    (EngineBusy, 503, "server_error", "engine_busy"),
    (ServerBusy, 503, "server_error", "server_busy"),
    (EngineClosed, 503, "server_error", "no_model"),
    (DatabaseUnavailable, 503, "server_error", "library_unavailable"),
)
CLIENT_GONE = 499  # never sent
NOT_JSON = "The body is not JSON."
_UNREADABLE_BODY = "There was an error parsing the body"  # FastAPI's words, for JSON that is not UTF-8 among others
_NO_ROUTE = "Not Found"  # Starlette's words
_NOT_AN_OBJECT = ("model_type", "model_attributes_type", "dict_type")  # pydantic's, which name its classes
_BUSY_SECONDS = 1  # until a client may try again


class ErrorDetail(BaseModel):
    """An error: a message for people, and codes for programs."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every error."""

    error: ErrorDetail


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return an operation's error responses for the OpenAPI document: these statuses and those common to all."""
    return {status: {"model": ErrorBody} for status in sorted({*statuses, 400, 401, 429, 500, 503})}


def without_validation_errors(document: dict[str, Any]) -> dict[str, Any]:
    """Remove FastAPI's status 422 from an OpenAPI document: an invalid body gives 400 here."""
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    return document


def error_response(status: int, detail: ErrorDetail, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a response with one error."""
    return JSONResponse(ErrorBody(error=detail).model_dump(), status, {"Cache-Control": "no-store", **(headers or {})})


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response to a request that is refused at the HTTP level."""
    return error_response(status, ErrorDetail(message=message, type="invalid_request_error"), headers)


def response_to(error: Exception) -> JSONResponse:
    """Return the response to an error. Errors outside the error tree are logged."""
    status, _, _ = _kind(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if isinstance(error, LimitReached):
        if error.wait is not None:
            headers["Retry-After"] = str(math.ceil(error.wait))
    elif status == 503:
        headers["Retry-After"] = str(_BUSY_SECONDS)
    return error_response(status, detail_of(error), headers)


def detail_of(error: Exception) -> ErrorDetail:
    """Return the description of an error for a response, including one that has already started."""
    _, kind, code = _kind(error)
    param = "model" if isinstance(error, ModelNotFound) else None
    return ErrorDetail(message=str(user_message(error)), type=kind, param=param, code=code)


def _kind(error: Exception) -> tuple[int, str, str | None]:
    """Return the status, type and code of an error."""
    if isinstance(error, LimitReached):
        quota = (429, "insufficient_quota", "insufficient_quota")
        return quota if error.quota else (429, "requests", "rate_limit_exceeded")
    found = ((status, kind, code) for each, status, kind, code in _KINDS if isinstance(error, each))
    return next(found, (500, "server_error", None))


def install(app: FastAPI, routers: Iterable[APIRouter] = ()) -> None:
    """Make an application respond to all errors in this format. routers: those that it includes."""
    included = [route for router in routers for route in router.routes]

    async def on_error(_request: Request, error: Exception) -> JSONResponse:
        return response_to(error)

    async def on_invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        expected, sent = _body_type(request.scope.get("route")), content_type(request)
        if expected and expected != sent and not sent.endswith("+json"):
            return refusal(415, f"Send the request as {expected}.")
        return error_response(400, invalid_detail(error.errors()))

    async def on_http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        if error.detail == _UNREADABLE_BODY and content_type(request).endswith("json"):
            return refusal(400, NOT_JSON)
        message, path = str(error.detail), request.url.path[:200]
        if error.status_code == 405:
            allowed = _allowed_methods([*app.routes, *included], request.scope)
            headers["Allow"] = ", ".join(allowed)
            message = f"“{request.method[:20]}” is not possible at {path}; use {' or '.join(allowed)}."
        elif message == _NO_ROUTE:
            message = f"There is no operation at {path}; {app.openapi_url} lists those that there are."
        return refusal(error.status_code, message, headers)

    async def on_gone(_request: Request, _error: Exception) -> Response:
        return Response(status_code=CLIENT_GONE)

    app.add_exception_handler(ClientDisconnect, on_gone)
    app.add_exception_handler(RepriseError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(Exception, on_error)


def _allowed_methods(routes: Iterable[BaseRoute], scope: Scope) -> list[str]:
    """Return the methods of all routes with the request's path; Starlette tells only those of the first."""
    matching = (route for route in routes if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE)
    return sorted({method for route in matching for method in route.methods or ()})


def _body_type(route: object) -> str | None:
    """Return the content type of a route's body; None if it has none, or reads its body itself."""
    body = route.body_field if isinstance(route, APIRoute) else None
    return body.field_info.media_type if body is not None and isinstance(body.field_info, Body) else None


def content_type(request: HTTPConnection) -> str:
    """Return the content type of a request's body without parameters; "" if there is none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def invalid_detail(errors: Any) -> ErrorDetail:
    """Describe why a body is invalid. errors: from pydantic."""
    first = errors[0]
    if first["type"] == "json_invalid":  # its place is an offset
        return ErrorDetail(message=NOT_JSON, type="invalid_request_error")
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    why = first["msg"].removeprefix("Value error, ")
    if why.startswith("Expected UploadFile"):  # FastAPI's words
        why = "send it as an uploaded file"
    elif first["type"] in _NOT_AN_OBJECT:
        why = "Input should be an object"
    message = f"{place or 'The request'}: {why}."
    return ErrorDetail(message=message, type="invalid_request_error", param=place or None)
