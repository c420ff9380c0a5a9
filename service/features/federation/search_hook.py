"""Searches of requests that also ask other services."""

from collections.abc import Sequence

from cbir.descriptors.query_image import QueryImage
from cbir.search import Answer, Request, Searcher
from service.collections.app_state import AppState
from service.features.federation.run_federated import (
    add_sites,
    asks_sites,
    describe_for_sites,
    request_for_sites,
)
from service.http.search_parameters import SearchParameters
from service.routes.search_hooks import SearchHook


class FederatedSearch(SearchHook):
    """Searches here and at other sites, and merges the answers."""

    def change_request(self, state: AppState, params: SearchParameters, request: Request) -> Request:
        """Return the request for this service's part."""
        return request_for_sites(state, params, request) if asks_sites(params) else request

    def change_queries(
        self, searcher: Searcher, params: SearchParameters, queries: list[QueryImage]
    ) -> list[QueryImage]:
        """Return the images with the vectors that other sites get."""
        return describe_for_sites(searcher, queries) if asks_sites(params) else queries

    def change_answer(
        self,
        state: AppState,
        searcher: Searcher,
        params: SearchParameters,
        answer: Answer,
        queries: Sequence[QueryImage],
    ) -> Answer:
        """Return the merged answer."""
        return add_sites(state, searcher, params, answer, queries) if asks_sites(params) else answer


HOOK = FederatedSearch()
