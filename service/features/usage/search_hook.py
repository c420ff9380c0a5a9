"""Searches of requests that the usage log may keep."""

from flask import Response

from cbir.search import Answer
from service.features.usage.pending_searches import keep_vector, offer_search
from service.http.search_parameters import SearchParameters
from service.routes.search_hooks import HookedSearch, SearchHook


class LoggedSearches(SearchHook):
    """Keeps a search until the page reports that it has shown the answer."""

    def describe(self, search: HookedSearch) -> None:
        """Set the vector aside, if the log keeps vectors."""
        search.queries = keep_vector(search.searcher, search.queries)

    def note_response(self, response: Response, answer: Answer, params: SearchParameters) -> None:
        """Give the page that gets `response` the id of the search with `params` and `answer`."""
        if answer.sites is None:  # the usage log is about images of this service
            offer_search(response, answer, params)


HOOK = LoggedSearches()
