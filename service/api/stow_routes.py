"""Endpoint POST /dicomweb/studies: STOW-RS (PS3.18, 10.5), instances are on disk before they are acknowledged."""

import json
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import pydicom
from flask import Blueprint, Response

from cbir.errors import UnreadableImage
from cbir.images.reading import recognise_format
from cbir.images.suppress_logs import suppress_decoder_logs
from cbir.ingest.description import Refusal
from cbir.ingest.received_files import ReceivedFile, add_received_files, select_new_instances
from service.access.audit import log_images
from service.access.auth import actor_name
from service.api.add_routes import refresh_snapshot
from service.api.image_routes import CollectionParameters
from service.api.operations import FILE, operation
from service.collections.app_state import current_state
from service.collections.mounted_collection import CollectionHandle
from service.http import multipart_related
from service.http.request_params import query_parameters
from service.ingest.uploads import describe_uploads

blueprint = Blueprint("stow", __name__, url_prefix="/dicomweb")

JSON = "application/dicom+json"
DISCARDED = 0xB006  # elements discarded: nothing of it is stored, and it need not be sent again
NOT_UNDERSTOOD = 0xC000  # PS3.3, C.12.3.1


@dataclass(frozen=True)
class StowInstance:
    """One uploaded instance.

    sop_class, uid: from its header, "" if missing. reason: code of PS3.3, C.12.3.1, 0 if it is stored.
    """

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
    """Store DICOM instances as STOW-RS sends them.

    200: all instances are on disk, or were before. 202: some are not stored; 409: none is. The response is a store
    instances response (PS3.18, I.2) that lists the reasons. Objects without an image are discarded with the warning
    B006.
    """
    state = current_state()
    with state.concurrency.admit():
        params = query_parameters(CollectionParameters)
        handle = state.handle(params.collection)
        files = multipart_related.dicom_parts(state.settings.max_upload_bytes)
        collection = handle.searcher().collection
        instances = [_read_instance(data) for data in files]
        existing = collection.known_instances([instance.uid for instance in instances])
        new = [
            i for i, instance in enumerate(instances) if not instance.reason and instance.uid not in existing
        ]
        with state.concurrency.slot():
            data = [instances[index].data for index in new]
            described = describe_uploads(collection, state.settings, data, [{}] * len(new))
        uploads = dict(zip(new, described, strict=True))
        for index, upload in uploads.items():
            if upload.refused:
                instances[index] = replace(instances[index], reason=_reason(upload))
        accepted = {index: upload for index, upload in uploads.items() if not upload.refused}
        if accepted:
            instances = _write(handle, instances, accepted, state.settings.keep_originals)
    return _store_response(instances)


def _write(
    handle: CollectionHandle,
    instances: list[StowInstance],
    accepted: dict[int, ReceivedFile],
    keep_originals: bool,
) -> list[StowInstance]:
    """Store the accepted uploads, by index of their instance, in one transaction; return the instances' outcome."""
    with handle.writer(actor_name()) as writer:
        # An instance may have arrived otherwise meanwhile, or twice in this request.
        uids = [instances[index].uid for index in accepted]
        is_new = select_new_instances(uids, handle.searcher().collection.known_instances(uids))
        new = [index for index, flag in zip(accepted, is_new, strict=True) if flag]
        uploads = [accepted[index] for index in new]
        added = add_received_files(writer, uploads, keep_originals=keep_originals)
        log_images(added.ids)
        outcomes = iter(added.outcomes)
        instances = list(instances)
        for index, upload in zip(new, uploads, strict=True):
            if {next(outcomes)[0] for _ in upload.description.records} == {"deleted earlier"}:
                instances[index] = replace(instances[index], reason=DISCARDED)
        refresh_snapshot(writer, handle, added)
    return instances


def _read_instance(data: bytes) -> StowInstance:
    """Read class and UID from the header of an instance."""
    try:
        if recognise_format(data) != "dicom":
            return StowInstance(data, reason=NOT_UNDERSTOOD)
        with suppress_decoder_logs():
            header = pydicom.dcmread(
                BytesIO(data), force=True, specific_tags=["SOPClassUID", "SOPInstanceUID"]
            )
            sop_class = str(header.get("SOPClassUID", ""))[:64]
            uid = str(header.get("SOPInstanceUID", ""))[:64]
    except UnreadableImage:
        return StowInstance(data, reason=NOT_UNDERSTOOD)
    except Exception:  # pydicom raises anything on damaged data sets
        return StowInstance(data, reason=NOT_UNDERSTOOD)
    return StowInstance(data, sop_class, uid, 0 if uid else NOT_UNDERSTOOD)


def _reason(upload: ReceivedFile) -> int:
    return DISCARDED if upload.description.refusal is Refusal.no_pixels else NOT_UNDERSTOOD


def _store_response(instances: list[StowInstance]) -> Response:
    """Return the store instances response: 1199 for stored and discarded instances, 1198 for failed ones."""
    stored = [_item(instance) for instance in instances if instance.reason in (0, DISCARDED)]
    failed = [_item(instance) for instance in instances if instance.reason not in (0, DISCARDED)]
    body: dict[str, Any] = {}
    if failed:
        body["00081198"] = {"vr": "SQ", "Value": failed}
    if stored:
        body["00081199"] = {"vr": "SQ", "Value": stored}
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
