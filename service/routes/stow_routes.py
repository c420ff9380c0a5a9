"""Endpoints of STOW-RS (PS3.18, 10.5): instances are on disk before they are acknowledged."""

import json
import logging
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Annotated, Any

from flask import Blueprint, Response
from pydantic import Field
from werkzeug.exceptions import HTTPException

from cbir.errors import CbirError, UnreadableImage
from cbir.ingest.decoder_tasks import read_uids
from cbir.ingest.description import Refusal
from cbir.ingest.intake_check import (
    ReceivedFile,
    add_received_files,
    select_new_instances,
    with_other_pictures,
)
from cbir.ingest.process_memory import share_bytes
from cbir.search import example_values as example
from cbir.store.records import originals
from service.access.audit import log_images
from service.access.caller import actor_name
from service.access.patient_identifiers import limit_new_patients
from service.collections.app_state import current_state
from service.collections.image_sources import Decoders
from service.collections.mounted_collection import CollectionHandle
from service.collections.uploads import describe_uploads, intake_check
from service.http import request_bodies
from service.http.operations import FILE, operation
from service.http.problems import error_location
from service.http.request_params import query_parameters
from service.http.timeouts import Deadline
from service.routes.add_routes import refresh_snapshot
from service.routes.image_routes import CollectionParameters

blueprint = Blueprint("stow", __name__, url_prefix="/dicomweb")

JSON = "application/dicom+json"
# Reasons of PS3.18, I.2
DISCARDED = 0xB006  # elements discarded: nothing of it is stored, and it need not be sent again
NOT_STORED = 0x0110  # processing failure
OTHER_STUDY = 0xA900  # the data set does not match
NOT_UNDERSTOOD = 0xC000
BODY = dict.fromkeys((request_bodies.RELATED, *request_bodies.SINGLE), FILE)
STORED = {  # example of a response
    "00081199": {
        "vr": "SQ",
        "Value": [
            {
                "00081150": {"vr": "UI", "Value": ["1.2.840.10008.5.1.4.1.1.2"]},
                "00081155": {"vr": "UI", "Value": [example.INSTANCE_UID]},
            }
        ],
    }
}
FAILED = {  # the same of an instance that could not be read
    "00081198": {
        "vr": "SQ",
        "Value": [
            {
                "00081150": {"vr": "UI", "Value": []},
                "00081155": {"vr": "UI", "Value": []},
                "00081197": {"vr": "US", "Value": [NOT_UNDERSTOOD]},
            }
        ],
    }
}

log = logging.getLogger(__name__)

SliceStudyUid = Annotated[
    str, Field(description="Study Instance UID of all instances.", examples=[example.SLICE_STUDY_UID])
]


@dataclass
class StowInstance:
    """One uploaded instance.

    sop_class, uid, study: from its header, "" if missing. reason: code of PS3.18, I.2, 0 if it is stored.
    """

    data: bytes
    sop_class: str = ""
    uid: str = ""
    study: str = ""
    reason: int = 0


_store_operation = partial(
    operation,
    responses={200: JSON, 202: JSON, 409: JSON},
    query=CollectionParameters,
    body=BODY,
    problems=(422,),
    confirm="Store this instance in the collection?",
    examples={200: STORED, 202: STORED | FAILED, 409: FAILED},
)


@blueprint.post("/studies")
@_store_operation("store_instances", python='client.store_instances(["slice.dcm"])')
def post_studies() -> Response:
    """Store DICOM instances as STOW-RS sends them.

    200: all instances are on disk, or were before. 202: some are not stored; 409: none is. The response is a store
    instances response (PS3.18, I.2) that lists the reasons. Objects without an image are discarded with the warning
    B006, those with burned-in text where the setting `burned_in` refuses them, and those whose SOP Instance UID the
    collection has with another picture: it stays until it is deleted. One file may be the body itself, as
    `application/dicom` or `application/octet-stream`.
    """
    return _store("")


@blueprint.post("/studies/<study>")
@_store_operation(
    "store_study_instances",
    python=f'client.store_study_instances("{example.SLICE_STUDY_UID}", ["slice.dcm"])',
)
def post_study(study: SliceStudyUid) -> Response:
    """Store DICOM instances of one study.

    As `store_instances`; instances of other studies are not stored (A900).
    """
    return _store(study)


