"""Endpoint POST /v1/explain: why images are similar to a query."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from flask import Blueprint, Response, request
from pydantic import BeforeValidator, ConfigDict, Field

from cbir.images import Image, Region, decode
from cbir.ingest.decoder_tasks import describe_choice
from cbir.search import ImageId, Searcher
from cbir.search import example_values as example
from cbir.search.explanation import explain_parts, explaining_encoder, explanation_kind, region_area
from cbir.search.feature_cells import (
    WHOLE,
    Area,
    FeatureCells,
    Floats,
    best_match_maps,
    feature_cells,
    query_cells,
)
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.base.normalisation import Statistics
from cbir.system.access_rights import Scope
from cbir.system.threads import checkpoint
from service.access.audit import log_images
from service.access.scopes import AccessRule
from service.collections.app_state import AppState, current_state
from service.collections.image_sources import decode_source
from service.collections.stored_pictures import load_thumbnail
from service.collections.uploads import describe_task, describe_upload
from service.features.explain.messages import Explanations, ResultExplanation
from service.http import request_params
from service.http.operations import IMAGE_FILES, json_response, operation
from service.http.problems import SourceGone
from service.http.request_bodies import uploaded_file
from service.http.request_params import MAX_NAME_CHARACTERS, Numbers, Rendering, as_list
from service.http.timeouts import query_deadline

DIGITS = 3  # of values in responses
MAX_ANSWERS = 20  # results of a request

RULES = {
    "POST /v1/explain": AccessRule(Scope.search, "explain"),
}
blueprint = Blueprint("explain", __name__, url_prefix="/v1")


@dataclass(frozen=True, eq=False)
class ExplainedQuery:
    """Query of an explanation: the input of the network with the size of the image and a region, or a raw vector."""

    features: Any
    width: int = 0
    height: int = 0
    area: Area = WHOLE


class ResultExplainer:
    """Explains results in one collection, as the caller of the request sees it.

    encoder: whose places are compared; None where the descriptor's parts are.
    """

    def __init__(self, state: AppState, collection: Collection) -> None:
        """Raise InvalidInput if the collection's profile has no explanation."""
        self.collection, self._state = collection, state
        self.encoder = explaining_encoder(collection.profile)

    def query_of_id(self, image_id: str, region: Region | None) -> ExplainedQuery:
        """Return an image of the collection, or a region of it, as query; raises SourceGone without its file."""
        record = self.collection.record(image_id)
        if self.encoder is not None:
            area = region_area(region, record.width, record.height) if region else WHOLE
            picture = self.encoder.prepare(_decode(load_thumbnail(self._state, self.collection, record)))
            return ExplainedQuery(picture, record.width, record.height, area)
        if region is None:
            return ExplainedQuery(self.collection.vector(image_id))
        decoders = self._state.decoders
        describe = partial(describe_choice, task=describe_task(decoders, self.collection))
        part = decode_source(decoders, self.collection, record, describe, region)
        return ExplainedQuery(part.vector(self.collection.profile.load_descriptor()))

    def query_of_upload(self, data: bytes, params: Rendering) -> ExplainedQuery:
        """Return an uploaded image as query; `params`: its frame, window and region."""
        decoders, region = self._state.decoders, params.region
        if self.encoder is None:
            part = describe_upload(decoders, self.collection, data, params)
            return ExplainedQuery(part.vector(self.collection.profile.load_descriptor()))
        whole = params.model_copy(update={"region": None})  # the region is compared in its context
        image = describe_upload(decoders, self.collection, data, whole)
        area = region_area(region, image.width, image.height) if region else WHOLE
        return ExplainedQuery(image.features, image.width, image.height, area)

    def picture(self, record: Record) -> bytes | None:
        """Return the thumbnail that a result is explained by; None where there is none, or none is needed."""
        if self.encoder is None:
            return None
        checkpoint()
        try:
            return load_thumbnail(self._state, self.collection, record)
        except SourceGone:
            return None

    def explain(
        self, query: ExplainedQuery, records: Sequence[Record], pictures: Sequence[bytes | None]
    ) -> list[ResultExplanation]:
        """Explain results.

        Parameters
        ----------
        query : ExplainedQuery
            From `query_of_id` or `query_of_upload`.
        records : sequence of Record
            Results.
        pictures : sequence of bytes or None
            What `picture` returns for each of them.
        """
        if self.encoder is None:
            statistics = self.collection.normalisation()
            return [self._explain_parts(statistics, query.features, record) for record in records]
        queries = query_cells(self.encoder, query.features, query.width, query.height, query.area)
        return [
            self._explain_places(queries, query.area, record, picture)
            for record, picture in zip(records, pictures, strict=True)
        ]

    def _explain_places(
        self, queries: Sequence[FeatureCells], area: Area, record: Record, picture: bytes | None
    ) -> ResultExplanation:
        if picture is None:
            problem = "the file of this image is gone, and no thumbnail is stored"
            return ResultExplanation(image_id=record.image_id, problem=problem)
        assert self.encoder is not None
        checkpoint()
        pixels = self.encoder.prepare(_decode(picture))
        answer = feature_cells(self.encoder, pixels, record.width, record.height)
        maps = best_match_maps(queries, answer, area)
        return ResultExplanation(
            image_id=record.image_id, query_map=_rounded(maps.query), answer_map=_rounded(maps.answer)
        )

    def _explain_parts(self, statistics: Statistics, query: Floats, record: Record) -> ResultExplanation:
        raw = self.collection.vector(record.image_id)
        explained = explain_parts(self.collection.profile, statistics, query, raw)
        return ResultExplanation(
            image_id=record.image_id,
            shares={name: round(share, 6) for name, share in (explained.shares or {}).items()},
            query_edges=_rounded(explained.query_edges),
            answer_edges=_rounded(explained.answer_edges),
        )


