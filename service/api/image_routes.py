"""The images of a collection: listed, added, shown, labelled and deleted."""

import hashlib
from typing import Annotated

from flask import Blueprint, Response, request, send_file
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from werkzeug.exceptions import UnsupportedMediaType

from cbir.errors import InvalidInput, NotFound
from cbir.client.messages import ImagePage, ImageRecord, LabelChange
from cbir.store import Collection, Record, originals
from cbir.store.filters import parse
from service.collections import thumbnail_response
from service.http import request_params
from service.access.audit import log_images
from service.http.etag import check_expected, finish
from service.api.hit_links import of_record
from service.api.operations import operation
from service.http.problems import Malformed, SourceGone
from service.collections.app_state import state
from service.access.auth import actor_name

blueprint = Blueprint("images", __name__, url_prefix="/v1/images")

MOST_AT_ONCE = 1000
KEY_CHARACTERS, VALUE_CHARACTERS = 100, 1000
OPERATORS = "=!<>"


class InCollection(BaseModel):
    """collection: None for the first one."""

    model_config = ConfigDict(extra="forbid")

    collection: str | None = None


def check_cursor(text: str | None) -> str | None:
    """A cursor that we gave out; raises Malformed for other text."""
    if text is not None and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Malformed("cursor: take it from the field `next` of the page before")
    return text


class Listing(InCollection):
    """limit: images on a page. cursor: `next` of the page before. where: conditions that all must hold."""

    limit: int = Field(100, ge=1, le=MOST_AT_ONCE)
    cursor: Annotated[str | None, AfterValidator(check_cursor)] = None
    where: request_params.Where = []


@blueprint.get("")
@operation("images", {200: ImagePage}, query=Listing, problems=(400, 404, 422))
def images() -> Response:
    """The images of a collection, in the order they came, a page at a time."""
    wanted = request_params.query(Listing)
    collection = state().searcher(wanted.collection).collection
    conditions = [parse(text) for text in wanted.where]
    found = collection.page(int(wanted.cursor or 0), wanted.limit + 1, conditions)
    shown = found[: wanted.limit]
    log_images(record.image_id for _, record in shown)
    page = ImagePage(
        items=[describe(collection, record, wanted.collection) for _, record in shown],
        next=str(shown[-1][0]) if len(found) > len(shown) else None,
    )
    return Response(page.model_dump_json(), mimetype=request_params.JSON)


@blueprint.get("/<image_id>")
@operation(
    "image",
    {200: ImageRecord, 304: None},
    query=InCollection,
    headers=("If-None-Match",),
    problems=(404, 412, 422),
)
def image(image_id: str) -> Response:
    """What the collection knows of an image, but for where it was read from."""
    name = request_params.query(InCollection).collection
    collection = state().searcher(name).collection
    return finish(_answer(describe(collection, collection.record(image_id), name)), f"the image {image_id}")


@blueprint.patch("/<image_id>")
@operation(
    "set_labels",
    {200: ImageRecord},
    query=InCollection,
    body={request_params.MERGE_PATCH: LabelChange, request_params.JSON: LabelChange},
    headers=("If-Match",),
    problems=(400, 404, 412, 413, 415, 422, 507),
)
def set_labels(image_id: str) -> Response:
    """Change the labels of an image: those named are set, those that are null are taken away (RFC 7396).

    `If-Match` with the image's ETag makes sure that nobody changed them meanwhile.
    """
    if request.mimetype not in request_params.JSON_KINDS:
        raise UnsupportedMediaType(f"send {request_params.MERGE_PATCH} or {request_params.JSON}")
    name = request_params.query(InCollection).collection
    change = request_params.body(LabelChange)
    check_labels(change.labels)
    place = state().place(name)
    with place.writer(actor_name()) as writer:
        collection = place.searcher().collection
        before = _answer(describe(collection, collection.record(image_id), name))
        check_expected(before, f"the image {image_id}")
        writer.set_labels(image_id, change.labels)
        return _answer(describe(collection, collection.record(image_id), name))


@blueprint.delete("/<image_id>")
@operation("delete", {204: None}, query=InCollection, problems=(404, 422, 507))
def delete(image_id: str) -> tuple[str, int]:
    """Delete an image for good: its picture is not taken in again unless that is asked for."""
    here, name = state(), request_params.query(InCollection).collection
    with here.place(name).writer(actor_name()) as writer:
        if not writer.delete([image_id]):
            raise NotFound(f"there is no image {image_id} in the collection")
    here.thumbnails.clear()
    return "", 204


@blueprint.get("/<image_id>/thumbnail")
@operation(
    "thumbnail",
    {200: "image/jpeg", 304: None},
    query=InCollection,
    headers=("If-None-Match",),
    problems=(404, 410, 412, 422),
)
def thumbnail(image_id: str) -> Response:
    """A JPEG, its longer side at most 256 pixels."""
    here, name = state(), request_params.query(InCollection).collection
    return thumbnail_response.answer(here, here.searcher(name).collection, image_id)


@blueprint.get("/<image_id>/original")
@operation(
    "original",
    {200: "application/octet-stream", 304: None},
    query=InCollection,
    headers=("If-None-Match",),
    problems=(404, 410, 412, 422),
)
def original(image_id: str) -> Response:
    """The file that an image was sent as, where the setting `keep_originals` kept it."""
    collection = state().searcher(request_params.query(InCollection).collection).collection
    kept = originals.path(collection.folder, collection.record(image_id).source)
    if kept is None or not kept.is_file():
        raise SourceGone("the file of this image is not kept here")
    response = send_file(
        kept.resolve(),
        "application/octet-stream",
        as_attachment=True,
        download_name=image_id,
        conditional=False,
        etag=kept.name,  # a hash of the file
    )
    response.headers["Cache-Control"] = "private, no-cache"
    return finish(response, "the file")


def describe(collection: Collection, record: Record, name: str | None) -> ImageRecord:
    """A record as the client sees it. name: of the collection, None where the client named none."""
    kept = originals.path(collection.folder, record.source)
    values = {field: getattr(record, field) for field in ImageRecord.model_fields if hasattr(record, field)}
    places = of_record(state().settings, record, name)
    return ImageRecord(original=bool(kept and kept.is_file()), links=places, **values)


def check_labels(given: dict[str, str | None]) -> None:
    """Raise InvalidInput for labels that could not be filtered by, or that name a patient."""
    for key, value in given.items():
        if not key.strip() or key != key.strip() or len(key) > KEY_CHARACTERS or set(key) & set(OPERATORS):
            raise InvalidInput(
                f"labels: a key has 1 to {KEY_CHARACTERS} characters, none of {' '.join(OPERATORS)}, "
                "and no space around"
            )
        if key == "patient":
            raise InvalidInput("labels: whose image it is cannot be changed; delete it and add it again")
        if value is not None and not 1 <= len(value) <= VALUE_CHARACTERS:
            raise InvalidInput(f"labels: the value of {key} must have 1 to {VALUE_CHARACTERS} characters")


def _answer(record: ImageRecord) -> Response:
    text = record.model_dump_json()
    response = Response(text, mimetype=request_params.JSON)
    response.set_etag(hashlib.blake2b(text.encode(), digest_size=12).hexdigest())
    return response
