"""Ranking of a collection's images: of all of them, or of the candidates of its index where it has one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from cbir.errors import IndexUnavailable, InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.gpu.device_search import DeviceSearch
from cbir.search.index_vectors import Vectors
from cbir.search.indexed_ranking import IndexedRanking
from cbir.search.ranked_images import RankedImages
from cbir.search.search_request import Request
from cbir.search.stopwatch import Stopwatch
from cbir.search.whole_ranking import WholeRanking
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.limited_collection import LimitedCollection
from cbir.store.normalisation import Statistics

Ranking = WholeRanking | IndexedRanking
Read = TypeVar("Read")

NO_INDEX = (
    "The index does not answer, or is not built yet. All images were compared in place of its candidates."
)


class CollectionRanking:
    """Ranks the images of one collection. Thread-safe.

    Parameters
    ----------
    collection : Collection
        Collection to search.
    settings : Settings
        Limits and default re-ranker.
    device : DeviceSearch
        Search on a GPU or in FAISS, where there is one.
    vectors : Vectors or None
        Vectors behind an index; None to compare all images.
    everything : Vectors, optional
        Those of all images, if `collection` is a limited view; `vectors` by default.
    """

    def __init__(
        self,
        collection: Collection,
        settings: Settings,
        device: DeviceSearch,
        vectors: Vectors | None,
        everything: Vectors | None = None,
    ) -> None:
        self.whole = WholeRanking(collection, settings, device)
        self.indexed = None if vectors is None else IndexedRanking(collection, settings, vectors)
        self._everything = vectors if everything is None else everything
        self._settings = settings

    def over(self, collection: LimitedCollection) -> "CollectionRanking":
        """Return the ranking of `collection`, a limited view of this one's."""
        vectors = None if self.indexed is None else self.indexed.vectors.over(collection)
        return CollectionRanking(collection, self._settings, self.whole.device, vectors, self._everything)

    def statistics(self) -> Statistics:
        """Return the statistics that normalise a query."""
        try:
            return self._current().statistics()
        except IndexUnavailable:
            return self._instead().statistics()

    def rank(self, raw: Floats, content: str, request: Request, watch: Stopwatch) -> RankedImages:
        """Search with one vector.

        Parameters
        ----------
        raw, content, request, watch
            As of `Searcher.rank`.
        """
        return self._search(lambda ranking: ranking.rank(raw, content, request, watch))

    def learn(
        self, raw: Floats, contents: Sequence[str], request: Request, watch: Stopwatch, judged_first: bool
    ) -> RankedImages:
        """Search with several vectors and the judgements of the request.

        Parameters
        ----------
        raw, contents, request, watch, judged_first
            As of `Searcher.learn`.
        """
        return self._search(lambda ranking: ranking.learn(raw, contents, request, watch, judged_first))

    def _search(self, search: Callable[[Ranking], RankedImages]) -> RankedImages:
        try:
            return search(self._current())
        except IndexUnavailable:  # its reason names servers, which callers need not know
            ranked = search(self._instead())
            notes = (*ranked.reranking.notes, NO_INDEX)
            return replace(ranked, reranking=ranked.reranking.model_copy(update={"notes": notes}))

    def read_vectors(self, indexed: Callable[[Vectors], Read], whole: Callable[[], Read]) -> Read:
        """Return what `indexed` reads behind the index, or `whole` where searches compare all images.

        indexed, whole: functions. Raises IndexUnavailable if the index does not answer for too many images.
        """
        try:
            current = self._current()
            return indexed(current.vectors) if isinstance(current, IndexedRanking) else whole()
        except IndexUnavailable:
            self._instead()
            return whole()

    def _current(self) -> Ranking:
        """Return the ranking to search with: a collection of fewer images than candidates is ranked as a whole."""
        if self.indexed is None or self._loaded() <= self.indexed.candidates:
            return self.whole
        return self.indexed

    def _instead(self) -> WholeRanking:
        """Return the ranking of all images while the index does not answer; raises IndexUnavailable for too many."""
        count = self._loaded()
        if count > self._settings.exact_limit:
            raise IndexUnavailable(
                f"the index does not answer, and {count} images are too many to compare without it (exact_limit)"
            )
        return self.whole

    def require_whole(self, what: str) -> None:
        """Raise InvalidInput where an index is used, and the collection is too large for `what`, which loads it."""
        if self.indexed is None:
            return
        count, limit = self._loaded(), self._settings.exact_limit
        if count > limit:
            raise InvalidInput(
                f"{what} reads all images of the collection: {count} are too many where searches use an index; "
                f"it works up to {limit} (setting exact_limit)"
            )

    def _loaded(self) -> int:
        """Return the number of images whose vectors a view loads: all of them, also for a limited caller."""
        return 0 if self._everything is None else len(self._everything)
