"""Searches of requests that also ask other services: which may be, and their merged answer."""

from collections.abc import Sequence
from typing import Any

from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.search import Answer, Searcher
from cbir.search.query_parts import check_vectors
from cbir.settings import Settings
from service.access.audit import log_fields
from service.access.caller import current_rights
from service.features.federation.federated_search import method_for_sites, search_sites
from service.features.federation.site_client import FederatedRequest, sites_of_service
from service.http.search_parameters import SearchBody, SearchParameters
from service.routes.search_hooks import HookedSearch, SearchHook

ALONE = (  # parameters that other sites cannot be asked with
    "anywhere", "examples", "exclude_own_study", "exclude_patient", "feedback", "group_by", "max_distance",
    "same_patient", "score_threshold", "text",
)  # fmt: skip


def asks_sites(params: SearchParameters) -> bool:
    """Return whether a search asks other sites too."""
    return params.federated or bool(params.sites)


class FederatedSearch(SearchHook):
    """Searches here and at other sites, and merges the answers."""

    asks_sites = True

    def prepare(self, search: HookedSearch) -> None:
        """Make the request that of this service's part."""
        params = search.params
        if not asks_sites(params):
            return
        search.state.part(sites_of_service).choose(params.sites)
        for name in ALONE:
            if getattr(params, name, None):
                raise InvalidInput(f"{name}: does not combine with federated; leave one of them out")
        search.request = search.request.model_copy(update={"rerank": method_for_sites(params.rerank)})

    def describe(self, search: HookedSearch) -> None:
        """Compute the vectors that other sites get, so that a network runs once."""
        if asks_sites(search.params):
            searcher = search.searcher
            descriptor = searcher.collection.profile.load_descriptor(searcher.settings.device)
            search.queries = [query.described(descriptor) for query in search.queries]

    def complete(self, search: HookedSearch, answer: Answer) -> Answer:
        """Return the merged answer."""
        params, state = search.params, search.state
        if not asks_sites(params):
            return answer
        vectors = _vectors(search.searcher, params, search.queries)
        if len(vectors) != 1:
            raise InvalidInput("federated: other sites are asked with one image or vector; send one")
        rights = current_rights()
        request = FederatedRequest(
            params.k,
            params.where,
            method_for_sites(params.rerank),
            dict(params.parameters.root),
            rights.where if rights else (),
        )
        clients, collection = state.part(sites_of_service).choose(params.sites), search.searcher.collection
        sent = list[str]()
        try:
            return search_sites(clients, collection, state.settings, vectors[0], request, answer, sent)
        finally:
            log_fields(sent=sorted(sent))


def _vectors(searcher: Searcher, params: SearchParameters, queries: Sequence[QueryImage]) -> list[Floats]:
    collection = searcher.collection
    vectors = [query.features for query in queries]
    if isinstance(params, SearchBody) and not queries:
        vectors += [collection.vector(params.image_id)] if params.image_id else []
        vectors += [*check_vectors(params.vector, collection.profile)] if params.vector else []
    return vectors


HOOK = FederatedSearch()


def federation_facts(_searcher: Searcher, settings: Settings) -> dict[str, Any]:
    """Return the names of the other sites."""
    return {"sites": list(settings.sites)}
