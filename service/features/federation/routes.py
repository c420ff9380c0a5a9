"""Endpoints that other services ask, with a vector alone."""

from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field

from cbir.errors import InvalidInput
from cbir.rerank.none import NoReranking
from cbir.search import Request
from cbir.search import example_values as example
from service.access.audit import log_images, log_sent
from service.access.auth import count_federated_search
from service.access.caller import actor_name
from service.collections.app_state import current_state
from service.collections.stored_pictures import load_thumbnail
from service.features.federation import answer_site
from service.features.federation.exchange.site_messages import (
    EXAMPLE_HASH,
    EXAMPLE_TRANSFORM,
    MAX_HITS,
    FederatedReply,
    Fingerprint,
    Hash,
    SiteProfile,
)
from service.http import request_params
from service.http.operations import json_response, operation
from service.http.problems import SourceGone
from service.http.search_parameters import AsObject, Vector
from service.http.timeouts import query_deadline
from service.routes import metrics_routes
from service.routes.image_routes import CollectionParameters

blueprint = Blueprint("federation", __name__, url_prefix="/v1/federation")


class FederatedQuestion(request_params.Parameters):
    """A search of another service."""

    vector: Vector = Field(
        description="Raw values of the profile's descriptor, as many as `dimensions`. Finite numbers.",
        examples=[[0.12, 0.0, 3.5]],
    )
    profile_hash: Hash = Field(
        description="Hash of the profile that it was computed with.", examples=[EXAMPLE_HASH]
    )
    transform: Fingerprint = Field(
        description="Fingerprint of the values that it is to be normalised with.",
        examples=[EXAMPLE_TRANSFORM],
    )
    k: int = Field(
        default=20, ge=1, le=MAX_HITS, description="Number of results; 20 by default.", examples=[20]
    )
    where: request_params.Where = Field(default=[])
    rerank: Annotated[str, Field(max_length=request_params.MAX_NAME_CHARACTERS)] = Field(
        default=NoReranking.name,
        description="Re-ranker to use among the images of this site; none by default.",
        examples=["none"],
    )
    parameters: AsObject


@blueprint.get("/profile")
@operation(
    "federation_profile",
    {200: SiteProfile},
    query=CollectionParameters,
    problems=(404,),
    python="site = client.federation_profile()",
    collection_in_path=False,
)
def get_site_profile() -> Response:
    """Return what another service compares before it sends a vector, and what answers to it contain.

    A service that asks sends a vector only if `profile_hash` and `transform` are those of its own collection:
    distances cannot be compared otherwise. `labels`, `thumbnails`, `ids` and `results` are what the settings let
    leave this site.
    """
    state = current_state()
    params = request_params.query_parameters(CollectionParameters)
    with state.concurrency.admit(), state.concurrency.slot():
        collection = state.searcher(params.collection).collection
        return json_response(answer_site.site_profile(collection, state.settings))


@blueprint.post("/search")
@operation(
    "federation_search",
    {200: FederatedReply},
    query=CollectionParameters,
    body={request_params.JSON: FederatedQuestion},
    problems=(400, 404, 413, 415, 422, 504),
    python="site = client.federation_profile()\n"
    f'vector = client.vector("{example.IMAGE_ID}", raw=True).items[0].values\n'
    "client.federation_search(vector, profile_hash=site.profile_hash, transform=site.transform, k=5)",
    collection_in_path=False,
)
def post_site_search() -> Response:
    """Search for another service, by a vector.

    Answers contain distances and the number of images; labels, thumbnails and ids only where the settings
    `federation_labels`, `federation_thumbnails` and `federation_ids` let them leave. A vector of another profile or
    transform is refused, and so is a search that finds fewer images than `federation_minimum`.
    """
    state, settings = current_state(), current_state().settings
    count_federated_search()
    request_params.require_json()
    collection_params = request_params.query_parameters(CollectionParameters)
    question = request_params.json_body(FederatedQuestion)
    if question.k > settings.federation_results:
        raise InvalidInput(f"k: at most {settings.federation_results}, not {question.k}")
    answer_site.require_named_reranker(question.rerank)
    answer_site.require_shared_labels(question.where, settings)
    with state.concurrency.admit():
        searcher = state.searcher(collection_params.collection)
        with state.concurrency.slot(), query_deadline(settings.query_seconds) as deadline:
            own_profile = answer_site.site_profile(searcher.collection, settings)
            answer_site.check_agreement(own_profile, question.profile_hash, question.transform)
            request = Request(
                k=max(question.k, settings.federation_minimum),
                rerank=question.rerank,
                parameters=question.parameters.root,
                where=question.where,
            )
            answer = searcher.by_examples([], request, deadline, question.vector)
        answer_site.require_enough(len(answer.results), settings)

        def thumbnail(image_id: str) -> bytes | None:
            try:
                return load_thumbnail(state, searcher.collection, searcher.collection.record(image_id))
            except SourceGone:
                return None

        writer = answer_site.ReplyWriter(searcher, actor_name(), thumbnail)
        hits = answer.results[: question.k]
        reply = writer.reply(hits, own_profile, answer.rerank.method)
    metrics_routes.observe_stages(answer.timings_ms)
    log_images(hit.image_id for hit in hits)
    log_sent(answer_site.contents_of(reply))
    return json_response(reply)
