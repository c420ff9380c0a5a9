"""Hooks of features into the searches of requests, before and after them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from flask import Response

from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.search import Answer, Request, Searcher
from cbir.system.features import features
from service.collections.app_state import AppState
from service.http.search_parameters import SearchParameters


@dataclass
class HookedSearch:
    """A search that hooks may change.

    queries: images to search with, none for ids, vectors and texts. files: those that were uploaded.
    """

    state: AppState
    searcher: Searcher
    params: SearchParameters
    request: Request
    queries: list[QueryImage] = field(default_factory=list)
    files: Sequence[bytes] = ()

    def described(self, queries: list[QueryImage]) -> list[QueryImage]:
        """Return the images to search with, as hooks have changed them."""
        self.queries = queries
        for hook in search_hooks():
            hook.describe(self)
        return self.queries

    def completed(self, answer: Answer) -> Answer:
        """Return the answer to send, as hooks have changed it."""
        for hook in search_hooks():
            answer = hook.complete(self, answer)
        return answer


class SearchHook:
    """Part that a feature takes in searches; every method may be left as it is."""

    asks_sites = False  # whether it answers searches that are to ask other services
    includes: tuple[str, ...] = ()  # names in `include` by which it adds to `extras` of answers

    def prepare(self, search: HookedSearch) -> None:
        """Change the request to search with, before images are decoded; raises InvalidInput if it cannot be."""

    def describe(self, search: HookedSearch) -> None:
        """Change the images to search with; not with `anywhere`."""

    def complete(self, search: HookedSearch, answer: Answer) -> Answer:
        """Return the answer to send; not with `anywhere`."""
        return answer

    def note_response(self, response: Response, answer: Answer, params: SearchParameters) -> None:
        """Note a `response` with the `answer` to a search of one query with `params`; may change its headers."""


def search_hooks() -> Iterator[SearchHook]:
    """Yield the hooks of features, in the order of their names."""
    for feature in features():
        if feature.search_hook:
            yield feature.load(feature.search_hook)


def hooked_search(
    state: AppState,
    searcher: Searcher,
    params: SearchParameters,
    request: Request,
    files: Sequence[bytes] = (),
) -> HookedSearch:
    """Return a search whose request hooks have changed.

    Parameters
    ----------
    state : AppState
    searcher : Searcher
    params : SearchParameters
        Of the HTTP request.
    request : Request
        As `params` say.
    files : sequence of bytes
        Uploaded ones.
    """
    search = HookedSearch(state, searcher, params, request, files=files)
    hooks = list(search_hooks())
    if (params.federated or params.sites) and not any(hook.asks_sites for hook in hooks):
        raise InvalidInput("federated: no feature that asks other services is installed")
    for hook in hooks:
        hook.prepare(search)
    return search
