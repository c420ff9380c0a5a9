"""Endpoints that other services ask with a vector alone: distances, and what the settings let leave."""

import base64
import hmac
from collections.abc import Sequence
from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field

from cbir.errors import InvalidInput, NotFound
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search import Hit, Request, Searcher
from cbir.search import example_values as example
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.records.filter_conditions import parse_filter
from cbir.system.access_rights import Scope
from service.access.audit import log_fields, log_images
from service.access.caller import actor_name, caller_key
from service.access.rate_limits import RequestRate
from service.access.scopes import AccessRule
from service.collections.app_state import AppState, current_state
from service.collections.stored_pictures import load_thumbnail
from service.features.federation.site_agreement import difference, site_profile
from service.features.federation.site_messages import (
    EXAMPLE_HASH,
    EXAMPLE_TRANSFORM,
    MAX_HITS,
    MAX_LABEL_CHARACTERS,
    MAX_THUMBNAIL_BYTES,
    FederatedHit,
    FederatedReply,
    Fingerprint,
    Hash,
    SiteProfile,
    one_line,
)
from service.http import request_params
from service.http.operations import json_response, operation
from service.http.problems import SourceGone, TooManyRequests
from service.http.search_parameters import AsObject, Vector
from service.http.timeouts import query_deadline
from service.routes import metrics_routes
from service.routes.image_routes import CollectionParameters

RULES = {
    # Of other services: their token needs this scope, and may do nothing else.
    "GET /v1/federation/profile": AccessRule(Scope.federate, "site-profile"),
    "POST /v1/federation/search": AccessRule(Scope.federate, "site-search"),
}

blueprint = Blueprint("federation", __name__, url_prefix="/v1/federation")


def name_for(caller: str, collection: Collection, image_id: str) -> str:
    """Return the name that an image has for one caller: always the same, and of no use to find the image's pixels.

    Parameters
    ----------
    caller : str
        Name of the caller.
    collection : Collection
        Its secret goes into the name.
    image_id : str
        The image.
    """
    message = f"{caller}\0{image_id}".encode()
    return hmac.digest(collection.secret, b"federation\0" + message, "sha256").hex()[:32]


def write_reply(
    searcher: Searcher, hits: Sequence[Hit], own_profile: SiteProfile, method: str
) -> FederatedReply:
    """Return the reply to the caller with the images that were found.

    Parameters
    ----------
    searcher : Searcher
        Search of the images that the caller may see.
    hits : sequence of Hit
        The images, best first.
    own_profile : SiteProfile
        Profile of this site.
    method : str
        Re-ranker that was used.
    """
    reranked = method != NoReranking.name
    return FederatedReply(
        profile_hash=own_profile.profile_hash,
        transform=own_profile.transform,
        images=own_profile.images,
        method=method,
        hits=[_shared_hit(searcher, hit, reranked) for hit in hits],
    )


def _shared_hit(searcher: Searcher, hit: Hit, reranked: bool) -> FederatedHit:
    settings, collection = searcher.settings, searcher.collection
    own_id = settings.federation_ids
    keys = [key for key in settings.federation_labels if key in hit.labels]
    picture = _thumbnail(collection, hit.image_id) if settings.federation_thumbnails else None
    fits = picture is not None and len(picture) <= MAX_THUMBNAIL_BYTES
    return FederatedHit(
        image_id=hit.image_id if own_id else name_for(actor_name(), collection, hit.image_id),
        distance=hit.distance,
        score=hit.score if reranked else None,
        labels={key: one_line(hit.labels[key], MAX_LABEL_CHARACTERS) for key in keys},
        thumbnail=base64.b64encode(picture).decode("ascii") if fits and picture else None,
    )


def _thumbnail(collection: Collection, image_id: str) -> bytes | None:
    try:
        return load_thumbnail(current_state(), collection, collection.record(image_id))
    except SourceGone:
        return None


def contents_of(reply: FederatedReply) -> list[str]:
    """Return what a reply lets leave the site, for the audit log."""
    keys = sorted({key for hit in reply.hits for key in hit.labels})
    pictures = sum(hit.thumbnail is not None for hit in reply.hits)
    return [
        f"{len(reply.hits)} distances",
        "number of images",
        *(f"label {key}" for key in keys),
        *([f"{pictures} thumbnails"] if pictures else []),
    ]


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


def _check(question: FederatedQuestion, settings: Settings) -> None:
    """Raise InvalidInput for a question that this site does not answer."""
    if question.k > settings.federation_results:
        raise InvalidInput(f"k: at most {settings.federation_results}, not {question.k}")
    if question.rerank == "auto":
        raise InvalidInput("rerank: auto is another method at each site; name a method, or none")
    for text in question.where:  # hits would tell the values of labels that answers do not contain
        if parse_filter(text).key not in settings.federation_labels:
            raise InvalidInput("where: this site does not share that label; see `labels` of its profile")


@blueprint.get("/profile")
@operation(
    "federation_profile",
    {200: SiteProfile},
    query=CollectionParameters,
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
        return json_response(site_profile(collection, state.settings))


def search_rate(state: AppState) -> RequestRate:
    """Return the limit of searches by other services, as a part of the state of a service."""
    return RequestRate(state.settings.federation_per_minute, database=state.database, name="federation")


def _count_search(state: AppState) -> None:
    rate = state.part(search_rate)
    if wait := rate.seconds_to_wait(caller_key()):
        raise TooManyRequests(
            f"more than {rate.per_minute} searches of another service per minute; try again in {wait} seconds",
            retry_after=wait,
        )


@blueprint.post("/search")
@operation(
    "federation_search",
    {200: FederatedReply},
    query=CollectionParameters,
    body={request_params.JSON: FederatedQuestion},
    problems=(504,),
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
    _count_search(state)
    collection_params = request_params.query_parameters(CollectionParameters)
    question = request_params.json_body(FederatedQuestion)
    _check(question, settings)
    with state.concurrency.admit():
        searcher = state.searcher(collection_params.collection)
        with state.concurrency.slot(), query_deadline(settings.query_seconds) as deadline:
            own_profile = site_profile(searcher.collection, settings)
            theirs = {"profile_hash": question.profile_hash, "transform": question.transform}
            their_profile = own_profile.model_copy(update=theirs | {"profile": "another"})
            if reason := difference(own_profile, their_profile):
                raise InvalidInput(f"the sites differ: {reason}")
            request = Request(
                k=max(question.k, settings.federation_minimum),
                rerank=question.rerank,
                parameters=question.parameters.root,
                where=question.where,
            )
            answer = searcher.by_examples([], request, deadline, question.vector)
        if len(answer.results) < settings.federation_minimum:  # they could be recognised
            raise NotFound(
                f"this site answers searches among at least {settings.federation_minimum} images, and there are fewer"
            )
        hits = answer.results[: question.k]
        reply = write_reply(searcher, hits, own_profile, answer.rerank.method)
    metrics_routes.observe_stages(answer.timings_ms)
    log_images(hit.image_id for hit in hits)
    log_fields(sent=contents_of(reply))
    return json_response(reply)
