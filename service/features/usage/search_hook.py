"""Searches of requests that the usage log may keep."""

from flask import Response

from cbir.descriptors.query_image import QueryImage
from cbir.search import Answer, Searcher
from service.features.usage.pending_searches import keep_vector, offer_search
from service.http.search_parameters import SearchParameters
from service.routes.search_hooks import SearchHook


class LoggedSearches(SearchHook):
    """Keeps a search until the page reports that it has shown the answer."""

    def change_queries(
        self, searcher: Searcher, params: SearchParameters, queries: list[QueryImage]
    ) -> list[QueryImage]:
        """Set the vector aside, if the log keeps vectors."""
        return keep_vector(searcher, queries)

    def note_response(self, response: Response, answer: Answer, params: SearchParameters) -> None:
        """Give the page the id of the search."""
        if answer.sites is None:  # the usage log is about images of this service
            offer_search(response, answer, params)


HOOK = LoggedSearches()
