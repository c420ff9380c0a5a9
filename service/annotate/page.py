"""The page on which two images are compared."""

from flask import Blueprint, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from service.annotate.state import annotation
from service.annotate.who import known
from service.state import state

blueprint = Blueprint(
    "annotate",
    __name__,
    static_folder="static",
    static_url_path="/annotate/static",
    template_folder="templates",
)


@blueprint.get("/annotate")
def page() -> str:
    """The page; its pairs and pictures are asked for by its scripts."""
    study = annotation().study
    return render_template(
        "annotate.html",
        question=study.plan.question,
        who=known(),
        collection=state().default,
        images=len(study.ids),
        study=study.plan.study,
    )


def home() -> AnyResponse | None:
    """Lead from the address alone to the page; installed before anybody is asked for a token."""
    leads = request.path == "/" and request.method in ("GET", "HEAD")
    return redirect("/annotate") if leads else None
