"""Endpoints of many images at once: show, label, delete, export, and their vectors."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import Annotated

import numpy as np
from flask import Blueprint, Response
from pydantic import ConfigDict, Field

from cbir.errors import InvalidInput
from cbir.search import ImageId
from cbir.search import example_values as example
from cbir.search.query_parts import read_vectors
from cbir.store import Collection, Record
from cbir.store.erasure import erase_deleted
from cbir.store.records.image_order import OLDEST, Order, parse_order
from cbir.store.records.records import table_header, table_row
from cbir.system.threads import checkpoint
from service.access.audit import log_images
from service.access.caller import actor_name
from service.client.image_messages import (
    DeletedImages,
    ImageIds,
    ImageSet,
    ImageVector,
    ImageVectors,
    LabelledCount,
    RecordRequest,
    SetLabelChange,
)
from service.client.messages import ImagePage
from service.collections.app_state import current_state
from service.collections.label_limits import check_label_change, check_labels, check_own_filter
from service.http import request_params, responses
from service.http.operations import json_response, operation
from service.http.responses import LabelBudget
from service.http.timeouts import query_deadline
from service.routes.image_routes import (
    CollectionParameters,
    ImageIdInPath,
    RecordParameters,
    Sort,
    add_record_cards,
    image_record,
)

blueprint = Blueprint("image_sets", __name__, url_prefix="/v1")

MAX_EXPORT = 200_000  # images of a file, which is made in memory
MAX_EXPORT_TEXT = 200 * 2**20  # characters of a file
READ_AT_ONCE = 200  # images whose labels are in memory beside the file
TOO_LONG = "the labels of these images are too long for one table; send conditions or ids"
COLUMNS = ("image_id", "format", "width", "height", "frame", "study", "series", "instance", "patient_key")
MAX_VECTORS = 100  # of a request
Raw = Annotated[
    bool,
    Field(
        description="True for the values of the descriptor, as `vector` of a search takes them; by default "
        "normalised values, whose Euclidean distances are those of searches.",
        examples=[True],
    ),
]


class ExportParameters(CollectionParameters):
    """Images of a table."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"ids": [example.IMAGE_ID], "sort": "oldest"}]}
    )

    ids: ImageIds | None = Field(
        default=None, description="Ids of the images; all images by default.", examples=[[example.IMAGE_ID]]
    )
    where: request_params.Where = Field(default=[])
    sort: Sort = None


@blueprint.patch("/images")
@operation(
    "label_images",
    {200: LabelledCount},
    query=CollectionParameters,
    body={request_params.JSON: SetLabelChange},
    confirm="Change the labels of these images?",
    python=f'client.label_images(["{example.IMAGE_ID}"], {{"view": "AP"}})',
)
def patch_images() -> Response:
    """Change the labels of several images as `set_labels` does for one, all of them or none.

    An unknown id is refused with 404, which names it, and nothing is changed.
    """
    name = request_params.query_parameters(CollectionParameters).collection
    change = request_params.json_body(SetLabelChange)
    check_labels(change.labels)
    check_own_filter(change.labels)
    handle = current_state().handle(name)
    with handle.writer(actor_name()) as writer:
        handle.searcher().collection.numbers_of(change.ids)  # raises NotFound
        log_images(change.ids)
        collection = handle.whole_searcher().collection
        writer.set_labels_of(
            change.ids, change.labels, lambda: check_label_change(collection, change.ids, change.labels)
        )
    return json_response(LabelledCount(labelled=len(set(change.ids))))


@blueprint.post("/images/delete")
@operation(
    "delete_images",
    {200: DeletedImages},
    query=CollectionParameters,
    body={request_params.JSON: ImageSet},
    confirm="Delete these images permanently?",
    python=f'client.delete_images(["{example.IMAGE_ID}"])',
)
def post_delete() -> Response:
    """Delete several images permanently, as `delete` does with one.

    Ids of no image are left out; the response has those of the images that were deleted.
    """
    state, name = current_state(), request_params.query_parameters(CollectionParameters).collection
    images = request_params.json_body(ImageSet)
    with state.handle(name).writer(actor_name()) as writer:
        erase_deleted(state.settings, writer.existing_images(images.ids))
        deleted = writer.delete(images.ids)
    log_images(deleted)
    state.thumbnails.clear()
    return json_response(DeletedImages(deleted=deleted))


@blueprint.post("/images/records")
@operation(
    "image_records",
    {200: ImagePage},
    query=RecordParameters,
    body={request_params.JSON: RecordRequest},
    problems=(504,),
    python=f'client.image_records(["{example.IMAGE_ID}"])',
)
def post_records() -> Response:
    """Return the records of several images, in the order of their ids.

    Ids of no image are left out.
    """
    state, params = current_state(), request_params.query_parameters(RecordParameters)
    name, body = params.collection, request_params.json_body(RecordRequest)
    collection = state.searcher(name).collection
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        records, bare = collection.bounded_records_by_id(body.ids, responses.MAX_ANSWER_LABELS)
    log_images(records)
    items = [
        image_record(collection, records[image_id], name)
        for image_id in dict.fromkeys(body.ids)
        if image_id in records
    ]
    for item in items:
        item.labels_left_out = item.image_id in bare
    LabelBudget().leave_out(items)
    if params.cards:
        add_record_cards(collection, items)
    return json_response(ImagePage(items=items, next=None))


