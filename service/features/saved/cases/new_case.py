"""Saving a case: its query, as a picture without anything else of its file, and its patient."""

from io import BytesIO

from PIL import Image

from cbir.errors import InvalidInput
from cbir.images import Region, check_region
from cbir.ingest.decoder_tasks import StoredQuery
from cbir.store import Collection
from service.access.caller import actor_name
from service.collections.app_state import AppState
from service.collections.uploads import render_stored_query
from service.features.saved.cases import tables as saved_cases
from service.features.saved.cases.messages import CaseSearch, NewCase
from service.features.saved.cases.tables import QueryPicture
from service.http.request_params import Rendering
from service.state.database import state_database

PICTURE_SIDE = 2048  # pixels of the longer side of a stored query


def save_case(state: AppState, collection_name: str | None, case: NewCase, data: bytes | None) -> str:
    """Save a case of the caller and return its id.

    Results and judgements of images that are gone, or that the caller may not see, are left out.

    Parameters
    ----------
    state : AppState
    collection_name : str or None
        Collection that was searched; None for the caller's first one.
    case : NewCase
    data : bytes or None
        File of an uploaded query.

    Raises
    ------
    InvalidInput
        If there is no query or more than one, its region is not inside the image, or the caller has as many cases
        as allowed.
    NotFound
        If the collection has no query with this id.
    """
    handle = state.handle(collection_name)
    collection = handle.searcher().collection
    search = case.search
    if [search.image_id, search.text, data].count(None) != 2:
        raise InvalidInput("search: a case has one query: image_id, text, or an image file")
    picture, patient_key = None, None
    if search.image_id:
        record = collection.record(search.image_id)
        patient_key = record.patient_key
        if search.region:
            check_region(search.region, record.width, record.height)
    elif data is not None:
        stored = _render(state, collection, data, search)
        whole = handle.whole_searcher().collection  # also where the caller may see a part only
        patient_key = stored.patient_key or _patient_of(whole, stored.content_hash)
        picture = QueryPicture(stored.data, stored.content_hash)
        search = search.model_copy(update={"region": _in_picture(search.region, stored)})
    visible = collection.records_by_id(case.image_ids())
    case = case.model_copy(update={"search": search}).only(visible.__contains__)
    return saved_cases.add_case(state_database(), actor_name(), handle.name, case, picture, patient_key)


def _render(state: AppState, collection: Collection, data: bytes, search: CaseSearch) -> StoredQuery:
    if collection.profile.volume_grid is not None:
        raise InvalidInput(
            "image: of a collection of CT series only series of the collection can be saved as query"
        )
    part = Rendering(frame=search.frame, window=search.window)
    return render_stored_query(state.decoders, collection.secret, data, part, PICTURE_SIDE)


def _patient_of(collection: Collection, content_hash: str) -> str | None:
    """Return the key of the patient of whom the collection has the same picture."""
    record = collection.records_by_id([content_hash]).get(content_hash)
    return record.patient_key if record else None


def _in_picture(region: Region | None, stored: StoredQuery) -> Region | None:
    """Return a region of the uploaded image in pixels of the stored picture; raises InvalidInput for one outside."""
    if region is None:
        return None
    check_region(region, stored.width, stored.height)
    with Image.open(BytesIO(stored.data)) as picture:
        width, height = picture.size
    x, y, region_width, region_height = region
    left, right = _scaled(x, x + region_width, width, stored.width)
    top, bottom = _scaled(y, y + region_height, height, stored.height)
    return left, top, right - left, bottom - top


def _scaled(start: int, end: int, size: int, whole: int) -> tuple[int, int]:
    """Return the ends of a range of pixels in a picture of another size, which has at least one of its pixels."""
    first = min(round(start * size / whole), size - 1)
    return first, max(round(end * size / whole), first + 1)