def _store(study: str) -> Response:
    """Store the instances of the body; all of them must be of `study` unless it is ""."""
    state = current_state()
    with state.concurrency.admit():
        params = query_parameters(CollectionParameters)
        handle = state.handle(params.collection)
        files = request_bodies.dicom_parts(state.settings.max_upload_bytes)
        collection = handle.searcher().collection
        instances = [_read_instance(state.decoders, data) for data in files]
        for instance in instances:
            if study and not instance.reason and instance.study != study:
                instance.reason = OTHER_STUDY
        existing = collection.known_files([instance.uid for instance in instances])
        new = [
            item
            for item in instances
            if not item.reason and (item.uid, originals.source_of(item.data)) not in existing
        ]
        data = [instance.data for instance in new]
        uploads = describe_uploads(state.decoders, collection, data, [{}] * len(new))
        for instance, upload in zip(new, uploads, strict=True):
            if upload.refused:
                discarded = upload.description.refusal in (Refusal.no_pixels, Refusal.burned_in)
                instance.reason = DISCARDED if discarded else NOT_UNDERSTOOD
        if accepted := [(item, upload) for item, upload in zip(new, uploads, strict=True) if not item.reason]:
            records = [record for _, upload in accepted for record in upload.description.records]
            limit_new_patients(record.patient_key for record in records)
            _write(handle, accepted)
    return _store_response(instances)


def _write(handle: CollectionHandle, accepted: list[tuple[StowInstance, ReceivedFile]]) -> None:
    """Store the accepted uploads, one by one where one of them may be the reason why they cannot be written."""
    try:
        _write_together(handle, accepted)
    except (CbirError, HTTPException):
        raise
    except Exception:
        written = [_is_written(handle, pair) for pair in accepted]
        if not any(written):
            raise


def _is_written(handle: CollectionHandle, pair: tuple[StowInstance, ReceivedFile]) -> bool:
    try:
        _write_together(handle, [pair])
    except (CbirError, HTTPException):
        raise
    except Exception as error:
        log.error("an instance could not be stored: %s", error_location(error))
        pair[0].reason = NOT_STORED
        return False
    return True


def _write_together(handle: CollectionHandle, accepted: list[tuple[StowInstance, ReceivedFile]]) -> None:
    """Store the accepted uploads in one transaction, and note which are discarded."""
    with handle.writer(actor_name()) as writer:
        # An instance may have arrived otherwise meanwhile, or twice in this request.
        uids = [instance.uid for instance, _ in accepted]
        is_new = select_new_instances(uids, handle.searcher().collection.known_instances(uids))
        new = list(compress(accepted, is_new))
        uploads = [upload for _, upload in new]
        added = add_received_files(
            writer, uploads, keep_originals=handle.settings.keep_originals, intake=intake_check(handle)
        )
        log_images(added.ids)
        outcomes = iter(added.outcomes)
        for instance, upload in new:
            if {next(outcomes)[0] for _ in upload.description.records} == {"deleted earlier"}:
                instance.reason = DISCARDED
        again = [pair for pair, fresh in zip(accepted, is_new, strict=True) if not fresh]
        changed = with_other_pictures(handle.searcher().collection, [upload for _, upload in again])
        for instance, _ in compress(again, changed):
            instance.reason = DISCARDED
        refresh_snapshot(writer, handle, added)


def _read_instance(decoders: Decoders, data: bytes) -> StowInstance:
    """Read class and UID from the header of an instance, in a decoder process."""
    try:
        with share_bytes(data) as shared:
            sop_class, uid, study = decoders.run(
                partial(read_uids, shared, decoders.limits), Deadline().check
            )
    except UnreadableImage:
        return StowInstance(data, reason=NOT_UNDERSTOOD)
    return StowInstance(data, sop_class, uid, study, 0 if uid else NOT_UNDERSTOOD)


def _store_response(instances: list[StowInstance]) -> Response:
    """Return the store instances response: 1199 for stored and discarded instances, 1198 for failed ones."""
    stored = [_item(instance) for instance in instances if instance.reason in (0, DISCARDED)]
    failed = [_item(instance) for instance in instances if instance.reason not in (0, DISCARDED)]
    sequences = {"00081198": failed, "00081199": stored}
    body = {tag: {"vr": "SQ", "Value": items} for tag, items in sequences.items() if items}
    status = 200 if all(instance.reason == 0 for instance in instances) else 202 if stored else 409
    return Response(json.dumps(body), status, mimetype=JSON)


def _item(instance: StowInstance) -> dict[str, Any]:
    item: dict[str, Any] = {
        "00081150": {"vr": "UI", "Value": [instance.sop_class] if instance.sop_class else []},
        "00081155": {"vr": "UI", "Value": [instance.uid] if instance.uid else []},
    }
    if instance.reason:  # Warning Reason, or Failure Reason
        tag = "00081196" if instance.reason == DISCARDED else "00081197"
        item[tag] = {"vr": "US", "Value": [instance.reason]}
    return item
