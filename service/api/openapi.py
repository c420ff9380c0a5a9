"""OpenAPI 3.1 document, built from the routes and the operations of their views."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from flask import Flask
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from werkzeug.routing import Rule

import cbir
from cbir.client.messages import ProblemDetails
from service.access import scopes
from service.api import operations
from service.api.operations import FILE, Operation
from service.http import problem_kinds, problems

REFERENCE = "#/components/schemas/{model}"
METHODS = ("GET", "POST", "PATCH", "DELETE")
COMMON_PROBLEMS = (400, 401, 403, 421, 429, 500, 503)  # any endpoint may respond with these
HEADERS = {
    "Idempotency-Key": "1 to 255 printable characters; a repeated request is not executed again for 24 hours",
    "If-Match": "the ETag of the image as last seen; 412 if it has changed",
    "If-None-Match": "the ETag of the client's copy; 304 if it is still current",
}
STATUS_DESCRIPTIONS = {
    200: "Done.",
    201: "Added and on disk.",
    202: "Accepted.",
    204: "Done; no content.",
    304: "The client's copy is current.",
}
BINARY = {"type": "string", "contentMediaType": "application/octet-stream"}
PARAMETER = re.compile(r"<(?:[^:<>]+:)?([^:<>]+)>")


def build_openapi(app: Flask) -> dict[str, Any]:
    """Return the OpenAPI document of `app`."""
    endpoints = sorted(_operations(app), key=lambda item: (item[0].rule, METHODS.index(item[1])))
    models = {ProblemDetails}.union(*(_models(operation) for *_, operation in endpoints))
    ordered = sorted(models, key=lambda model: model.__name__)
    _, defined = models_json_schema([(model, "validation") for model in ordered], ref_template=REFERENCE)
    schemas = defined["$defs"]
    paths: dict[str, dict[str, Any]] = {}
    for rule, method, view, operation in endpoints:
        path = PARAMETER.sub(r"{\1}", rule.rule)
        paths.setdefault(path, {})[method.lower()] = _operation(rule, method, view, operation, schemas)
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "cbir",
            "version": cbir.__version__,
            "summary": "Retrieval of medical images by their pixels. Not a medical device.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": {str(int(status)): _problem(status) for status in sorted(problem_kinds.BY_STATUS)},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Created by `cbir token create`; without tokens: loopback only.",
                }
            },
        },
    }


def _operations(app: Flask) -> Iterator[tuple[Rule, str, Any, Operation]]:
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        operation = operations.operation_of(view)
        for method in METHODS:
            if operation and method in (rule.methods or ()):
                yield rule, method, view, operation


def _models(operation: Operation) -> Iterator[type[BaseModel]]:
    for model in (*operation.responses.values(), *operation.body.values(), operation.query, operation.form):
        if isinstance(model, type):
            yield model


def _operation(
    rule: Rule, method: str, view: Any, operation: Operation, schemas: dict[str, Any]
) -> dict[str, Any]:
    summary, _, more = inspect.cleandoc(view.__doc__).partition("\n\n")
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [rule.rule.split("/")[2] if rule.rule.startswith("/v1/") else "service"],
        "summary": " ".join(summary.split()),
    }
    if more:
        described["description"] = more
    entry = scopes.find_rule(method, rule.rule)
    if entry:
        described["x-scope"] = entry.need.value
        if entry.need is scopes.OpenTo.anyone:
            described["security"] = []
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in PARAMETER.findall(rule.rule)
    ]
    if operation.query:
        parameters += _query(schemas[operation.query.__name__])
    parameters += [
        {"name": name, "in": "header", "description": HEADERS[name], "schema": {"type": "string"}}
        for name in operation.headers
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.body or operation.form:
        described["requestBody"] = {"required": True, "content": _content(operation, schemas)}
    responses = {str(status): _response(status, model) for status, model in operation.responses.items()}
    failures = sorted({*COMMON_PROBLEMS, *operation.problems})
    described["responses"] = responses | {
        str(status): {"$ref": f"#/components/responses/{status}"} for status in failures
    }
    return described


def _query(schema: dict[str, Any]) -> list[dict[str, Any]]:
    required = schema.get("required", [])
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": {key: value for key, value in field.items() if key != "title"},
        }
        | ({"style": "form", "explode": False} if "prefixItems" in str(field) else {})
        for name, field in schema.get("properties", {}).items()
    ]


def _content(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for media, model in operation.body.items():
        content[media] = {"schema": BINARY if model == FILE else _reference(model)}
    if operation.form:
        fields = dict(schemas[operation.form.__name__].get("properties", {}))
        file = {"type": "array", "items": BINARY, "minItems": 1} if operation.several_files else BINARY
        schema = {"type": "object", "properties": {"image": file} | fields, "required": ["image"]}
        content["multipart/form-data"] = {"schema": schema | {"additionalProperties": False}}
    return content


def _response(status: int, model: type[BaseModel] | str | None) -> dict[str, Any]:
    response: dict[str, Any] = {"description": STATUS_DESCRIPTIONS[status]}
    if isinstance(model, str):
        response["content"] = {model: {} if "json" in model else {"schema": {"type": "string"}}}
    elif model:
        response["content"] = {"application/json": {"schema": _reference(model)}}
    return response


def _reference(model: Any) -> dict[str, str]:
    return {"$ref": REFERENCE.format(model=model.__name__)}


def _problem(status: int) -> dict[str, Any]:
    meanings = [kind.meaning for kind in problem_kinds.KINDS.values() if kind.status == status]
    content = {problems.MEDIA_TYPE: {"schema": _reference(ProblemDetails)}}
    answer: dict[str, Any] = {"description": " Or: ".join(meanings), "content": content}
    if status in problems.RETRYABLE:
        seconds = {"description": "seconds to wait", "schema": {"type": "integer"}}
        answer["headers"] = {"Retry-After": seconds}
    return answer


def docs_page_context(document: dict[str, Any]) -> dict[str, Any]:
    """Return what the page /docs shows of `document`: its operations by tag, and the schemas."""
    tags: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            row = {"path": path, "method": method.upper(), **entry}
            tags.setdefault(entry["tags"][0], []).append(row)
    return {"info": document["info"], "tags": tags, "schemas": document["components"]["schemas"]}
