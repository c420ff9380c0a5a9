"""Searches that also ask other services: which may be, and their merged answer."""

from collections.abc import Sequence

from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.search import Answer, Request, Searcher
from cbir.search.query_parts import check_vectors
from service.access.audit import log_sent
from service.access.caller import current_rights
from service.collections.app_state import AppState
from service.features.federation.ask_sites import sites_of_service
from service.features.federation.federated_search import (
    FederatedRequest,
    method_for_sites,
    require_one_vector,
    search_sites,
)
from service.http.search_parameters import SearchBody, SearchParameters

ALONE = (  # parameters that other sites cannot be asked with
    "anywhere", "examples", "exclude_patient", "feedback", "group_by", "max_distance", "same_patient",
    "score_threshold", "text",
)  # fmt: skip


def asks_sites(params: SearchParameters) -> bool:
    """Return whether a search asks other sites too."""
    return params.federated or bool(params.sites)


def request_for_sites(state: AppState, params: SearchParameters, request: Request) -> Request:
    """Return the request for this service's part of a search of several; raises InvalidInput if it cannot be.

    Parameters
    ----------
    state : AppState
        State of the service.
    params : SearchParameters
        Parameters of the search.
    request : Request
        Request as it would be without other sites.
    """
    state.part(sites_of_service).choose(params.sites)
    for name in ALONE:
        if getattr(params, name, None):
            raise InvalidInput(f"{name}: does not combine with federated; leave one of them out")
    return request.model_copy(update={"rerank": method_for_sites(params.rerank)})


def describe_for_sites(searcher: Searcher, queries: Sequence[QueryImage]) -> list[QueryImage]:
    """Return the images with their vectors, so that a network runs once."""
    descriptor = searcher.collection.profile.load_descriptor(searcher.settings.device)
    return [query.described(descriptor) for query in queries]


def add_sites(
    state: AppState,
    searcher: Searcher,
    params: SearchParameters,
    answer: Answer,
    queries: Sequence[QueryImage],
) -> Answer:
    """Ask the other sites of a search, and return the merged answer.

    Parameters
    ----------
    state : AppState
        State of the service.
    searcher : Searcher
        Searcher of this service's part.
    params : SearchParameters
        Parameters of the search.
    answer : Answer
        Answer of this service.
    queries : sequence of QueryImage
        Described query images; empty for a search with an image id or vectors.
    """
    vector = require_one_vector(_vectors(searcher, params, queries))
    rights = current_rights()
    request = FederatedRequest(
        params.k,
        params.where,
        method_for_sites(params.rerank),
        dict(params.parameters.root),
        rights.where if rights else (),
    )
    clients = state.part(sites_of_service).choose(params.sites)
    sent = list[str]()
    try:
        return search_sites(clients, searcher.collection, state.settings, vector, request, answer, sent)
    finally:
        log_sent(sorted(sent))


def _vectors(searcher: Searcher, params: SearchParameters, queries: Sequence[QueryImage]) -> list[Floats]:
    collection = searcher.collection
    vectors = [query.features for query in queries]
    if isinstance(params, SearchBody) and not queries:
        vectors += [collection.vector(params.image_id)] if params.image_id else []
        vectors += [*check_vectors(params.vector, collection.profile)] if params.vector else []
    return vectors
