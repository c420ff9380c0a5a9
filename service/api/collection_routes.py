"""What a collection holds, how it was made, and what was done to it."""

from typing import Annotated

from flask import Blueprint, Response
from pydantic import AfterValidator, BaseModel, Field

from cbir import descriptors
from cbir.client.messages import (
    ChangePage,
    ChangeRecord,
    CollectionInfo,
    CollectionNames,
    CollectionStatistics,
    Normalisation,
    ProfileInfo,
)
from cbir.store import Collection, counts, history
from service.http import request_params
from service.access.audit import log_images
from service.api.image_routes import MOST_AT_ONCE, InCollection, check_cursor
from service.api.operations import operation
from service.collections.app_state import state

blueprint = Blueprint("collection", __name__, url_prefix="/v1")


class Page(InCollection):
    """limit: changes on a page. cursor: `next` of the page before."""

    limit: int = Field(100, ge=1, le=MOST_AT_ONCE)
    cursor: Annotated[str | None, AfterValidator(check_cursor)] = None


@blueprint.get("/collections")
@operation("collections", {200: CollectionNames})
def collections() -> Response:
    """The names that requests call the collections by."""
    here = state()
    return _json(CollectionNames(collections=list(here.places), default=here.default))


@blueprint.get("/collection")
@operation("collection", {200: CollectionInfo}, query=InCollection, problems=(404, 422))
def collection() -> Response:
    """What a collection holds and how it was made."""
    place = state().place(request_params.query(InCollection).collection)
    return _json(CollectionInfo(name=place.name, **place.searcher().collection.info()))


@blueprint.get("/collection/profile")
@operation("profile", {200: ProfileInfo}, query=InCollection, problems=(404, 422))
def profile() -> Response:
    """How images become vectors that may be compared, and with what settings they are re-ranked."""
    found = _collection()
    found.view()  # takes over what another process has set
    kept = found.profile
    described = descriptors.get(kept.descriptor)
    parts = {part.name: part.stop - part.start for part in described.parts}
    values = kept.model_dump()
    return _json(ProfileInfo(hash=kept.hash, dimensions=described.dimensions, parts=parts, **values))


@blueprint.get("/collection/statistics")
@operation("statistics", {200: CollectionStatistics}, query=InCollection, problems=(404, 422))
def statistics() -> Response:
    """Counts of images, patients, formats and labels, and what vectors are normalised with."""
    found = _collection()
    fitted = found.statistics()
    normalisation = None
    if fitted:
        normalisation = Normalisation(
            fitted_on=fitted.fitted_on, mean=fitted.mean.tolist(), scale=fitted.scale.tolist()
        )
    with found.engine.connect() as connection:
        counted = counts.count(connection)
    return _json(CollectionStatistics(normalisation=normalisation, **counted))


@blueprint.get("/collection/history")
@operation("history", {200: ChangePage}, query=Page, problems=(400, 404, 422))
def changes() -> Response:
    """What was done to the collection, by whom and when, the newest first. It names images, never a patient."""
    wanted = request_params.query(Page)
    before = int(wanted.cursor) if wanted.cursor else None
    with state().searcher(wanted.collection).collection.engine.connect() as connection:
        found = history.read(connection, before, wanted.limit + 1)
    shown = found[: wanted.limit]
    for change in shown:
        log_images(change.image_ids)
    items = [ChangeRecord(**(change.__dict__ | {"image_ids": list(change.image_ids)})) for change in shown]
    return _json(ChangePage(items=items, next=str(shown[-1].change) if len(found) > len(shown) else None))


def _collection() -> Collection:
    return state().searcher(request_params.query(InCollection).collection).collection


def _json(model: BaseModel) -> Response:
    return Response(model.model_dump_json(), mimetype=request_params.JSON)
