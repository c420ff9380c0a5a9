"""STOW-RS (PS3.18, 10.5): DICOM instances into a collection, on the disk before they are acknowledged."""

import json
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import pydicom
from flask import Blueprint, Response
from sqlalchemy import Connection

from cbir.errors import UnreadableImage
from cbir.images.reading import recognise_format
from cbir.images.suppress_logs import suppress_decoder_logs
from cbir.store import dicom_instances
from cbir.store.writer import Added
from service.access.audit import log_images
from service.access.auth import actor_name
from service.api.add_routes import refresh_snapshot
from service.api.image_routes import CollectionParameters
from service.api.operations import FILE, operation
from service.collections.app_state import current_state
from service.collections.mounted_collection import CollectionHandle
from service.http import multipart_related, request_params
from service.ingest.uploads import Sent, extract, store

blueprint = Blueprint("stow", __name__, url_prefix="/dicomweb")

JSON = "application/dicom+json"
DISCARDED = 0xB006  # elements discarded: nothing of it is kept, and it need not be sent again
NOT_UNDERSTOOD = 0xC000  # PS3.3, C.12.3.1


@dataclass(frozen=True)
class StowInstance:
    """One that was sent. sop_class, uid: as it says; "" where it does not. reason: a code, 0 once it is stored."""

    data: bytes
    sop_class: str = ""
    uid: str = ""
    reason: int = 0


@blueprint.post("/studies")
@operation(
    "store_instances",
    {200: JSON, 202: JSON},
    query=CollectionParameters,
    body={multipart_related.RELATED: FILE},
    problems=(400, 404, 409, 413, 415, 422, 507),
)
def post_studies() -> Response:
    """Add DICOM instances as STOW-RS sends them.

    200: all are on the disk, or were there. 202: some are not, and 409 none is; the answer is a store instances
    response (PS3.18, I.2) that says which and why. Objects without an image are discarded with the warning B006.
    """
    here = current_state()
    with here.concurrency.admit():
        wanted = request_params.query_parameters(CollectionParameters)
        place = here.handle(wanted.collection)
        files = multipart_related.dicom_parts(here.settings.max_upload_bytes)
        collection = place.searcher().collection
        told = [_told(data) for data in files]
        with collection.engine.connect() as connection:
            there = dicom_instances.known_instances(connection, [one.uid for one in told])
        new = [place_ for place_, one in enumerate(told) if not one.reason and one.uid not in there]
        with here.concurrency.slot():
            sent = extract(collection, here.settings, [told[place_].data for place_ in new], [{}] * len(new))
        for place_, one in zip(new, sent, strict=True):
            if one.refused:
                told[place_] = replace(told[place_], reason=_reason(one.refused))
        taken = {place_: one for place_, one in zip(new, sent, strict=True) if not one.refused}
        if taken:
            told = _write(place, told, taken, here.settings.keep_originals)
    return _answer(told)


def _write(
    place: CollectionHandle, told: list[StowInstance], taken: dict[int, Sent], keep_originals: bool
) -> list[StowInstance]:
    """Add them in one transaction; the instances with what became of them."""
    with place.writer(actor_name()) as writer:
        with writer.engine.connect() as connection:
            there = dicom_instances.known_instances(connection, [told[place_].uid for place_ in taken])
        places: list[int] = []
        for place_ in taken:  # the same instance may have come by another way, or twice in this request
            if told[place_].uid not in there:
                there.add(told[place_].uid)
                places.append(place_)
        sent = [taken[place_] for place_ in places]

        def also(connection: Connection, added: Added) -> None:
            store(connection, writer.folder, sent, added, keep_originals)

        added = writer.add([entry for one in sent for entry in one.entries], also=also)
        log_images(added.ids)
        each = iter(added.each)
        told = list(told)
        for place_, one in zip(places, sent, strict=True):
            outcomes = {next(each)[0] for _ in one.entries}
            if outcomes == {"deleted earlier"}:
                told[place_] = replace(told[place_], reason=DISCARDED)
        refresh_snapshot(writer, place, added)
    return told


def _told(data: bytes) -> StowInstance:
    """What an instance says it is."""
    try:
        if recognise_format(data) != "dicom":
            return StowInstance(data, reason=NOT_UNDERSTOOD)
        with suppress_decoder_logs():
            found = pydicom.dcmread(
                BytesIO(data), force=True, specific_tags=["SOPClassUID", "SOPInstanceUID"]
            )
            sop_class, uid = str(found.get("SOPClassUID", ""))[:64], str(found.get("SOPInstanceUID", ""))[:64]
    except UnreadableImage:
        return StowInstance(data, reason=NOT_UNDERSTOOD)
    except Exception:  # damaged data sets lead pydicom anywhere
        return StowInstance(data, reason=NOT_UNDERSTOOD)
    return StowInstance(data, sop_class, uid, 0 if uid else NOT_UNDERSTOOD)


def _reason(refused: str) -> int:
    return DISCARDED if "has no pixels:" in refused else NOT_UNDERSTOOD


def _answer(told: list[StowInstance]) -> Response:
    """The store instances response: 1199 for what is stored or discarded, 1198 for what failed."""
    stored = [_item(one) for one in told if one.reason in (0, DISCARDED)]
    failed = [_item(one) for one in told if one.reason not in (0, DISCARDED)]
    body: dict[str, Any] = {}
    if failed:
        body["00081198"] = {"vr": "SQ", "Value": failed}
    if stored:
        body["00081199"] = {"vr": "SQ", "Value": stored}
    status = 200 if all(one.reason == 0 for one in told) else 202 if stored else 409
    return Response(json.dumps(body), status, mimetype=JSON)


def _item(one: StowInstance) -> dict[str, Any]:
    item: dict[str, Any] = {
        "00081150": {"vr": "UI", "Value": [one.sop_class] if one.sop_class else []},
        "00081155": {"vr": "UI", "Value": [one.uid] if one.uid else []},
    }
    if one.reason:  # Warning Reason, or Failure Reason
        item["00081196" if one.reason == DISCARDED else "00081197"] = {"vr": "US", "Value": [one.reason]}
    return item
