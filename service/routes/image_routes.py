"""Endpoints of images: list, show, label, delete, thumbnail and original."""

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any

from flask import Blueprint, Response, send_file
from pydantic import AfterValidator, Field

from cbir.errors import InvalidInput, NotFound
from cbir.search import example_values as example
from cbir.search import record_links
from cbir.search.hit_selection import CardWriter
from cbir.store import Collection, Record
from cbir.store.erasure import erase_deleted
from cbir.store.records import originals
from cbir.store.records.filter_conditions import DicomScope
from cbir.store.records.image_order import OLDEST, SLICES, Position, parse_order
from service.access.audit import log_images
from service.access.caller import actor_name
from service.client.messages import ImagePage, ImageRecord, LabelChange
from service.collections.app_state import current_state
from service.collections.label_limits import (
    KEY_CHARACTERS,
    check_label_change,
    check_labels,
    check_own_filter,
)
from service.collections.stored_pictures import thumbnail_response
from service.http import request_params, responses
from service.http.operations import json_response, operation
from service.http.problems import Malformed, SourceGone
from service.http.responses import asks_for_etag, check_if_match, make_conditional, page_that_fits
from service.http.timeouts import query_deadline

blueprint = Blueprint("images", __name__, url_prefix="/v1/images")

MAX_PAGE = 1000
ImageIdInPath = Annotated[
    str,
    Field(
        description="Id of the image, as `images` and the results of searches name it.",
        examples=[example.IMAGE_ID],
    ),
]
Sort = Annotated[
    str | None,
    Field(
        max_length=len("-label:") + KEY_CHARACTERS,
        description="Order: `oldest` or `newest` by the time of adding, `label:KEY` by the values of a label, "
        "`-label:KEY` the other way round, `slices` by the place of slices in their series. By default `slices` for "
        "a study or series, else `oldest`. Numbers come first, images without the label last, and images with equal "
        "values in the order in which they were added.",
        examples=["label:modality"],
    ),
]
Uid = Annotated[str, Field(max_length=64)]


def check_position(text: str | None) -> str | None:
    """Return the cursor `text` of a list of images; raises Malformed if the service cannot have issued it."""
    parse_position(text)
    return text