@blueprint.post("/images/export")
@operation(
    "export_images",
    {200: "text/csv"},
    query=CollectionParameters,
    body={request_params.JSON: ExportParameters},
    problems=(504,),
    python='client.export_images("modality=CT")',
)
def post_export() -> Response:
    """Return images with their labels as a csv table.

    Either those of `ids`, in the order in which they were added, or all that meet the conditions. A cell that a
    spreadsheet would run as a formula begins with an apostrophe. The list of `images` has the same facts as JSON.
    """
    request_params.require_json()
    state, params = current_state(), request_params.request_parameters(ExportParameters)
    if params.ids and params.where:
        raise InvalidInput("ids: send either ids or conditions")
    order = parse_order(params.sort or OLDEST)
    collection = state.searcher(params.collection).collection
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        text = _table(collection, params, order)
    response = Response(text, mimetype="text/csv")
    response.headers["Content-Disposition"] = 'attachment; filename="images.csv"'
    return response


def _table(collection: Collection, params: ExportParameters, order: Order) -> str:
    """Return the csv text; it is complete before anything is sent, so that no error leaves half a file."""
    conditions = collection.conditions(params.where)
    if (number := collection.count(conditions)) > MAX_EXPORT and not params.ids:
        raise InvalidInput(
            f"{number} images are too many for one table, which holds {MAX_EXPORT}; send conditions"
        )
    if params.ids:
        numbers = sorted(set(collection.numbers_of(params.ids).tolist()))
        read, bare = collection.bounded_records(numbers, MAX_EXPORT_TEXT)
        if bare:
            raise InvalidInput(TOO_LONG)
        keys = sorted({key for record in read.values() for key in record.labels})
        records: Iterable[Record] = read.values()
    else:
        keys = [key.key for key in collection.list_label_keys(conditions)]
        records = _read_in_blocks(collection, collection.sorted_numbers(order, MAX_EXPORT, conditions))
    file, written = StringIO(newline=""), list[str]()
    table = csv.writer(file)
    table.writerow(table_header(COLUMNS, keys))
    for record in records:
        table.writerow(table_row(record, COLUMNS, keys))
        written.append(record.image_id)
        if file.tell() > MAX_EXPORT_TEXT:
            raise InvalidInput(TOO_LONG)
    log_images(written)
    return file.getvalue()


def _read_in_blocks(collection: Collection, numbers: Sequence[int]) -> Iterator[Record]:
    """Yield the records of images; those deleted meanwhile are left out."""
    for start in range(0, len(numbers), READ_AT_ONCE):
        block = numbers[start : start + READ_AT_ONCE]
        checkpoint()
        records = collection.records(block)
        yield from (records[number] for number in block if number in records)


class VectorParameters(CollectionParameters):
    """Kind of a vector."""

    raw: Raw = False


class VectorRequest(VectorParameters):
    """Images whose vectors are requested."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": [example.IMAGE_ID], "raw": True}]})

    ids: Annotated[list[ImageId], Field(min_length=1, max_length=MAX_VECTORS)] = Field(
        description=f"Ids of 1 to {MAX_VECTORS} images.",
        examples=[[example.IMAGE_ID, example.OTHER_IMAGE_ID]],
    )


@blueprint.get("/images/<image_id>/vector")
@operation(
    "vector",
    {200: ImageVectors},
    query=VectorParameters,
    python=f'client.vector("{example.IMAGE_ID}", raw=True)',
)
def get_vector(image_id: ImageIdInPath) -> Response:
    """Return the vector of an image, raw or normalised.

    It needs the scope `originals`: pictures can be approximated from vectors.
    """
    params = request_params.query_parameters(VectorParameters)
    return _vector_response([image_id], params)


@blueprint.post("/vectors")
@operation(
    "vectors",
    {200: ImageVectors},
    query=CollectionParameters,
    body={request_params.JSON: VectorRequest},
    python=f'client.vectors(["{example.IMAGE_ID}"], raw=True)',
)
def post_vectors() -> Response:
    """Return the vectors of several images, in the order of their ids.

    It needs the scope `originals`, as for one image. An unknown id is refused with 404, which names it.
    """
    request_params.require_json()
    params = request_params.request_parameters(VectorRequest)
    return _vector_response(params.ids, params)


def _vector_response(image_ids: Sequence[str], params: VectorParameters) -> Response:
    state = current_state()
    with state.concurrency.admit(), state.concurrency.slot():
        collection = state.searcher(params.collection).collection
        vectors = read_vectors(collection, image_ids, raw=params.raw)
    log_images(image_ids)
    # As text, a float32 has half the digits that it has as a Python float.
    values = vectors.astype(str).astype(np.float64).tolist()
    items = [ImageVector(image_id=name, values=row) for name, row in zip(image_ids, values, strict=True)]
    profile, dimensions = collection.profile, vectors.shape[1]
    return json_response(
        ImageVectors(
            profile=profile.name,
            profile_hash=profile.hash,
            raw=params.raw,
            dimensions=dimensions,
            items=items,
        )
    )
