"""Page of similar images and other studies of the patient that a DICOM viewer shows in a frame."""

from enum import StrEnum
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, make_response, render_template, request
from pydantic import Field

from cbir.errors import CbirError
from cbir.search import Hit, Searcher, record_links
from cbir.search.dicom_levels import Combination, Exclude, ImageGroup, Level
from cbir.search.prior_studies import PriorRequest, PriorStudy
from cbir.store.external_links import compare_link
from cbir.store.records.filter_conditions import DicomScope
from service.access.caller import public_text
from service.access.security import allow_frames
from service.collections.app_state import current_state
from service.features.similar.messages import search_page
from service.features.similar.prior_routes import search_priors
from service.features.similar.routes import SimilarByUids, search_similar
from service.http import request_params
from service.http.problems import status_of
from service.languages import current_language, gettext, ngettext
from service.languages.catalogues import ENGLISH

PRIORS_SHOWN = 6
DEFAULT_LIMIT = 12
TITLE_LABELS = ("label", "modality", "body_part", "view_position", "laterality")  # shown under a picture

blueprint = Blueprint("framed", __name__)


def prior_cards(scope: DicomScope, collection: str | None) -> list[dict[str, Any]]:
    """Return what the page shows of the other studies of the patient of `scope`, best first."""
    priors, searcher = search_priors(scope, collection, PriorRequest(images=1, limit=PRIORS_SHOWN))
    return [_study_card(searcher, study, collection) for study in priors.studies if study.study]


def _study_card(searcher: Searcher, study: PriorStudy, collection: str | None) -> dict[str, Any]:
    best = study.best
    links = record_links(searcher.settings, best.record).in_collection(collection)
    both = compare_link(searcher.settings, best.query.study, study.study)
    return {
        "title": time_of(study.days_before),
        "thumbnail": links.thumbnail,
        "address": both or links.viewer or search_page(best.record.image_id, collection),
        "side_by_side": bool(both),
    }


def time_of(days: int | None) -> str:
    """Say how long before the query's study another one was made."""
    if days is None:
        return gettext("Time unknown")
    if days == 0:
        return gettext("On the same day")
    if days < 0:
        return ngettext("%(count)s day later", "%(count)s days later", -days)
    return ngettext("%(count)s day earlier", "%(count)s days earlier", days)


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
    counts_images = params.combine is Combination.frequency  # the number of images is the score
    return {
        "rank": rank,
        "score": None if counts_images else f"{group.score:.3f}",
        "images": group.count if counts_images or group.count > 1 else None,
        "title": _title(best),
        "thumbnail": best.links.in_collection(params.collection).thumbnail,
        "address": best.links.viewer or search_page(best.image_id, params.collection),
        "in_viewer": bool(best.links.viewer),
    }


def _title(hit: Hit) -> str:
    values = [hit.labels[name] for name in TITLE_LABELS if name in hit.labels]
    return " · ".join(values) or gettext("image %(name)s", name=hit.image_id[:8])
