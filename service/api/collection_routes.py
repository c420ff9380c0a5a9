"""Endpoints of collections: names, contents, profile, statistics and history."""

from typing import Any

from flask import Blueprint, Response

from cbir.client import messages
from cbir.errors import NotFound
from service.access.audit import log_images
from service.api.image_routes import CollectionParameters, PageParameters, requested_collection
from service.api.operations import json_response, operation
from service.collections.app_state import current_state
from service.http.request_params import query_parameters

blueprint = Blueprint("collection", __name__, url_prefix="/v1")


class HistoryParameters(PageParameters):
    """limit: changes per page. cursor: `next` of the previous page."""


@blueprint.get("/collections")
@operation("collections", {200: messages.CollectionNames})
def get_collections() -> Response:
    """List the names of the collections."""
    state = current_state()
    names = state.visible_names()
    if not names:
        raise NotFound("this caller may use none of the collections of this service")
    return json_response(messages.CollectionNames(collections=names, default=names[0]))


@blueprint.get("/collection")
@operation("collection", {200: messages.CollectionInfo}, query=CollectionParameters, problems=(404, 422))
def get_collection() -> Response:
    """Describe a collection: its contents and how it was made."""
    handle = current_state().handle(query_parameters(CollectionParameters).collection)
    return json_response(messages.CollectionInfo(name=handle.name, **handle.searcher().collection.info()))


@blueprint.get("/collection/profile")
@operation("profile", {200: messages.ProfileInfo}, query=CollectionParameters, problems=(404, 422))
def get_profile() -> Response:
    """Describe how images become comparable vectors, and the settings of the re-rankers."""
    _, collection = requested_collection()
    collection.view()  # picks up a profile that another process has set
    profile = collection.profile
    descriptor = profile.load_descriptor()
    parts = {part.name: part.stop - part.start for part in descriptor.parts}
    facts: dict[str, Any] = {"hash": profile.hash, "dimensions": descriptor.dimensions, "parts": parts}
    facts["components"] = profile.components if profile.is_projected else None
    return json_response(messages.ProfileInfo(**profile.model_dump() | facts))


@blueprint.get("/collection/statistics")
@operation(
    "statistics", {200: messages.CollectionStatistics}, query=CollectionParameters, problems=(404, 422)
)
def get_statistics() -> Response:
    """Count images, patients, formats and labels, and show the normalisation of the vectors."""
    _, collection = requested_collection()
    counts = messages.CollectionStatistics(normalisation=None, **collection.counts())
    if fitted := collection.statistics():
        counts.normalisation = messages.Normalisation(
            fitted_on=fitted.fitted_on,
            components=fitted.components,
            version=fitted.version,
            mean=fitted.mean.tolist(),
            scale=fitted.scale.tolist(),
        )
    return json_response(counts)


@blueprint.get("/collection/history")
@operation("history", {200: messages.ChangePage}, query=HistoryParameters, problems=(400, 404, 422))
def get_history() -> Response:
    """List the changes of the collection with author and time, newest first. They name images, never patients."""
    params = query_parameters(HistoryParameters)
    before = int(params.cursor) if params.cursor else None
    changes = current_state().searcher(params.collection).collection.history(before, params.limit + 1)
    page = changes[: params.limit]
    for change in page:
        log_images(change.image_ids)
    items = [
        messages.ChangeRecord(**(change.__dict__ | {"image_ids": list(change.image_ids)})) for change in page
    ]
    following = str(page[-1].change) if len(changes) > len(page) else None
    return json_response(messages.ChangePage(items=items, next=following))
