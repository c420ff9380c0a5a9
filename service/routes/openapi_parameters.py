"""Parameters of operations in the OpenAPI document: in the path, the query string and headers."""

import re
from typing import Annotated, Any, get_type_hints

from pydantic import Field, TypeAdapter
from werkzeug.routing import Rule

IN_RULE = re.compile(r"<(?:[^:<>]+:)?([^:<>]+)>")  # <name> or <converter:name> of a URL rule
ABOUT = ("description", "example")  # keys of a parameter, not of its schema
CollectionInPath = Annotated[str, Field(description="Name of the collection.", examples=["knees"])]
ETAG = '"5a9fea906a53942935232b73"'
HEADERS = {
    "Idempotency-Key": {
        "description": "1 to 255 printable characters; a request that repeats them within 24 hours is not executed "
        "again, and gets the first response.",
        "example": "batch-7",
    },
    "If-Match": {
        "description": "ETag of the image as last seen; 412 if the image has changed since.",
        "example": ETAG,
    },
    "If-None-Match": {
        "description": "ETag of the client's copy; 304 if the copy is still current.",
        "example": ETAG,
    },
}


def path_of(rule: Rule) -> str:
    """Return the path of `rule` with its parameters in braces."""
    return IN_RULE.sub(r"{\1}", rule.rule)


def parameters_in_path(rule: Rule, view: Any) -> list[dict[str, Any]]:
    """Return the parameters in the path of `rule`, as the arguments of its `view` are annotated."""
    hints = get_type_hints(view, include_extras=True) | {"collection": CollectionInPath}
    return [
        _parameter(name, "path", TypeAdapter(hints[name]).json_schema(), required=True)
        for name in IN_RULE.findall(rule.rule)
    ]


def parameters_in_query(schema: dict[str, Any], *, also_in_body: bool = False) -> list[dict[str, Any]]:
    """Return the fields of a model's `schema` as parameters in the query string.

    Generated clients send defaults and what is required; where a body may hold the same fields, that would be twice.
    """
    required = [] if also_in_body else schema.get("required", [])
    left_out = ("default",) if also_in_body else ()
    fields = {
        name: {key: value for key, value in field.items() if key not in left_out}
        for name, field in schema.get("properties", {}).items()
    }
    return [
        _parameter(name, "query", field, required=name in required)
        | ({"style": "form", "explode": False} if "prefixItems" in str(field) else {})
        for name, field in fields.items()
    ]


def parameters_in_headers(names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the request headers `names` as parameters."""
    return [{"name": name, "in": "header", **HEADERS[name], "schema": {"type": "string"}} for name in names]


def _parameter(name: str, where: str, field: dict[str, Any], *, required: bool) -> dict[str, Any]:
    about = {key: field[key] for key in ABOUT if key in field}
    if "examples" in field:
        about["example"] = field["examples"][0]
    schema = {key: value for key, value in field.items() if key not in (*ABOUT, "examples", "title")}
    return {"name": name, "in": where, "required": required, **about, "schema": schema}
