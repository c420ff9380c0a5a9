"""Documentation of the API: /openapi.json, /docs and /docs/errors, without external resources."""

import json
from typing import Any

from flask import Blueprint, Response, current_app, render_template

from service.api import openapi
from service.api.operations import operation
from service.http.problem_kinds import KINDS

blueprint = Blueprint("docs", __name__)


@blueprint.get("/openapi.json")
@operation(
    "openapi",
    {200: "application/json"},
    python="client.openapi()",
    examples={200: {"openapi": "3.1.1", "info": {"title": "cbir", "version": "1.0.0"}, "paths": {}}},
)
def get_openapi() -> Response:
    """Return this description as OpenAPI 3.1.

    Generators of clients and API tools read it; `/docs` shows the same as a page.
    """
    return Response(json.dumps(openapi.build_openapi(current_app)), mimetype="application/json")


@blueprint.get("/docs")
def get_docs() -> str:
    """Show the description as a page."""
    context = openapi.docs_page_context(openapi.build_openapi(current_app))
    return render_template("docs.html", kind=describe_schema, **context)


@blueprint.get("/docs/errors")
def get_docs_errors() -> str:
    """Explain every kind of problem; the `type` of problems links here."""
    return render_template("errors.html", kinds=KINDS)


def describe_schema(schema: dict[str, Any]) -> str:
    """Describe a JSON `schema` in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(describe_schema(item) for item in schema["anyOf"])
    if schema.get("contentMediaType"):
        return "a file"
    if schema.get("type") == "array":
        return f"list of {describe_schema(schema.get('items', {}))}" if "items" in schema else "list"
    if schema.get("type") == "object" and "properties" in schema:
        return "fields " + ", ".join(schema["properties"])
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"{describe_schema(schema['additionalProperties'])} by name"
    return str(schema.get("type", "any value"))
