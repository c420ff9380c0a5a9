"""Endpoints of collections: names, contents, profile, statistics and history."""

from typing import Any

from flask import Blueprint, Response

from cbir.errors import NotFound
from service.access.audit import log_images
from service.client import messages
from service.collections.app_state import current_state
from service.http.operations import json_response, operation
from service.http.request_params import query_parameters
from service.routes.image_routes import CollectionParameters, PageParameters, requested_collection

blueprint = Blueprint("collection", __name__, url_prefix="/v1")


class HistoryParameters(PageParameters):
    """Page of the changes."""


@blueprint.get("/collections")
@operation("collections", {200: messages.CollectionNames}, python="client.collections()")
def get_collections() -> Response:
    """List the names of the collections.

    They are those that the caller may use; every `collection` parameter takes one of them.
    """
    state = current_state()
    names = state.visible_names()
    if not names:
        raise NotFound("this caller may use none of the collections of this service")
    return json_response(messages.CollectionNames(collections=names, default=names[0]))


@blueprint.get("/collection")
@operation(
    "collection",
    {200: messages.CollectionInfo},
    query=CollectionParameters,
    problems=(404, 422),
    python="client.collection()",
)
def get_collection() -> Response:
    """Describe a collection.

    The facts are its number of images, profile, label keys, and size and state on disk.
    """
    handle = current_state().handle(query_parameters(CollectionParameters).collection)
    return json_response(messages.CollectionInfo(name=handle.name, **handle.searcher().collection.info()))


@blueprint.get("/collection/profile")
@operation(
    "profile",
    {200: messages.ProfileInfo},
    query=CollectionParameters,
    problems=(404, 422),
    python="client.profile()",
)
def get_profile() -> Response:
    """Describe the profile of a collection.

    It decides how images become comparable vectors, and holds the parameters of re-rankers.
    """
    _, collection = requested_collection()
    collection.reload_profile()
    profile = collection.profile
    descriptor = profile.load_descriptor()
    parts = {part.name: part.stop - part.start for part in descriptor.parts}
    facts: dict[str, Any] = {"hash": profile.hash, "dimensions": descriptor.dimensions, "parts": parts}
    facts["components"] = profile.components if profile.is_projected else None
    return json_response(messages.ProfileInfo(**profile.model_dump() | facts))


@blueprint.get("/collection/statistics")
@operation(
    "statistics",
    {200: messages.CollectionStatistics},
    query=CollectionParameters,
    problems=(404, 422),
    python="client.statistics()",
)
def get_statistics() -> Response:
    """Count images, patients, formats and labels.

    The response also has the normalisation of the vectors.
    """
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
@operation(
    "history",
    {200: messages.ChangePage},
    query=HistoryParameters,
    problems=(400, 404, 422),
    python="next(client.history())",
)
def get_history() -> Response:
    """List the changes of a collection, newest first.

    Each has its author, time and kind. Changes name images, never patients.
    """
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
