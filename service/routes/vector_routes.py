"""Endpoints of the vectors of images, which are treated as patient data: pictures can be approximated from them."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from flask import Blueprint, Response
from pydantic import ConfigDict, Field

from cbir.gallery.vector_blocks import Floats
from cbir.search import ImageId
from cbir.search import example_values as example
from cbir.search.query_parts import read_vectors
from cbir.store import Collection
from service.access.audit import log_images
from service.client.image_messages import ImageVector, ImageVectors
from service.collections.app_state import current_state
from service.http import request_params
from service.http.operations import json_response, operation
from service.routes.image_routes import CollectionParameters, ImageIdInPath

blueprint = Blueprint("image_sets", __name__, url_prefix="/v1")

MAX_VECTORS = 100  # of a request

Raw = Annotated[
    bool,
    Field(
        description="True for the values of the descriptor, as `vector` of a search takes them; by default "
        "normalised values, whose Euclidean distances are those of searches.",
        examples=[True],
    ),
]


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
    problems=(404, 422),
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
    problems=(400, 404, 413, 415, 422),
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
    return json_response(_message(collection, image_ids, vectors, params.raw))


def _message(collection: Collection, image_ids: Sequence[str], vectors: Floats, raw: bool) -> ImageVectors:
    # As text, a float32 has half the digits that it has as a Python float.
    values = vectors.astype(str).astype(np.float64).tolist()
    items = [ImageVector(image_id=name, values=row) for name, row in zip(image_ids, values, strict=True)]
    profile = collection.profile
    return ImageVectors(
        profile=profile.name, profile_hash=profile.hash, raw=raw, dimensions=vectors.shape[1], items=items
    )
