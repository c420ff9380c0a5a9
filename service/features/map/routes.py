"""Endpoints of the map of a collection: places of its images, their labels, places of the results of a search."""

import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import numpy as np
from flask import Blueprint, Response
from numpy.typing import NDArray
from pydantic import Field

from cbir.errors import CollectionDamaged, NotFound, StorageFull
from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import Floats, Rows, spread_rows
from cbir.search import Searcher
from cbir.search import example_values as example
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.snapshot.derived_files import MAP_FILE, StoredMap, read_map
from cbir.store.views.collection_view import View
from cbir.system.access_rights import Scope
from cbir.system.remedies import install_command
from cbir.system.threads import locked
from service.access.audit import log_images
from service.access.scopes import AccessRule
from service.collections.app_state import AppState, current_state
from service.collections.mounted_collection import CollectionHandle
from service.features.map.collection_map import current_places, is_outdated, place_among
from service.features.map.job import new_map_job
from service.features.map.messages import (
    CollectionMap,
    MapLabels,
    MapPlace,
    MapPlaceRequest,
    MapPlaces,
    MapPoint,
)
from service.features.map.tsne import is_installed
from service.http import request_params
from service.http.operations import json_response, operation
from service.http.timeouts import query_deadline
from service.jobs.job_queue import JobQueue
from service.jobs.stored_jobs import JobRow
from service.routes.collection_routes import KeyInPath
from service.routes.image_routes import CollectionParameters
from service.state.schema import StateUnavailable

MAX_POINTS = 200_000
DECIMALS = 4  # of a place: a ten-thousandth of half the map's side
NEAREST = 5  # results that place an image which is not in the collection

FileState = tuple[int, int] | None  # mtime and inode of a map

RULES = {
    "GET /v1/map": AccessRule(Scope.search, "list"),
    "GET /v1/map/labels/*": AccessRule(Scope.search),
    "POST /v1/map/places": AccessRule(Scope.search, "list"),
}
blueprint = Blueprint("maps", __name__, url_prefix="/v1/map")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlacedView:
    """Places (n, 2) of the rows of a gallery, NaN where unknown. outdated: a new map is due."""

    file: FileState
    gallery: Gallery
    positions: Floats
    outdated: bool


