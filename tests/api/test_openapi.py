"""The OpenAPI document, and responses to requests generated from it."""

import re
from typing import Any

import httpx
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from api.app import create_api
from tests.api.conftest import Server


def test_every_operation_is_documented(client: httpx.Client) -> None:
    document = client.get("/v1/openapi.json").json()
    operations = {
        f"{method} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert len(operations) == len({operation["operationId"] for operation in operations.values()})
    tags = {tag["name"] for tag in document["tags"]}
    assert {tag for operation in operations.values() for tag in operation["tags"]} == tags
    for name, operation in operations.items():
        assert operation.get("summary"), name
        assert operation.get("description"), name
        if "health" not in name:
            assert {"400", "401", "429", "500", "503"} <= set(operation["responses"]), name
            assert "422" not in operation["responses"], name
        if "requestBody" in operation:
            assert {"408", "413", "415"} <= set(operation["responses"]), name


def test_document_names_the_path_of_a_proxy(client: httpx.Client, server: Server) -> None:
    assert client.get("/v1/openapi.json").json()["servers"] == [{"url": "/"}]
    with TestClient(create_api(server.app, lambda *_: True, root_path="/reprise")) as behind:
        assert behind.get("/v1/openapi.json").json()["servers"] == [{"url": "/reprise"}]


def test_properties_differ_in_more_than_signs(client: httpx.Client) -> None:
    """Generators of clients, such as openapi-python-client, leave out operations with two properties of one name."""
    for title, schema in client.get("/v1/openapi.json").json()["components"]["schemas"].items():
        names = [re.sub(r"\W", "", name) for name in schema.get("properties", {})]
        assert len(names) == len(set(names)), title


def test_document_says_which_operations_need_a_key(client: httpx.Client, server: Server) -> None:
    document = client.get("/v1/openapi.json").json()
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    with server.key():
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                needed = operation.get("security", document["security"])
                assert (needed == [{"key": []}]) == (client.request(method, path).status_code == 401), (method, path)


def test_generated_requests_get_documented_responses(server: Server) -> None:
    """No response to a generated request is a 5xx or undocumented."""
    import schemathesis  # takes a second, in each worker that collects this file
    from schemathesis import checks
    from schemathesis.core.result import Ok

    wanted = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    schema = schemathesis.openapi.from_url(f"{server.url}/v1/openapi.json")
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()

        @settings(max_examples=4, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(checks=wanted)

        check()