def _decode(picture: bytes) -> Image:
    return next(iter(decode(picture)))


def _rounded(values: Floats | None) -> Any:
    return None if values is None else np.round(values.astype(np.float64), DIGITS).tolist()


class ExplainParameters(request_params.Parameters):
    """Results to explain."""

    answers: Annotated[
        list[ImageId], BeforeValidator(as_list), Field(min_length=1, max_length=MAX_ANSWERS)
    ] = Field(
        description=f"Ids of 1 to {MAX_ANSWERS} results.",
        examples=[[example.OTHER_IMAGE_ID]],
    )
    collection: Annotated[str | None, Field(max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Name of the collection; the caller's first one by default.",
        examples=["knees"],
    )


class ExplainByImage(ExplainParameters, Rendering):
    """Explain the results of an uploaded image; frame, region and window are those of the search."""


class ExplainById(ExplainParameters):
    """Explain the results of an image of the collection."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"image_id": example.IMAGE_ID, "answers": [example.OTHER_IMAGE_ID]}]}
    )

    image_id: ImageId = Field(
        description="Id of the image that was searched with.", examples=[example.IMAGE_ID]
    )
    region: Annotated[Region | None, Numbers] = Field(
        default=None,
        description="Part of `image_id` that was searched with, as x,y,width,height in pixels from its upper left "
        "corner.",
        examples=[[40, 60, 120, 80]],
    )


@blueprint.post("/explain")
@operation(
    "explain",
    {200: Explanations},
    body={request_params.JSON: ExplainById, **IMAGE_FILES},
    form=ExplainByImage,
    query=ExplainByImage,
    problems=(410, 504),
    python=f'client.explain("query.png", ["{example.OTHER_IMAGE_ID}"])',
)
def post_explain() -> Response:
    """Explain why images are similar to a query.

    Send the query as for a search of images, and the ids of results. For encoders of images the answer has maps of
    the places that match; a region is compared in the context of its image. For descriptors of several parts, such as
    huang2012, it has the shares of the parts in the distance. It shows what images have in common for the
    descriptor, and is no diagnosis. Other profiles are refused with 422, among them trained embeddings.
    """
    state = current_state()
    with state.concurrency.admit():
        params: ExplainById | ExplainByImage
        if request.mimetype == request_params.JSON:
            params = request_params.request_parameters(ExplainById)
        else:
            data = uploaded_file(state.settings)
            params = request_params.request_parameters(ExplainByImage)
        explainer = ResultExplainer(state, state.searcher(params.collection).collection)
        if isinstance(params, ExplainById):
            query = explainer.query_of_id(params.image_id, params.region)
        else:
            query = explainer.query_of_upload(data, params)
        records = [explainer.collection.record(image_id) for image_id in params.answers]
        with query_deadline(state.settings.query_seconds):  # rendered where no thumbnails are stored
            pictures = [explainer.picture(record) for record in records]
        with state.concurrency.slot(), query_deadline(state.settings.query_seconds):
            items = explainer.explain(query, records, pictures)
    asked = [params.image_id] if isinstance(params, ExplainById) else []
    log_images([*asked, *params.answers])
    return json_response(Explanations(kind="places" if explainer.encoder else "parts", items=items))


def explain_facts(searcher: Searcher, _settings: Settings) -> dict[str, Any]:
    """Return the kind of explanations that a collection has; empty for none."""
    return {"kind": explanation_kind(searcher.collection.profile)}
