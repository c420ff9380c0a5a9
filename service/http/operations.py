"""Parameters, bodies and responses of endpoints for the OpenAPI document, and their schemas in a few words."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from flask import Response
from markupsafe import Markup, escape
from pydantic import BaseModel

View = TypeVar("View", bound=Callable[..., Any])
FILE = "a file"  # binary content of a body
IMAGE_FILES = {"image/*": FILE, "application/dicom": FILE, "application/octet-stream": FILE}
SERIES_FILES = {"application/zip": FILE, "application/gzip": FILE}


@dataclass(frozen=True)
class Operation:
    """OpenAPI declaration of an endpoint.

    name: the operationId. responses: model or media type by status. query: parameters in the query string. body:
    model or FILE by media type. form: fields of a multipart body besides its files; several_files: it may hold more
    than one. headers: request headers that are used. problems: statuses besides those of every endpoint. python: a
    line of the Python client that does the same. collection_in_path: False if the parameter `collection` does not
    make it an operation on the collection. confirm: what a page asks before it sends the request, for endpoints
    that change a collection. examples: bodies of responses by status, where they do not follow from the model.
    """

    name: str
    responses: dict[int, type[BaseModel] | str | None]
    query: type[BaseModel] | None = None
    body: dict[str, type[BaseModel] | str] = field(default_factory=dict)
    form: type[BaseModel] | None = None
    several_files: bool = False
    headers: tuple[str, ...] = ()
    problems: tuple[int, ...] = ()
    python: str = ""
    collection_in_path: bool = True
    confirm: str = ""
    examples: dict[int, Any] = field(default_factory=dict)


OPERATION = "cbir_operation"


def operation(
    name: str, responses: dict[int, type[BaseModel] | str | None], **options: Any
) -> Callable[[View], View]:
    """Attach an Operation to a view, whose docstring becomes the summary and description.

    name: the operationId. responses: model or media type by status. options: further fields of Operation.
    """

    def attach(view: View) -> View:
        setattr(view, OPERATION, Operation(name, responses, **options))
        return view

    return attach


def json_response(model: BaseModel, status: int = 200) -> Response:
    """Return `model` as a JSON response with `status`."""
    return Response(model.model_dump_json(), status, mimetype="application/json")


def operation_of(view: Callable[..., Any]) -> Operation | None:
    """Return the Operation of `view`, None for pages."""
    return cast(Operation | None, getattr(view, OPERATION, None))


LIMITS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {}"),
)
CODE = re.compile(r"`([^`]+)`")


def mark_up(text: str) -> Markup:
    """Return `text` as HTML: paragraphs, and names in backticks as code."""
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    html = "</p><p>".join(CODE.sub(r"<code>\1</code>", str(escape(part))) for part in paragraphs)
    return Markup(f"<p>{html}</p>")


def describe_schema(schema: dict[str, Any]) -> str:
    """Return type and limits of a JSON `schema`: "integer, 1 to 1000"."""
    if "anyOf" in schema:
        return " or ".join(describe_schema(item) for item in schema["anyOf"])
    limits = describe_limits(schema)
    return f"{_type_of(schema)}, {limits}" if limits else _type_of(schema)


def describe_limits(schema: dict[str, Any]) -> str:
    """Return the limits of a JSON `schema`, "" if it has none."""
    if "prefixItems" in schema:
        return ""
    if "minimum" in schema and "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}"
    return ", ".join(text.format(schema[key]) for key, text in LIMITS if key in schema)


def _type_of(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if schema.get("contentMediaType") == "application/octet-stream":
        return "file"
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    if "prefixItems" in schema:
        return f"{len(schema['prefixItems'])} numbers"
    if schema.get("type") == "array":
        return f"list of {describe_schema(schema['items'])}" if "items" in schema else "list"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{describe_schema(schema['additionalProperties'])} by name"
    return str(schema.get("type", "any value"))