def parse_position(text: str | None) -> Position | None:
    """Parse the cursor of a list of images: a number, or base64url of a JSON list of number and label value."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 19:
        return Position(int(text))
    try:
        number, value = json.loads(base64.b64decode(text.encode("ascii"), b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        number, value = None, None
    if type(number) is not int or not 0 <= number < 10**18 or not isinstance(value, str) or "\0" in value:
        raise Malformed("cursor: use the field `next` of the previous page")
    return Position(number, value)


def write_position(position: Position) -> str:
    """Return the cursor of a list that continues after `position`."""
    if position.value is None:
        return str(position.number)
    return base64.urlsafe_b64encode(json.dumps([position.number, position.value]).encode()).decode()


class CollectionParameters(request_params.Parameters):
    """Choice of the collection."""

    collection: str | None = Field(
        default=None,
        description="Name of the collection; the caller's first one by default.",
        examples=["knees"],
    )


Cards = Annotated[
    bool,
    Field(
        description="True for a `card` of each image: finding, age, place in its series and the like.",
        examples=[True],
    ),
]


class RecordParameters(CollectionParameters):
    """Choice of what a record has."""

    cards: Cards = False


CACHEABLE: dict[str, Any] = {"query": CollectionParameters, "headers": ("If-None-Match",)}


def check_cursor(text: str | None) -> str | None:
    """Return the cursor `text`; raises Malformed if the service cannot have issued it."""
    if text is not None and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Malformed("cursor: use the field `next` of the previous page")
    return text


class PageParameters(CollectionParameters):
    """Page of a list."""

    limit: int = Field(
        default=100,
        ge=1,
        le=MAX_PAGE,
        description=f"Items of a page, from 1 to {MAX_PAGE}; 100 by default.",
        examples=[10],
    )
    cursor: Annotated[str | None, AfterValidator(check_cursor)] = Field(
        default=None,
        description="Field `next` of the previous page; omitted for the first page.",
        examples=["100"],
    )


class ImageListParameters(PageParameters):
    """Page of the images that meet conditions."""

    where: request_params.Where = Field(default=[])


class SortedImageParameters(ImageListParameters, RecordParameters):
    """Page of the images that meet conditions, in an order."""

    cursor: Annotated[str | None, AfterValidator(check_position)] = Field(
        default=None,
        description="Field `next` of the previous page; omitted for the first page.",
        examples=["100"],
    )
    sort: Sort = None
    study: Uid = Field(
        default="", description="Study Instance UID: only images of this study.", examples=[example.STUDY_UID]
    )
    series: Uid = Field(
        default="",
        description="Series Instance UID, with `study`: only images of this series.",
        examples=[example.SERIES_UID],
    )


@blueprint.get("")
@operation(
    "images", {200: ImagePage}, query=SortedImageParameters, problems=(504,), python="next(client.images())"
)
def get_images() -> Response:
    """List the images of a collection page by page.

    They come in the order in which they were added, those of a study or series in the order of their slices, or in
    that of `sort`. Send the field `next` of a page as
    `cursor`, with the same other parameters, to get the following one; the last page has none. Pages of long labels
    have fewer images than `limit`.
    """
    state, params = current_state(), request_params.query_parameters(SortedImageParameters)
    if params.series and not params.study:
        raise InvalidInput("series: name its study too")
    default = SLICES if params.study else OLDEST
    order = parse_order(default if params.sort is None else params.sort)
    after = parse_position(params.cursor)
    scope = DicomScope(params.study, params.series) if params.study else None
    collection = state.searcher(params.collection).collection
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        conditions = collection.conditions(params.where)
        limit = params.limit + 1
        rows = collection.sorted_page(order, after, limit, conditions, scope, responses.MAX_ANSWER_LABELS)
        page = page_that_fits(rows[: params.limit], lambda row: row[1].labels)
        items = [image_record(collection, record, params.collection) for _, record in page]
        if params.cards:
            add_record_cards(collection, items)
    log_images(record.image_id for _, record in page)
    body = ImagePage(
        items=items,
        next=write_position(page[-1][0]) if len(rows) > len(page) else None,
    )
    return json_response(body)


@blueprint.get("/<image_id>")
@operation(
    "image",
    {200: ImageRecord, 304: None},
    query=RecordParameters,
    headers=("If-None-Match",),
    problems=(412,),
    python=f'client.image("{example.IMAGE_ID}")',
)
def get_image(image_id: ImageIdInPath) -> Response:
    """Return the record of an image.

    It has the labels, UIDs and patient key, but not the path of the file. The header `ETag` changes with the record.
    """
    params = request_params.query_parameters(RecordParameters)
    collection = current_state().searcher(params.collection).collection
    record = image_record(collection, collection.record(image_id), params.collection)
    if params.cards:
        add_record_cards(collection, [record])
    return make_conditional(_record_response(record), f"the image {image_id}")


@blueprint.patch("/<image_id>")
@operation(
    "set_labels",
    {200: ImageRecord},
    query=CollectionParameters,
    body={request_params.MERGE_PATCH: LabelChange, request_params.JSON: LabelChange},
    headers=("If-Match",),
    problems=(412,),
    confirm="Change the labels of this image?",
    python=f'client.set_labels("{example.IMAGE_ID}", {{"view": "AP"}})',
)
def patch_image(image_id: ImageIdInPath) -> Response:
    """Change the labels of an image: set those given, remove those that are null (RFC 7396).

    Send `If-Match` with the image's ETag to make sure that the labels have not changed in the meantime.
    """
    name = request_params.query_parameters(CollectionParameters).collection
    change = request_params.json_body(LabelChange, request_params.JSON_TYPES)
    check_labels(change.labels)
    check_own_filter(change.labels)
    handle = current_state().handle(name)
    with handle.writer(actor_name()) as writer:
        collection = handle.searcher().collection
        collection.numbers_of([image_id])  # raises NotFound

        def check_unchanged() -> None:
            check_label_change(handle.whole_searcher().collection, [image_id], change.labels)
            if asks_for_etag():  # else a damaged label can be set again
                before = _record_response(image_record(collection, collection.record(image_id), name))
                check_if_match(before, f"the image {image_id}")

        writer.set_labels(image_id, change.labels, check_unchanged)
        return _record_response(image_record(collection, collection.record(image_id), name))


@blueprint.delete("/<image_id>")
@operation(
    "delete",
    {204: None},
    query=CollectionParameters,
    confirm="Delete this image permanently?",
    python=f'client.delete("{example.IMAGE_ID}")',
)
def delete_image(image_id: ImageIdInPath) -> tuple[str, int]:
    """Delete an image permanently.

    Record, vector, thumbnail, stored original and the segmentations that MONAI Label's plugins sent are removed. The
    same picture is not added again unless `restore` is set.
    """
    state, name = current_state(), request_params.query_parameters(CollectionParameters).collection
    with state.handle(name).writer(actor_name()) as writer:
        if not writer.existing_images([image_id]):
            raise NotFound(f"there is no image {image_id} in the collection")
        erase_deleted(state.settings, [image_id])
        writer.delete([image_id])
    state.thumbnails.clear()
    return "", 204


@blueprint.get("/<image_id>/thumbnail")
@operation(
    "thumbnail",
    {200: "image/jpeg", 304: None},
    **CACHEABLE,
    problems=(410, 412),
    python=f'client.thumbnail("{example.IMAGE_ID}")',
)
def get_thumbnail(image_id: ImageIdInPath) -> Response:
    """Return a JPEG thumbnail of an image.

    Its longer side has at most 256 pixels. Where the collection has none, it is made from the file or comes from the
    archive.
    """
    _, collection = requested_collection()
    return thumbnail_response(current_state(), collection, image_id)


@blueprint.get("/<image_id>/original")
@operation(
    "original",
    {200: "application/octet-stream", 304: None},
    **CACHEABLE,
    problems=(410, 412),
    python=f'client.original("{example.IMAGE_ID}")',
)
def get_original(image_id: ImageIdInPath) -> Response:
    """Return the uploaded file of an image.

    The setting `keep_originals` decides whether uploads are stored; 410 if this one is not, or no longer.
    """
    _, collection = requested_collection()
    path = originals.original_path(collection.folder, collection.record(image_id).source)
    if path is None or not path.is_file():
        raise SourceGone("the file of this image is not stored here")
    response = send_file(
        path.resolve(),
        "application/octet-stream",
        as_attachment=True,
        download_name=image_id,
        conditional=False,
        etag=path.name,  # a hash of the file
    )
    response.headers["Cache-Control"] = "private, no-cache"
    return make_conditional(response, "the file")


def image_record(collection: Collection, record: Record, name: str | None) -> ImageRecord:
    """Return a record as clients see it.

    Parameters
    ----------
    collection : Collection
        Collection of the record.
    record : Record
        Record of an image.
    name : str or None
        Name of the collection for links, None if the client named none.
    """
    original = originals.original_path(collection.folder, record.source)
    values = {field: getattr(record, field) for field in ImageRecord.model_fields if hasattr(record, field)}
    links = record_links(current_state().settings, record).in_collection(name)
    return ImageRecord(original=bool(original and original.is_file()), links=links, **values)


def add_record_cards(collection: Collection, records: Sequence[ImageRecord]) -> None:
    """Give each record its card."""
    patients = [record.patient_key for record in records]
    series = [(record.study, record.series) for record in records]
    CardWriter(collection, current_state().settings).write(records, patients, series)


def requested_collection() -> tuple[str | None, Collection]:
    """Return the collection of the request, and its name as the client gave it."""
    name = request_params.query_parameters(CollectionParameters).collection
    return name, current_state().searcher(name).collection


def _record_response(record: ImageRecord) -> Response:
    text = record.model_dump_json()
    response = Response(text, mimetype=request_params.JSON)
    response.set_etag(hashlib.blake2b(text.encode(), digest_size=12).hexdigest())
    # Compressed, it would have a weak ETag, which no If-Match matches.
    response.headers["Cache-Control"] = "no-store, no-transform"
    return response