class MapCache:
    """Places of the images of collections, and the jobs that compute them. Thread-safe."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs
        self._lock = Lock()
        self._stored: dict[Path, tuple[FileState, StoredMap | None]] = {}
        self._placed: dict[Path, PlacedView] = {}
        self._requesting = Lock()
        self._computing: dict[Path, str] = {}  # the latest job of each

    def placed(self, collection: Collection, view: View) -> PlacedView | None:
        """Return the positions of the rows of a view, which may be limited, of a collection; None without a map.

        Whether a new map is due depends on all images, also if a limited caller asks first.

        A map that cannot be read is none: it is computed again.
        """
        folder = collection.folder
        with locked(self._lock):
            stored = self._read(folder)
            if stored is None:
                return None
            file = self._stored[folder][0]
            placed = self._placed.get(folder)
            if placed is None or placed.gallery is not view.gallery or placed.file != file:
                outdated = is_outdated(collection.view(), collection.profile, stored)
                placed = PlacedView(file, view.gallery, current_places(view, stored), outdated)
                self._placed[folder] = placed
            return placed

    def compute(self, name: str, folder: Path) -> JobRow:
        """Return the job that computes the map of the collection `name` in a folder, requested unless there is one.

        A job that failed or was cancelled is not repeated before the service starts again. Raises StateUnavailable.
        """
        with locked(self._requesting):
            job = self._latest(folder)
            if job is None or job.state == "done":
                job = self._jobs.add(new_map_job(name, folder), once=True)
                self._computing[folder] = job.job
            return job

    def _latest(self, folder: Path) -> JobRow | None:
        name = self._computing.get(folder)
        try:
            return self._jobs.get(name) if name else None
        except NotFound:  # so many later jobs that it is not kept
            return None

    def _read(self, folder: Path) -> StoredMap | None:
        file = _file_state(folder)
        last_read = self._stored.get(folder)
        if last_read is None or last_read[0] != file:
            last_read = self._stored[folder] = file, _readable_map(folder)
        return last_read[1]


def map_cache(state: AppState) -> MapCache:
    """Return the maps of the collections of a service, as a part of its state."""
    return MapCache(state.jobs)


def _readable_map(folder: Path) -> StoredMap | None:
    try:
        return read_map(folder)
    except CollectionDamaged as damage:
        log.warning("%s", damage)
        return None


def _file_state(folder: Path) -> FileState:
    try:
        status = (folder / MAP_FILE).stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino


def map_facts(searcher: Searcher, _settings: Settings) -> dict[str, bool]:
    """Return what the script of the map needs: whether there is one, which need not be computed first."""
    return {"computed": _file_state(searcher.collection.folder) is not None}


class MapParameters(CollectionParameters):
    """Images on a map."""

    limit: Annotated[int, Field(ge=1, le=MAX_POINTS)] = Field(
        default=MAX_POINTS,
        description=f"Most images, from 1 to {MAX_POINTS}, the default; of more, an evenly spread sample is shown.",
        examples=[10_000],
    )


@blueprint.get("")
@operation("map", {200: CollectionMap}, query=MapParameters, problems=(504,), python="client.map()")
def get_map() -> Response:
    """Show the images of a collection in two dimensions, similar ones close together.

    The first request starts a job that computes the map (`state` is "computing", repeat the request), as does one
    after the images have doubled or their transform was fitted again; until it ends the map before is shown. Added
    images are placed beside their neighbours at once. It needs the extra `map`.
    """
    state, params = current_state(), request_params.query_parameters(MapParameters)
    handle = state.handle(params.collection)
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        collection = _mapped_collection(handle)
        view = collection.view()
        placed = _placed_view(handle, view)
        rows = _shown_rows(view, placed, params.limit)
        names = collection.image_ids() if len(rows) else {}
    numbers = view.gallery.ids[rows].tolist()
    name_of = {row: names[number] for row, number in zip(rows, numbers, strict=True) if number in names}
    log_images(name_of.values())
    points = np.empty((0, 2)) if placed is None else _rounded(placed.positions[list(name_of)])
    message = CollectionMap(
        **_progress(handle, placed),
        generation=view.generation,
        images=len(view),
        ids=list(name_of.values()),
        x=points[:, 0].tolist(),
        y=points[:, 1].tolist(),
    )
    return json_response(message)


@blueprint.get("/labels/<path:key>")
@operation(
    "map_labels",
    {200: MapLabels},
    query=MapParameters,
    problems=(504,),
    python='client.map_labels("modality")',
)
def get_map_labels(key: KeyInPath) -> Response:
    """List the values of a label for the images of a map, in its order.

    If `generation` is not that of the map, the collection has changed: get the map again. A key that no image has is
    refused.
    """
    state, params = current_state(), request_params.query_parameters(MapParameters)
    handle = state.handle(params.collection)
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        collection = _mapped_collection(handle)
        collection.list_label_values(key, limit=1)  # raises InvalidInput for an unknown key
        view = collection.view()
        rows = _shown_rows(view, _placed_view(handle, view), params.limit)
        labels = collection.labels_by_number(key)
    label_values = [labels.get(number) for number in view.gallery.ids[rows].tolist()]
    values = [
        value for value, _ in Counter(value for value in label_values if value is not None).most_common()
    ]
    codes = {value: code for code, value in enumerate(values)} | {None: -1}
    message = MapLabels(
        generation=view.generation, key=key, values=values, codes=[codes[value] for value in label_values]
    )
    return json_response(message)


@blueprint.post("/places")
@operation(
    "map_places",
    {200: MapPlaces},
    query=CollectionParameters,
    body={request_params.JSON: MapPlaceRequest},
    problems=(504,),
    python=f'client.map_places(["{example.IMAGE_ID}"])',
)
def post_places() -> Response:
    """Return the places of images on the map, and that of an image which they are nearest to.

    So the results of a search can be shown on the map, with a query image that is not in the collection among them.
    An unknown id is refused with 404, which names it.
    """
    state, name = current_state(), request_params.query_parameters(CollectionParameters).collection
    body = request_params.json_body(MapPlaceRequest)
    handle = state.handle(name)
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        collection = _mapped_collection(handle)
        numbers = collection.numbers_of(body.ids)
        view = collection.view()
        placed = _placed_view(handle, view)
    log_images(body.ids)
    if placed is None:
        return json_response(MapPlaces(items=[], query=None))
    rows = np.searchsorted(view.gallery.ids, numbers)  # images of the caller, which the view has
    points = placed.positions[np.minimum(rows, len(view.gallery) - 1)]
    items = [
        MapPlace(image_id=image_id, x=x, y=y)
        for image_id, (x, y) in zip(body.ids, _rounded(points).tolist(), strict=True)
        if not np.isnan(x)
    ]
    among = place_among(points[:NEAREST])
    query = (
        None
        if among is None
        else MapPoint(x=round(float(among[0]), DECIMALS), y=round(float(among[1]), DECIMALS))
    )
    return json_response(MapPlaces(items=items, query=query))


def _mapped_collection(handle: CollectionHandle) -> Collection:
    """Return the collection as the caller sees it; raises InvalidInput if it is too large for a map."""
    searcher = handle.searcher()
    searcher.vectors.require_whole("the map")
    return searcher.collection


def _placed_view(handle: CollectionHandle, view: View) -> PlacedView | None:
    """Return the places of the images of a view, which may be limited; None without a map."""
    return current_state().part(map_cache).placed(handle.whole_searcher().collection, view)


def _shown_rows(view: View, placed: PlacedView | None, limit: int) -> Rows:
    """Return the rows of the images on the map that the caller may see, at most `limit`."""
    if placed is None:
        return np.empty(0, np.int64)
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    rows = rows[~np.isnan(placed.positions[rows, 0])]
    return np.asarray(rows[spread_rows(len(rows), limit)]) if len(rows) else rows


def _progress(handle: CollectionHandle, placed: PlacedView | None) -> dict[str, Any]:
    """Return the state of the map; starts a job that computes it if it is due."""
    state: str = "ready" if placed else "computing"
    reason, job = None, None
    if placed is None or placed.outdated:
        if not is_installed():
            reason = f"this needs openTSNE: {install_command('map')}"
        else:
            try:
                job = current_state().part(map_cache).compute(handle.name, handle.folder)
            except (StateUnavailable, StorageFull):
                reason = "the job that computes it cannot be stored: the state database does not answer"
            if job and job.state in ("failed", "cancelled"):
                reason = f"the job {job.job} was not completed: {job.state}"
    if placed is None and reason:
        state = "failed" if job else "unavailable"
    active = job is not None and reason is None
    return {
        "state": state,
        "reason": reason if placed is None else None,
        "job": job.job if job and active else None,
        "done": job.done if job and active else 0,
        "total": job.total if job and active else None,
    }


def _rounded(places: Floats) -> NDArray[np.float64]:
    return np.asarray(np.round(places.astype(np.float64), DECIMALS), np.float64)
