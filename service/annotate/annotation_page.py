"""Page for comparing two images."""

from flask import Blueprint, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from service.annotate.annotation_state import current_annotation
from service.annotate.annotator import logged_in_annotator
from service.collections.app_state import current_state

blueprint = Blueprint(
    "annotate",
    __name__,
    static_folder="static",
    static_url_path="/annotate/static",
    template_folder="templates",
)


@blueprint.get("/annotate")
def show_annotation_page() -> str:
    """Render the page; its scripts load pairs and pictures."""
    study = current_annotation().study
    return render_template(
        "annotate.html",
        question=study.plan.question,
        annotator=logged_in_annotator(),
        collection=current_state().default,
        images=len(study.ids),
        study=study.plan.study,
        grades=[f"{grade:g}" for grade in study.plan.grades],
    )


def redirect_to_page() -> AnyResponse | None:
    """Redirect "/" to the page; installed before access control, since it needs no token."""
    is_root = request.path == "/" and request.method in ("GET", "HEAD")
    return redirect("/annotate") if is_root else None
