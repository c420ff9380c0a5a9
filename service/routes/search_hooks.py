"""What features do with the searches of requests, before and after them."""

from collections.abc import Iterator, Sequence

from flask import Response

from cbir.descriptors.query_image import QueryImage
from cbir.search import Answer, Request, Searcher
from cbir.system.features import features
from service.collections.app_state import AppState
from service.http.search_parameters import SearchParameters


class SearchHook:
    """What a feature does with a search; every method may be left as it is."""

    def change_request(self, state: AppState, params: SearchParameters, request: Request) -> Request:
        """Return the request to search with here; raises InvalidInput if it cannot be."""
        return request

    def change_queries(
        self, searcher: Searcher, params: SearchParameters, queries: list[QueryImage]
    ) -> list[QueryImage]:
        """Return the images to search with."""
        return queries

    def change_answer(
        self,
        state: AppState,
        searcher: Searcher,
        params: SearchParameters,
        answer: Answer,
        queries: Sequence[QueryImage],
    ) -> Answer:
        """Return the answer of a search with images, vectors or a text; not with `anywhere`."""
        return answer

    def note_response(self, response: Response, answer: Answer, params: SearchParameters) -> None:
        """Note the response to a search of one query, or change its headers."""


def search_hooks() -> Iterator[SearchHook]:
    """Yield the hooks of features, in the order of their names."""
    for feature in features():
        if feature.search_hook:
            yield feature.load(feature.search_hook)
