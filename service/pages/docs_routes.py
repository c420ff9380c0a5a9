"""Documentation of the API: /openapi.json, /docs and /docs/errors, without external resources."""

import json
import re

from flask import Blueprint, Response, current_app, render_template
from markupsafe import Markup, escape

from service.http.operations import operation
from service.http.problems import KINDS
from service.routes import openapi

CODE = re.compile(r"`([^`]+)`")

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
    """Show the description in Swagger UI."""
    return render_template("docs.html")


@blueprint.get("/docs/errors")
def get_docs_errors() -> str:
    """Explain every kind of problem; the `type` of problems links here."""
    return render_template("errors.html", kinds=KINDS, marked=mark_up)


def mark_up(text: str) -> Markup:
    """Return `text` as HTML: paragraphs, and names in backticks as code."""
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    html = "</p><p>".join(CODE.sub(r"<code>\1</code>", str(escape(part))) for part in paragraphs)
    return Markup(f"<p>{html}</p>")
