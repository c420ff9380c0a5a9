"""Page of similar images that a DICOM viewer shows in a frame."""

from enum import StrEnum
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, make_response, render_template, request
from pydantic import Field

from cbir.errors import CbirError
from cbir.search import Hit
from cbir.search.levels.dicom_levels import Combination, Exclude, ImageGroup, Level
from service.access.caller import public_text
from service.access.security import allow_frames
from service.collections.app_state import current_state
from service.features.similar.priors.prior_cards import prior_cards
from service.features.similar.routes import SimilarByUids, search_similar
from service.http import request_params
from service.http.problems import status_of
from service.languages import current_language, gettext
from service.languages.catalogues import ENGLISH

blueprint = Blueprint("framed", __name__)

DEFAULT_LIMIT = 12
TITLE_LABELS = ("label", "modality", "body_part", "view_position", "laterality")  # shown under a picture


class Target(StrEnum):
    """Target of links to the viewer: a new tab, or the window of the page that frames this one."""

    blank = "blank"
    top = "top"


class EmbedParameters(SimilarByUids):
    """Query of `/v1/similar` with other defaults: the best studies, without the query's own."""

    level: Level = Level.study
    exclude: Exclude = Exclude.study
    limit: int = Field(DEFAULT_LIMIT, ge=1, le=100)
    target: Target = Target.blank
    lang: str | None = None  # of the page; read by service.languages


@blueprint.get("/similar")
def show_similar() -> Response:
    """Show other studies of the patient and similar images; an error too as a page, which browsers show in frames."""
    try:
        params = request_params.query_parameters(EmbedParameters)
        similar, _ = search_similar(params.scope(), params)
        priors = [] if params.offset else prior_cards(params.scope(), params.collection)
    except CbirError as error:
        status = status_of(error)
        return _page(status, problem=public_text(error), explanation=_explanation(status))
    groups = similar.groups
    cards = [_card(params, rank, group) for rank, group in enumerate(groups, start=params.offset + 1)]
    end = params.offset + len(groups)
    return _page(
        200,
        cards=cards,
        priors=priors,
        params=params,
        levels=[(level.value, _address(level=level.value, offset=None)) for level in Level],
        next_page=_address(offset=end) if groups and end < similar.total else None,
        previous_page=_address(offset=max(0, params.offset - params.limit)) if params.offset else None,
        target=f"_{params.target}",
    )


def _explanation(status: int) -> str | None:
    """Return what a status means in another language than the English message of a problem, None in English."""
    if current_language().tag == ENGLISH:
        return None
    texts = {
        HTTPStatus.FORBIDDEN: gettext("Your rights do not cover this."),
        HTTPStatus.NOT_FOUND: gettext("The collection has no such images, or you may not see them."),
        HTTPStatus.UNPROCESSABLE_ENTITY: gettext("One of the values is not valid."),
        HTTPStatus.SERVICE_UNAVAILABLE: gettext("The collection cannot be opened at the moment."),
    }
    return texts.get(HTTPStatus(status))


def _page(status: int, **context: Any) -> Response:
    response = make_response(render_template("similar.html", **context), status)
    return allow_frames(response, current_state().settings.frame_origins)


def _address(**changes: Any) -> str:
    """Return the address of this page with other parameters; None removes one."""
    params = request.args.to_dict(flat=False)
    for name, value in changes.items():
        params.pop(name, None)
        if value is not None:
            params[name] = [str(value)]
    return f"/similar?{urlencode(params, doseq=True)}"


def _card(params: EmbedParameters, rank: int, group: ImageGroup) -> dict[str, Any]:
    best = group.best
    collection = {"collection": params.collection} if params.collection else {}
    counts_images = params.combine is Combination.frequency  # the number of images is the score
    return {
        "rank": rank,
        "score": None if counts_images else f"{group.score:.3f}",
        "images": group.count if counts_images or group.count > 1 else None,
        "title": _title(best),
        "thumbnail": best.links.in_collection(params.collection).thumbnail,
        "address": best.links.viewer or f"/?{urlencode({'image': best.image_id} | collection)}",
        "in_viewer": bool(best.links.viewer),
    }


def _title(hit: Hit) -> str:
    values = [hit.labels[name] for name in TITLE_LABELS if name in hit.labels]
    return " · ".join(values) or gettext("image %(name)s", name=hit.image_id[:8])
