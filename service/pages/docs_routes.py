"""Documentation of the API: /openapi.json, /docs and /docs/errors, without external resources."""

import json

from flask import Blueprint, Response, current_app, render_template

from service.collections.app_state import current_state
from service.http.operations import mark_up, operation
from service.http.problems import KINDS
from service.pages import docs_lines, docs_page
from service.routes import openapi

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
    document = openapi.build_openapi(current_app)
    return render_template("docs.html", **docs_page.docs_page_context(document, current_state()))


@blueprint.get("/docs/slice.dcm")
def get_docs_slice() -> Response:
    """Return the DICOM file that lines of the page send: a phantom."""
    return Response(docs_lines.sample_slice(), mimetype="application/dicom")


@blueprint.get("/docs/errors")
def get_docs_errors() -> str:
    """Explain every kind of problem; the `type` of problems links here."""
    return render_template("errors.html", kinds=KINDS, marked=mark_up)
