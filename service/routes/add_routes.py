"""Endpoint POST /v1/images: images are on disk before the request is acknowledged."""

import hashlib
import json
import logging
from dataclasses import dataclass

from flask import Blueprint, Response, request
from pydantic import Field

from cbir.errors import CbirError, InvalidInput, UnreadableImage
from cbir.ingest.intake_check import STATISTICS_IMAGES, ReceivedFile, add_received_files
from cbir.search import example_values as example
from cbir.store import DatabaseError
from cbir.store.records import add_transaction
from cbir.store.records.add_transaction import Added, AddTransaction, StoredReply
from cbir.store.writing.writer import Writer
from service.access.audit import log_images
from service.access.caller import actor_name
from service.access.patient_identifiers import limit_new_patients
from service.client.messages import AddedImage, AddedImages
from service.collections.app_state import current_state
from service.collections.label_limits import check_label_sum, check_labels, check_new_keys
from service.collections.mounted_collection import CollectionHandle
from service.collections.uploads import describe_uploads, intake_check
from service.http.operations import IMAGE_FILES, operation
from service.http.problems import Conflict, Malformed, error_location
from service.http.request_bodies import uploaded_files
from service.http.request_params import JSON, request_parameters
from service.routes.image_routes import CollectionParameters

blueprint = Blueprint("add", __name__, url_prefix="/v1/images")

KEY_CHARACTERS = 255

log = logging.getLogger(__name__)


class AnsweredMeanwhile(Exception):
    """Another service has carried out the same request since this one began."""


class AddParameters(CollectionParameters):
    """Parameters of adding images."""

    labels: str | None = Field(
        default=None,
        description="Labels as JSON: an object for all files, or a list with one for each file. The key `patient` "
        "becomes the patient key and is not stored. A picture that the collection has already keeps its own: change "
        "them with `PATCH /v1/images/{id}`.",
        examples=['{"modality": "CT"}'],
    )
    duplicates: bool = Field(
        default=False,
        description="Also add pictures that the collection already has; false by default.",
        examples=[False],
    )
    restore: bool = Field(
        default=False,
        description="Also add pictures that were deleted earlier; false by default.",
        examples=[False],
    )


@dataclass(frozen=True)
class IdempotentRequest:
    """Identity of a request to add images.

    key: hash of its Idempotency-Key, None without one. digest: hash of its content.
    """

    key: str | None
    digest: str

    def replay(self, handle: CollectionHandle) -> Response | None:
        """Return the stored response to the same request; raises InvalidInput if another request used the key."""
        if self.key is None:
            return None
        reply = handle.searcher().collection.find_reply(self.key)
        if reply is None:
            return None
        if reply.request != self.digest:
            raise InvalidInput("Idempotency-Key: already used by another request; use a new key")
        response = _reply_response(reply)
        response.headers["Idempotency-Replayed"] = "true"
        return response


@blueprint.post("")
@operation(
    "add",
    {201: AddedImages, 200: AddedImages, 202: AddedImages},
    query=AddParameters,
    body=IMAGE_FILES,
    form=AddParameters,
    several_files=True,
    headers=("Idempotency-Key",),
    problems=(409,),
    confirm="Add this file to the collection?",
    python='client.add(["query.png"], labels={"modality": "CT"})',
    examples={
        200: AddedImages(ids=[], images=[AddedImage(file=1, outcome="duplicate", image_id=example.IMAGE_ID)])
    },
)
def post_images() -> Response:
    """Add one or more images; after a 201 response they are on disk and searchable.

    Send files in the form field `image`, one field per file, or a single file as the body. Every frame becomes an
    image. 200: nothing is new, the collection has the same pictures; 202: all new images are
    in quarantine (setting `intake`); 409: the pictures were deleted earlier. With an
    `Idempotency-Key` a repeated request gets the first response again for 24 hours and is not executed twice, as long
    as it is among the last 45,000.
    """
    state = current_state()
    with state.concurrency.admit():
        files = uploaded_files(state.settings)
        params = request_parameters(AddParameters)
        handle = state.handle(params.collection)
        labels = parse_labels(params.labels, len(files))
        identity = IdempotentRequest(
            _hashed_key(), add_transaction.digest(params.model_dump_json().encode(), *files)
        )
        if replayed := identity.replay(handle):
            return replayed
        uploads = describe_uploads(state.decoders, handle.searcher().collection, files, labels)
        refused = [
            (number, upload.refused) for number, upload in enumerate(uploads, start=1) if upload.refused
        ]
        if len(refused) == len(files):
            raise UnreadableImage("; ".join(f"file {number}: {why}" for number, why in refused[:5]))
        limit_new_patients(record.patient_key for upload in uploads for record in upload.description.records)
        return _write(handle, uploads, params, identity)


