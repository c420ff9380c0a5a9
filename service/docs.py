"""The description of the API for machines and for people, without anything from elsewhere."""

import json
from typing import Any

from flask import Blueprint, Response, current_app, render_template

from service import openapi
from service.operations import operation
from service.problem_kinds import KINDS

blueprint = Blueprint("docs", __name__)


@blueprint.get("/openapi.json")
@operation("openapi", {200: "application/json"})
def description() -> Response:
    """This description, OpenAPI 3.1."""
    return Response(json.dumps(openapi.describe(current_app)), mimetype="application/json")


@blueprint.get("/docs")
def shown() -> str:
    """The description as a page."""
    return render_template("docs.html", kind=in_words, **openapi.for_reading(openapi.describe(current_app)))


@blueprint.get("/docs/errors")
def errors() -> str:
    """Every kind of problem; their `type` leads here."""
    return render_template("errors.html", kinds=KINDS)


def in_words(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(in_words(one) for one in schema["anyOf"])
    if schema.get("contentMediaType"):
        return "a file"
    if schema.get("type") == "array":
        return f"list of {in_words(schema.get('items', {}))}" if "items" in schema else "list"
    if schema.get("type") == "object" and "properties" in schema:
        return "fields " + ", ".join(schema["properties"])
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"{in_words(schema['additionalProperties'])} by name"
    return str(schema.get("type", "any value"))
