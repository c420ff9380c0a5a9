"""OpenAPI 3.1 document, built from the routes and the operations of their views, and the pages that show it."""

import inspect
import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Flask, Response, current_app, render_template
from markupsafe import Markup, escape
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from werkzeug.routing import Rule

import cbir
from service.access import scopes
from service.access.scopes import AccessRule
from service.client.collection_messages import COLLECTION_RULE
from service.client.messages import ProblemDetails
from service.http import operations, problems
from service.http.collection_paths import PARAMETER, is_of_collection, names_collection, older_addresses
from service.http.operations import FILE, Operation
from service.routes import openapi_schemas
from service.routes.openapi_schemas import (
    REFERENCE,
    Schemas,
    add_examples,
    compose_example,
    keep_for_older_addresses,
    leave_out_defaults,
    rename_references,
    split_by_kind,
    without_field,
    without_null,
)

blueprint = Blueprint("docs", __name__)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
OWN_TAGS = ("dicomweb", "annotate")  # first segments of paths that are tags
SEPARATE_DOCUMENT = (
    "cbir-separate-document"  # key in app.extensions: beginning of addresses that it describes
)
COMMON_PROBLEMS = (400, 401, 403, 408, 414, 421, 429, 431, 500, 503)  # any endpoint may respond with these
BODY_PROBLEMS = (413, 415)
QIDO_PREFIX = "/dicomweb/"  # its answers to wrong parameters are 400 (PS3.18, 8.5)
STATUS_DESCRIPTIONS = {
    200: "Done.",
    201: "Added and on disk.",
    202: "Accepted.",
    204: "Done; no content.",
    304: "The client's copy is current.",
    409: "Nothing is stored, for the reasons in the answer.",
}
# generators of clients know a file by OpenAPI 3.0's format alone
BINARY = {"type": "string", "format": "binary", "contentMediaType": "application/octet-stream"}
CODE = re.compile(r"`([^`]+)`")
IMAGE_FILE = BINARY | {
    "description": "Image file: DICOM, PNG, JPEG, TIFF or another format that OpenCV reads. Its name is not used.",
    "examples": ["(content of query.png)"],
}
SEVERAL_FILES = {
    "type": "array",
    "items": BINARY,
    "minItems": 1,
    "description": "Image files, each in a field of its own: DICOM, PNG, JPEG, TIFF or another format that OpenCV "
    "reads. Their names are not used.",
    "examples": [["(content of query.png)"]],
}


def build_openapi(app: Flask) -> dict[str, Any]:
    """Return the OpenAPI document of `app`."""
    endpoints = sorted(_operations(app), key=lambda item: (item[0].rule, METHODS.index(item[1])))
    models = {ProblemDetails}.union(*(_models(operation) for *_, operation in endpoints))
    ordered = sorted(models, key=lambda model: model.__name__)
    _, defined = models_json_schema([(model, "validation") for model in ordered], ref_template=REFERENCE)
    schemas = defined["$defs"]
    add_examples(schemas)
    leave_out_defaults(schemas, [model.__name__ for *_, each in endpoints for model in each.body_models])
    bodies = (model for *_, each in endpoints for model in each.body.values() if is_of_collection(each))
    older_bodies = keep_for_older_addresses(
        schemas, [model.__name__ for model in bodies if isinstance(model, type)], PARAMETER
    )
    for model in models:
        split_by_kind(schemas, model.__name__, getattr(model, "kinds", ()))
    older = older_addresses(app)
    paths: dict[str, dict[str, Any]] = {}
    for rule, method, view, operation in endpoints:
        path = openapi_schemas.path_of(rule)
        entry = scopes.rule_of_address(app, method, rule.rule)
        described = _operation(rule, entry, view, operation, schemas)
        if rule.rule in older:
            described["tags"] = [_tag(older[rule.rule])]
        elif rule.rule in older.values():
            _mark_older(described, rule, older_bodies)
        paths.setdefault(path, {})[method.lower()] = described
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
            "responses": {str(int(status)): _problem(status) for status in sorted(problems.BY_STATUS)},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Created by `cbir admin token create`; without tokens: loopback only.",
                }
            },
        },
    }


def _mark_older(described: dict[str, Any], rule: Rule, older_bodies: dict[str, str]) -> None:
    """Give the description of an older address a name of its own, its bodies, and the mark of deprecation."""
    for media in described.get("requestBody", {}).get("content", {}).values():
        rename_references(media["schema"], older_bodies)
    if rule.rule.startswith(QIDO_PREFIX):  # where clients of DICOMweb look
        described["operationId"] += "_of_default"
    else:
        described["operationId"] = f"deprecated_{described['operationId']}"
        described["deprecated"] = True


def _operations(app: Flask) -> Iterator[tuple[Rule, str, Any, Operation]]:
    separate = app.extensions.get(SEPARATE_DOCUMENT)
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        operation = operations.operation_of(view)
        if operation is None or (separate and rule.rule.startswith(separate)):
            continue
        for method in METHODS:
            if method in (rule.methods or ()) and scopes.rule_of_address(app, method, rule.rule):
                yield rule, method, view, operation


def _models(operation: Operation) -> list[type[BaseModel]]:
    others = (*operation.responses.values(), operation.query)
    return [*operation.body_models, *(model for model in others if isinstance(model, type))]