def _write(
    handle: CollectionHandle, uploads: list[ReceivedFile], params: AddParameters, identity: IdempotentRequest
) -> Response:
    stored: list[StoredReply] = []
    with handle.writer(actor_name()) as writer:
        if replayed := identity.replay(handle):  # the same request may have run at the same time
            return replayed
        records = (record for upload in uploads for record in upload.description.records)
        check_new_keys(
            handle.whole_searcher().collection, {key for record in records for key in record.labels}
        )

        def in_transaction(transaction: AddTransaction, added: Added) -> None:
            if identity.key and transaction.find_reply(identity.key):
                raise AnsweredMeanwhile  # so that nothing of this transaction stays
            body = added_images(uploads, added)
            status = 201 if body.ids else 202 if added.quarantined else 409 if added.deleted_earlier else 200
            stored.append(StoredReply(identity.digest, status, body.model_dump_json()))
            if identity.key and status != 409:
                transaction.store_reply(identity.key, stored[0])

        try:
            added = add_received_files(
                writer,
                uploads,
                keep_originals=handle.settings.keep_originals,
                duplicates=params.duplicates,
                restore=params.restore,
                in_transaction=in_transaction,
                intake=intake_check(handle),
            )
        except AnsweredMeanwhile:
            replayed = identity.replay(handle)
            if replayed is None:  # the reply has been erased since
                raise Conflict(
                    "another request with this Idempotency-Key has just been carried out"
                ) from None
            return replayed
        log_images(added.ids)
        if stored[0].status == 409:
            raise Conflict("the picture was deleted earlier; restore=true adds it again")
        refresh_snapshot(writer, handle, added)
    return _reply_response(stored[0])


def refresh_snapshot(writer: Writer, handle: CollectionHandle, added: Added) -> None:
    """Write a new snapshot if too much has changed, and let `auto` be chosen again where that is due.

    The added images are safe without both.

    Parameters
    ----------
    writer : Writer
        Open writer of the collection.
    handle : CollectionHandle
        The collection.
    added : Added
        Result of the write; without new images nothing happens.
    """
    collection = handle.searcher().collection
    if not added.ids or not (collection.statistics() or len(collection) >= STATISTICS_IMAGES):
        return
    try:
        writer.finish()
        if handle.loads_all():  # as the choice does
            handle.choices.wake(handle.whole_searcher().collection)
    except (CbirError, DatabaseError, OSError) as error:
        log.warning("no new snapshot after adding images: %s", error_location(error))


def added_images(uploads: list[ReceivedFile], added: Added) -> AddedImages:
    """Return the outcome of every frame of the `uploads`, from the result `added` of the write."""
    outcomes = iter(added.outcomes)
    images = []
    for number, upload in enumerate(uploads, start=1):
        if upload.refused:
            images.append(AddedImage(file=number, outcome="refused", reason=upload.refused))
        for record in upload.description.records:
            outcome, image_id = next(outcomes)
            images.append(AddedImage(file=number, frame=record.frame, outcome=outcome, image_id=image_id))
    return AddedImages(ids=list(added.ids), images=images)


def parse_labels(text: str | None, files: int) -> list[dict[str, str]]:
    """Parse the parameter `labels` into one dict for each of the `files`; raises InvalidInput."""
    try:
        parsed = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise InvalidInput('labels: must be JSON, for instance {"label": "knee"}') from error
    per_file = parsed if isinstance(parsed, list) else [parsed] * files
    if len(per_file) != files:
        raise InvalidInput(
            f"labels: {len(per_file)} objects for {files} files; send one object, or one per file"
        )
    for labels in per_file:
        if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
            raise InvalidInput('labels: values must be text, for instance {"severity": "1.5"}')
        check_labels({key: value for key, value in labels.items() if key != "patient"})
        check_label_sum(labels)
        if any("\ud800" <= letter <= "\udfff" for letter in json.dumps(labels, ensure_ascii=False)):
            raise InvalidInput("labels: half a surrogate pair is not text")
    return per_file


def _hashed_key() -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not 1 <= len(key) <= KEY_CHARACTERS or not key.isascii() or not key.isprintable():
        raise Malformed(f"Idempotency-Key: 1 to {KEY_CHARACTERS} printable characters")
    return hashlib.blake2b(f"{actor_name()}\n{key}".encode(), digest_size=16).hexdigest()


def _reply_response(reply: StoredReply) -> Response:
    return Response(reply.body, reply.status, mimetype=JSON)
