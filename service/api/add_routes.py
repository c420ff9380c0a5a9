"""Adding images that are sent: on the disk before they are acknowledged."""

import hashlib
import json
import logging
from typing import Any

from flask import Blueprint, Response, request
from sqlalchemy.exc import DatabaseError

from cbir.errors import CbirError, InvalidInput, UnreadableImage
from cbir.client.messages import AddedImage, AddedImages
from cbir.store import replies
from cbir.store.replies import Reply
from cbir.store.writer import Added, Writer
from service.http import request_params
from service.access.audit import log_images
from service.api.image_routes import InCollection, check_labels
from service.incoming import Sent, extract, store
from service.api.operations import FILE, operation
from service.collections.mounted_collection import Place
from service.http.problems import Conflict, Malformed, where
from service.collections.app_state import state
from service.access.auth import actor_name

blueprint = Blueprint("add", __name__, url_prefix="/v1/images")

ENOUGH = 256  # images in a collection without statistics before they are learnt
KEY_CHARACTERS = 255

log = logging.getLogger(__name__)


class Adding(InCollection):
    """labels: JSON, an object for all files or a list with one for each; `patient` becomes the patient key.

    duplicates: also take pictures that are there. restore: also those that were deleted earlier.
    """

    labels: str | None = None
    duplicates: bool = False
    restore: bool = False


@blueprint.post("")
@operation(
    "add",
    {201: AddedImages, 200: AddedImages},
    query=Adding,
    body={"image/*": FILE, "application/dicom": FILE, "application/octet-stream": FILE},
    form=Adding,
    several_files=True,
    headers=("Idempotency-Key",),
    problems=(400, 404, 409, 413, 415, 422, 507),
)
def add() -> Response:
    """Add one image or many; when this answers 201 they are on the disk and can be searched.

    Files go into the field `image` of a form, as often as there are files, or one is the body itself. Every frame
    becomes an image. 200: nothing is new, the same pictures are there; 409: somebody deleted them earlier. With an
    `Idempotency-Key` the same request sent again within 24 hours is answered as before and not done again.
    """
    here = state()
    with here.gate.place():
        files = request_params.uploads(here.settings)
        wanted = request_params.parameters(Adding)
        place = here.place(wanted.collection)
        given = labels(wanted.labels, len(files))
        key, digest = _key(), replies.digest(wanted.model_dump_json().encode(), *files)
        earlier = _earlier(place, key, digest)
        if earlier:
            return earlier
        with here.gate.turn():
            sent = extract(place.searcher().collection, here.settings, files, given)
        refused = [(number, one.refused) for number, one in enumerate(sent, start=1) if one.refused]
        if len(refused) == len(files):
            raise UnreadableImage("; ".join(f"file {number}: {why}" for number, why in refused[:5]))
        return _write(place, sent, wanted, key, digest, here.settings.keep_originals)


def _write(
    place: Place, sent: list[Sent], wanted: Adding, key: str | None, digest: str, keep_originals: bool
) -> Response:
    entries = [entry for one in sent for entry in one.entries]
    said: list[Reply] = []
    with place.writer(actor_name()) as writer:
        earlier = _earlier(place, key, digest)  # the same request may have been under way
        if earlier:
            return earlier

        def also(connection: Any, added: Added) -> None:
            store(connection, writer.folder, sent, added, keep_originals)
            body = outcome(sent, added)
            status = 201 if body.ids else 409 if added.deleted_earlier else 200
            said.append(Reply(digest, status, body.model_dump_json()))
            if key and status != 409:
                replies.keep(connection, key, said[0])

        added = writer.add(entries, duplicates=wanted.duplicates, restore=wanted.restore, also=also)
        log_images(added.ids)
        if said[0].status == 409:
            raise Conflict("the picture was deleted earlier by somebody; restore=true takes it in again")
        renew_where_needed(writer, place, added)
    return _answer(said[0])


def renew_where_needed(writer: Writer, place: Place, added: Added) -> None:
    """A new snapshot where too much has changed; what was added is safe without it."""
    collection = place.searcher().collection
    if not added.ids or not (collection.statistics() or len(collection) >= ENOUGH):
        return
    try:
        writer.finish()
    except (CbirError, DatabaseError, OSError) as error:
        log.warning("no new snapshot after adding images: %s", where(error))


def outcome(sent: list[Sent], added: Added) -> AddedImages:
    """What became of every frame of every file."""
    each = iter(added.each)
    images = []
    for number, one in enumerate(sent, start=1):
        if one.refused:
            images.append(AddedImage(file=number, outcome="refused", reason=one.refused))
        for record, _ in one.entries:
            what, image_id = next(each)
            images.append(AddedImage(file=number, frame=record.frame, outcome=what, image_id=image_id))
    return AddedImages(ids=list(added.ids), images=images)


def labels(text: str | None, files: int) -> list[dict[str, str]]:
    """The labels of each file; raises InvalidInput."""
    try:
        given = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise InvalidInput('labels: must be JSON, for instance {"label": "knee"}') from error
    each = given if isinstance(given, list) else [given] * files
    if len(each) != files:
        raise InvalidInput(
            f"labels: {len(each)} objects for {files} files; send one object, or one for each file"
        )
    for one in each:
        if not isinstance(one, dict) or not all(isinstance(value, str) for value in one.values()):
            raise InvalidInput('labels: values must be text, for instance {"severity": "1.5"}')
        check_labels({key: value for key, value in one.items() if key != "patient"})
        if any("\ud800" <= letter <= "\udfff" for letter in json.dumps(one, ensure_ascii=False)):
            raise InvalidInput("labels: half a surrogate pair is no text")
    return each


def _key() -> str | None:
    given = request.headers.get("Idempotency-Key")
    if given is None:
        return None
    if not 1 <= len(given) <= KEY_CHARACTERS or not given.isascii() or not given.isprintable():
        raise Malformed(f"Idempotency-Key: 1 to {KEY_CHARACTERS} printable characters")
    return hashlib.blake2b(f"{actor_name()}\n{given}".encode(), digest_size=16).hexdigest()


def _earlier(place: Place, key: str | None, digest: str) -> Response | None:
    """What the same request was answered before; raises InvalidInput where another one had its key."""
    if key is None:
        return None
    with place.searcher().collection.engine.connect() as connection:
        found = replies.find(connection, key)
    if found is None:
        return None
    if found.request != digest:
        raise InvalidInput("Idempotency-Key: another request was sent with this one; use a new key")
    response = _answer(found)
    response.headers["Idempotency-Replayed"] = "true"
    return response


def _answer(reply: Reply) -> Response:
    return Response(reply.body, reply.status, mimetype=request_params.JSON)
