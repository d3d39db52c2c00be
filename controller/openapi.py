"""The REST interface as OpenAPI 3.1 describes it, made of `controller.northbound.OPERATIONS` and the types of the bodies.

docs/openapi.json is this, written by `python -m echelon.documents`; a controller answers it at /openapi.json.
"""

from __future__ import annotations

from typing import Any

import msgspec

from controller.metrics import CONTENT_TYPE
from controller.northbound import ERRORS, EVERY_REQUEST, JSON, OPERATIONS, Operation
from echelonflow.wire.rest import Refusal

_REFERENCE = "#/components/schemas/{name}"
_BEARER = "token"


def description() -> dict[str, Any]:
    """The whole interface. Over TCP every request shows a token; over the Unix socket none is needed."""
    types = [kind for _, _, operation in _operations() for kind in (operation.answer, operation.body) if kind]
    schemas, components = msgspec.json.schema_components([*types, Refusal], ref_template=_REFERENCE)
    schema_of = dict(zip(map(str, [*types, Refusal]), schemas, strict=True))
    paths: dict[str, Any] = {}
    for path, method, operation in _operations():
        paths.setdefault(path, {})[method.lower()] = _described(path, method, operation, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Echelon controller",
            "version": "1",
            "description": "What the controller is doing, and which policy it follows. docs/northbound.md says who may ask.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8080", "description": "where --rest-listen says"}],
        "security": [{_BEARER: []}],
        "paths": paths,
        "components": {
            "securitySchemes": {_BEARER: {"type": "http", "scheme": "bearer"}},
            "schemas": dict(sorted(components.items())),
        },
    }


def _operations() -> list[tuple[str, str, Operation]]:
    return [(path, method, found) for path, methods in OPERATIONS.items() for method, found in methods.items()]


def _described(path: str, method: str, operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {CONTENT_TYPE.partition(";")[0]: {"schema": {"type": "string"}}}
    if operation.answer is not None:
        content = {JSON: {"schema": schema_of[str(operation.answer)]}}
    refusal = {JSON: {"schema": schema_of[str(Refusal)]}}
    responses: dict[str, Any] = {"200": {"description": operation.summary, "content": content}}
    for code in sorted((*EVERY_REQUEST, *operation.errors)):
        responses[str(code)] = {"description": ERRORS[code], "content": refusal}
    responses["401"]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    described: dict[str, Any] = {
        "operationId": f"{method.lower()}_{path.strip('/').replace('.', '_')}",
        "summary": operation.summary,
        "responses": responses,
    }
    if operation.body is not None:
        body = {"schema": schema_of[str(operation.body)], "example": {"policy": "coflow(grouping=group)"}}
        described["requestBody"] = {"required": True, "content": {JSON: body}}
    return described
