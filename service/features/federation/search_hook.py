"""Searches of requests that also ask other services."""

from cbir.search import Answer
from service.features.federation.run_federated import (
    add_sites,
    asks_sites,
    describe_for_sites,
    request_for_sites,
)
from service.routes.search_hooks import HookedSearch, SearchHook


class FederatedSearch(SearchHook):
    """Searches here and at other sites, and merges the answers."""

    asks_sites = True

    def prepare(self, search: HookedSearch) -> None:
        """Make the request that of this service's part."""
        if asks_sites(search.params):
            search.request = request_for_sites(search.state, search.params, search.request)

    def describe(self, search: HookedSearch) -> None:
        """Compute the vectors that other sites get."""
        if asks_sites(search.params):
            search.queries = describe_for_sites(search.searcher, search.queries)

    def complete(self, search: HookedSearch, answer: Answer) -> Answer:
        """Return the merged answer."""
        if not asks_sites(search.params):
            return answer
        return add_sites(search.state, search.searcher, search.params, answer, search.queries)


HOOK = FederatedSearch()
