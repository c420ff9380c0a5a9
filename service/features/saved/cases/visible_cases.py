"""Cases of the caller of a request: saving one, and those whose images the collection still shows."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

from PIL import Image

from cbir.errors import DatabaseUnavailable, InvalidInput, NotFound
from cbir.images import Region, check_region
from cbir.ingest.decoder_tasks import StoredQuery
from cbir.search import record_links
from cbir.store import Collection, Record
from service.access.caller import actor_name, current_rights, has_admin_rights
from service.collections.app_state import AppState, current_state
from service.collections.uploads import render_stored_query
from service.features.saved.cases import tables as saved_cases
from service.features.saved.cases.tables import QueryPicture, Viewer
from service.features.saved.messages import (
    CaseContent,
    CaseHit,
    CasePage,
    CaseSearch,
    CaseSummary,
    NewCase,
    SavedCase,
)
from service.http.problems import NotReady
from service.http.request_params import Rendering
from service.http.responses import LabelBudget
from service.state.database import state_database

PICTURE_SIDE = 2048  # pixels of the longer side of a stored query


@dataclass(frozen=True)
class VisibleCase:
    """A case, and the records of its images that the caller may see.

    row: of the database. content: without images that are gone or hidden. missing: number of results left out.
    records: by image id.
    """

    row: Any
    content: CaseContent
    missing: int
    records: dict[str, Record]

    @property
    def query_record(self) -> Record | None:
        """Record of a query in the collection; None for another query, and if it is gone."""
        return self.records.get(self.row.query_image or "")

    def message(self) -> SavedCase:
        """Return the case in the form of the API."""
        name = self.row.collection
        hits = [
            CaseHit(
                **answer.model_dump(),
                labels=self.records[answer.image_id].labels,
                links=record_links(current_state().settings, self.records[answer.image_id]).in_collection(
                    name
                ),
            )
            for answer in self.content.answers
        ]
        LabelBudget().leave_out(hits)
        return SavedCase(
            **_summary(self.row, self.records).model_dump(),
            search=self.content.search,
            rounds=self.content.rounds,
            marks=self.content.marks,
            method=self.content.method,
            outlier=self.content.outlier,
            verdict=self.content.verdict,
            answers=hits,
            missing=self.missing,
        )


def current_viewer() -> Viewer:
    """Return the rights of the caller."""
    rights = current_rights()
    limited = rights is not None and bool(rights.where)
    return Viewer(actor_name(), current_state().visible_names(), has_admin_rights(), limited)


def find_visible_case(case_id: str) -> VisibleCase:
    """Return a case; raises NotFound if the caller may not see it, and NotReady if its collection is unavailable."""
    viewer = current_viewer()
    row = saved_cases.find_case(state_database(), viewer, case_id)
    content = CaseContent.model_validate_json(row.content)
    ids = {*content.image_ids(), *([row.query_image] if row.query_image else [])}
    records = current_state().searcher(row.collection).collection.records_by_id(ids)
    if not _may_see(viewer, row, records):
        raise NotFound(f"there is no case {case_id}")
    kept = content.only(records.__contains__)
    if viewer.limited and row.owner != viewer.owner:  # it counts searches of images that they may not see
        kept = kept.model_copy(update={"verdict": ""})
    return VisibleCase(row, kept, len(content.answers) - len(kept.answers), records)


def find_own_case(case_id: str) -> VisibleCase:
    """Return a case of the caller; raises NotFound for cases of others, also for administrators."""
    case = find_visible_case(case_id)
    require_owner(case.row, f"case {case_id}", "change")
    return case


def list_visible_cases(words: str, before: int | None, limit: int) -> CasePage:
    """Return a page of the cases that the caller may see.

    Parameters
    ----------
    words : str
        Text in title or note; all cases if empty.
    before : int or None
        Only cases with smaller numbers.
    limit : int
        Largest number of cases; pages of callers with limited rights may have fewer.
    """
    viewer = current_viewer()
    rows = saved_cases.list_cases(state_database(), viewer, words, before, limit + 1)
    page = rows[:limit]
    records = _query_records(page)
    items = [
        _summary(row, records[row.collection])
        for row in page
        if _may_see(viewer, row, records[row.collection])
    ]
    return CasePage(items=items, next=str(page[-1].number) if len(rows) > limit else None)


def _may_see(viewer: Viewer, row: Any, records: dict[str, Record]) -> bool:
    """Return False for a case of others about an image that the caller may not see, as far as rights are limited."""
    hidden = row.query_image is not None and row.query_image not in records
    return not (viewer.limited and hidden and row.owner != viewer.owner)


def _query_records(rows: Sequence[Any]) -> dict[str, dict[str, Record]]:
    """Return the records of the queries by collection and image id; none of collections that are unavailable."""
    ids: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        ids[row.collection].update([row.query_image] if row.query_image else [])
    return {name: _records(name, of_collection) for name, of_collection in ids.items()}


def _records(collection: str, image_ids: Iterable[str]) -> dict[str, Record]:
    try:
        return current_state().searcher(collection).collection.records_by_id(image_ids)
    except (NotFound, NotReady, DatabaseUnavailable):
        return {}


def _summary(row: Any, records: dict[str, Record]) -> CaseSummary:
    query = records.get(row.query_image or "")
    picture = f"/v1/cases/{row.case_id}/picture" if row.stored else None
    if query:
        picture = record_links(current_state().settings, query).in_collection(row.collection).thumbnail
    return CaseSummary(id=row.case_id, picture=picture, **common_facts(row))


def common_facts(row: Any) -> dict[str, Any]:
    """Return the fields that `CaseSummary` and `CohortSummary` share, of the row of a case or a cohort."""
    facts = {name: getattr(row, name) for name in ("title", "note", "shared", "collection", "owner")}
    times = {name: iso_time(getattr(row, name)) for name in ("created", "changed")}
    return facts | times | {"mine": row.owner == actor_name()}


def require_owner(row: Any, item: str, action: str, or_admin: bool = False) -> None:
    """Raise NotFound unless the caller owns a row, or, with `or_admin`, is an administrator.

    `item`, its kind and id, and `action` are for the message.
    """
    if row.owner != actor_name() and not (or_admin and has_admin_rights()):
        raise NotFound(f"this caller has no {item}; only its owner can {action} it")


def iso_time(seconds: int) -> str:
    """Return a time of the state database in the form of ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


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
    case = case.model_copy(update={"search": search})
    return saved_cases.add_case(
        state_database(), actor_name(), handle.name, case, picture, patient_key, collection.numbers_by_id
    )


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
