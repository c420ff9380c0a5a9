"""OpenAPI 3.1 from the routes and the operations beside their views."""

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
from service.http import problem_kinds
from service.http import problems
from service.api import operations
from service.access import scopes
from service.api.operations import FILE, Operation

REFERENCE = "#/components/schemas/{model}"
METHODS = ("GET", "POST", "PATCH", "DELETE")
ALWAYS = (400, 401, 403, 421, 429, 500, 503)  # any address may answer these
HEADERS = {
    "Idempotency-Key": "1 to 255 printable characters; the same request sent again is not done again, for 24 hours",
    "If-Match": "the ETag of the image as it was last seen; 412 where it has changed",
    "If-None-Match": "the ETag of what the client has; 304 where it is still the same",
}
WHAT_FOR = {
    200: "Done.",
    201: "Added, and on the disk.",
    202: "Taken on.",
    204: "Done; there is nothing to say.",
    304: "What the client has is still the same.",
}
BINARY = {"type": "string", "contentMediaType": "application/octet-stream"}
PARAMETER = re.compile(r"<(?:[^:>]+:)?([^>]+)>")


def describe(app: Flask) -> dict[str, Any]:
    """The OpenAPI document of an app."""
    found = sorted(_operations(app), key=lambda one: (one[0].rule, METHODS.index(one[1])))
    models: set[type[BaseModel]] = {ProblemDetails}
    for _, _, _, one in found:
        models.update(_models(one))
    ordered = sorted(models, key=lambda model: model.__name__)
    _, defined = models_json_schema([(model, "validation") for model in ordered], ref_template=REFERENCE)
    schemas = defined["$defs"]
    paths: dict[str, dict[str, Any]] = {}
    for rule, method, view, one in found:
        path = PARAMETER.sub(r"{\1}", rule.rule)
        paths.setdefault(path, {})[method.lower()] = _operation(rule, method, view, one, schemas)
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
                    "description": "Made by `cbir token create`; without tokens the service answers its own machine.",
                }
            },
        },
    }


def _operations(app: Flask) -> Iterator[tuple[Rule, str, Any, Operation]]:
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        one = operations.of(view)
        for method in METHODS:
            if one and method in (rule.methods or ()):
                yield rule, method, view, one


def _models(one: Operation) -> Iterator[type[BaseModel]]:
    for found in (*one.answers.values(), *one.body.values(), one.query, one.form):
        if isinstance(found, type):
            yield found


def _operation(rule: Rule, method: str, view: Any, one: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    summary, _, more = inspect.cleandoc(view.__doc__).partition("\n\n")
    described: dict[str, Any] = {
        "operationId": one.name,
        "tags": [rule.rule.split("/")[2] if rule.rule.startswith("/v1/") else "service"],
        "summary": " ".join(summary.split()),
    }
    if more:
        described["description"] = more
    entry = scopes.find_rule(method, rule.rule)
    if entry:
        need = getattr(entry.need, "value", str(entry.need))
        described["x-scope"] = str(need)
        if entry.need is scopes.OpenTo.anyone:
            described["security"] = []
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in PARAMETER.findall(rule.rule)
    ]
    if one.query:
        parameters += _query(schemas[one.query.__name__])
    parameters += [
        {"name": name, "in": "header", "description": HEADERS[name], "schema": {"type": "string"}}
        for name in one.headers
    ]
    if parameters:
        described["parameters"] = parameters
    if one.body or one.form:
        described["requestBody"] = {"required": True, "content": _content(one, schemas)}
    answers = {str(status): _answer(status, model) for status, model in one.answers.items()}
    failures = sorted({*ALWAYS, *one.problems})
    described["responses"] = answers | {
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
            "schema": {key: value for key, value in of.items() if key != "title"},
        }
        | ({"style": "form", "explode": False} if "prefixItems" in str(of) else {})
        for name, of in schema.get("properties", {}).items()
    ]


def _content(one: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for media, model in one.body.items():
        content[media] = {"schema": BINARY if model == FILE else _reference(model)}
    if one.form:
        fields = dict(schemas[one.form.__name__].get("properties", {}))
        file = {"type": "array", "items": BINARY, "minItems": 1} if one.several_files else BINARY
        schema = {"type": "object", "properties": {"image": file} | fields, "required": ["image"]}
        content["multipart/form-data"] = {"schema": schema | {"additionalProperties": False}}
    return content


def _answer(status: int, model: type[BaseModel] | str | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": WHAT_FOR[status]}
    if isinstance(model, str):
        answer["content"] = {model: {} if "json" in model else {"schema": {"type": "string"}}}
    elif model:
        answer["content"] = {"application/json": {"schema": _reference(model)}}
    return answer


def _reference(model: Any) -> dict[str, str]:
    return {"$ref": REFERENCE.format(model=model.__name__)}


def _problem(status: int) -> dict[str, Any]:
    meanings = [kind.meaning for kind in problem_kinds.KINDS.values() if kind.status == status]
    content = {problems.MEDIA_TYPE: {"schema": _reference(ProblemDetails)}}
    answer: dict[str, Any] = {"description": " Or: ".join(meanings), "content": content}
    if status in problems.TO_REPEAT:
        seconds = {"description": "seconds to wait", "schema": {"type": "integer"}}
        answer["headers"] = {"Retry-After": seconds}
    return answer


def for_reading(document: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of a document: operations by tag, and schemas."""
    tags: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            tags.setdefault(one["tags"][0], []).append({"path": path, "method": method.upper(), **one})
    return {"info": document["info"], "tags": tags, "schemas": document["components"]["schemas"]}