def _operation(
    rule: Rule, entry: AccessRule | None, view: Any, operation: Operation, schemas: Schemas
) -> dict[str, Any]:
    summary, _, more = inspect.cleandoc(view.__doc__).partition("\n\n")
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [_tag(rule.rule)],
        "summary": " ".join(summary.split()),
    }
    if more:
        described["description"] = more
    if entry:
        described["x-scope"] = entry.need.value
        if entry.need is scopes.OpenTo.anyone:
            described["security"] = []
    if operation.confirm:
        described["x-confirm"] = operation.confirm
    if operation.python:
        described["x-codeSamples"] = [{"lang": "Python", "source": operation.python}]
    parameters = openapi_schemas.parameters_in_path(rule, view)
    in_address = PARAMETER if rule.rule.startswith(COLLECTION_RULE) else ""
    if operation.query:
        parameters += openapi_schemas.parameters_in_query(
            without_field(schemas[operation.query.__name__], in_address),
            also_in_body=bool(operation.body or operation.form),
        )
    parameters += openapi_schemas.parameters_in_headers(operation.headers)
    if parameters:
        described["parameters"] = parameters
    if operation.body or operation.form:
        described["requestBody"] = {"required": True, "content": _content(operation, schemas, in_address)}
    responses = {
        str(status): _response(model, operation.examples.get(status), schemas)
        | {"description": STATUS_DESCRIPTIONS[status]}
        for status, model in operation.responses.items()
    }
    for media in operation.other_media:
        responses["200"]["content"] |= _response(media, None, schemas)["content"]
    failures = sorted({*COMMON_PROBLEMS, *operation.problems, *_implied_problems(rule, operation)})
    described["responses"] = responses | {
        str(status): {"$ref": f"#/components/responses/{status}"} for status in failures
    }
    return described


def _implied_problems(rule: Rule, operation: Operation) -> Iterator[int]:
    """Yield the statuses that follow from parameters and bodies, which no view needs to declare."""
    if operation.query and not rule.rule.startswith(QIDO_PREFIX):
        yield HTTPStatus.UNPROCESSABLE_ENTITY
    if operation.body or operation.form:
        yield from BODY_PROBLEMS
    if rule.arguments or names_collection(operation):
        yield HTTPStatus.NOT_FOUND
    if operation.confirm:  # it writes to a collection or the state
        yield HTTPStatus.INSUFFICIENT_STORAGE


def _tag(path: str) -> str:
    first, *others = path.strip("/").split("/")
    return others[0] if first == "v1" else first if first in OWN_TAGS else "service"


def _content(operation: Operation, schemas: Schemas, in_address: str) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.form:
        form = without_field(schemas[operation.form.__name__], in_address)
        fields = {name: without_null(field) for name, field in form.get("properties", {}).items()}
        schema = {
            "type": "object",
            "properties": {"image": SEVERAL_FILES if operation.several_files else IMAGE_FILE} | fields,
            "required": ["image", *form.get("required", [])],
            "additionalProperties": False,
        }
        content["multipart/form-data"] = {"schema": schema}
    for media, model in operation.body.items():
        content[media] = {"schema": BINARY} if model == FILE else _json_content(model, schemas)
    return content


def _response(model: type[BaseModel] | str | None, example: Any, schemas: Schemas) -> dict[str, Any]:
    if isinstance(example, BaseModel):
        example = example.model_dump(mode="json")
    if isinstance(model, str):
        schema = (
            {}
            if "json" in model
            else {
                "schema": {"type": "string"}
                if model.startswith("text/")
                else BINARY | {"contentMediaType": model}
            }
        )
        return {"content": {model: {**schema, "example": example or f"(content of a file, {model})"}}}
    if not model:
        return {}
    content = _json_content(model, schemas)
    return {"content": {"application/json": content | ({"example": example} if example else {})}}


def _json_content(model: Any, schemas: Schemas) -> dict[str, Any]:
    reference = _reference(model)
    return {"schema": reference, "example": compose_example(reference, schemas)}


def _reference(model: Any) -> dict[str, str]:
    return {"$ref": REFERENCE.format(model=model.__name__)}


def _problem(status: HTTPStatus) -> dict[str, Any]:
    meanings = [kind.meaning for kind in problems.KINDS.values() if kind.status == status]
    name = problems.BY_STATUS[status]
    kind = problems.KINDS[name]
    example = ProblemDetails(
        type=problems.problem_type(name), title=kind.title, status=status, detail=kind.meaning
    )
    schema = _reference(ProblemDetails)
    content = {problems.MEDIA_TYPE: {"schema": schema, "example": example.model_dump(mode="json")}}
    answer: dict[str, Any] = {"description": " Or: ".join(meanings), "content": content}
    if status in problems.RETRYABLE:
        answer["headers"] = {
            "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}, "example": 1}
        }
    return answer


@blueprint.get("/openapi.json")
@operations.operation(
    "openapi",
    {200: "application/json"},
    python="client.openapi()",
    examples={200: {"openapi": "3.1.1", "info": {"title": "cbir", "version": "1.0.0"}, "paths": {}}},
)
def get_openapi() -> Response:
    """Return this description as OpenAPI 3.1.

    Generators of clients and API tools read it; `/docs` shows the same as a page.
    """
    return Response(json.dumps(build_openapi(current_app)), mimetype="application/json")


@blueprint.get("/docs")
def get_docs() -> str:
    """Show the description in Swagger UI."""
    return render_template("docs.html")


@blueprint.get("/docs/errors")
def get_docs_errors() -> str:
    """Explain every kind of problem; the `type` of problems links here."""
    return render_template("errors.html", kinds=problems.KINDS, marked=mark_up)


def mark_up(text: str) -> Markup:
    """Return `text` as HTML: paragraphs, and names in backticks as code."""
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    html = "</p><p>".join(CODE.sub(r"<code>\1</code>", str(escape(part))) for part in paragraphs)
    return Markup(f"<p>{html}</p>")
