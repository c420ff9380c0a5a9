"""The page that a viewer shows in a frame: what is like the image that is looked at."""

from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, make_response, render_template, request
from pydantic import Field

from cbir.errors import CbirError
from cbir.levels import Combination, Group, Level
from cbir.search import Hit
from cbir.similar import Exclude
from service import asked
from service.api_similar import AskedByUids, search
from service.guards import allow_frames
from service.links import of_hit
from service.problems import status_of
from service.state import state

blueprint = Blueprint("framed", __name__)

SHOWN = 12
NAMES = ("label", "modality", "body_part", "view_position", "laterality")  # labels told under a picture


class Target(StrEnum):
    """Where a link to the viewer opens: in a tab of its own, or in the place of the page that frames this one."""

    blank = "blank"
    top = "top"


class Page(AskedByUids):
    """As of `/v1/similar`, but with other defaults: the best studies, not the query's own."""

    level: Level = Level.study
    exclude: Exclude = Exclude.study
    limit: int = Field(SHOWN, ge=1, le=100)
    target: Target = Target.blank


@blueprint.get("/similar")
def similar() -> Response:
    """The answers, or what is wrong in words: an error of the API would not be shown in a frame."""
    try:
        wanted = asked.query(Page)
        scope = wanted.scope()
        found, shown, _ = search(scope, wanted)
    except CbirError as error:
        return _page(status_of(error), problem=str(error))
    cards = [_card(wanted, *one) for one in enumerate(shown, start=wanted.offset + 1)]
    end = wanted.offset + len(shown)
    return _page(
        200,
        cards=cards,
        wanted=wanted,
        levels=[(level.value, _address(level=level.value, offset=None)) for level in Level],
        following=_address(offset=end) if shown and end < len(found.groups) else None,
        previous=_address(offset=max(0, wanted.offset - wanted.limit)) if wanted.offset else None,
        target=f"_{wanted.target}",
    )


def _page(status: int, **given: Any) -> Response:
    response = make_response(render_template("similar.html", **given), status)
    return allow_frames(response, state().settings.frame_origins)


def _address(**changed: Any) -> str:
    """This page with other parameters; None takes one away."""
    given = request.args.to_dict(flat=False)
    for name, value in changed.items():
        given.pop(name, None)
        if value is not None:
            given[name] = [str(value)]
    return f"/similar?{urlencode(given, doseq=True)}"


def _card(wanted: Page, rank: int, group: Group) -> dict[str, Any]:
    best = group.best
    named = {"collection": wanted.collection} if wanted.collection else {}
    counted = wanted.combine is Combination.frequency  # then the number of images is the score
    return {
        "rank": rank,
        "score": None if counted else f"{group.score:.3f}",
        "images": group.found if counted or group.found > 1 else None,
        "words": _words(best),
        "thumbnail": of_hit(best, wanted.collection).thumbnail,
        "address": best.links.viewer or f"/?{urlencode({'image': best.image_id} | named)}",
        "where": "in the viewer" if best.links.viewer else "on the page of this service",
    }


def _words(hit: Hit) -> str:
    said = [hit.labels[name] for name in NAMES if name in hit.labels]
    return " · ".join(said) or f"image {hit.image_id[:8]}"
