"""Ranking of a collection's images: the nearest by an index, a sample of the rest, and a re-ranker on both."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import TypeVar

import numpy as np

from cbir.errors import IndexUnavailable, InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.feedback import Feedback, apply_judgements
from cbir.rerank.several_examples import Learner, learn
from cbir.rerank.top_hits import rerank_top, select_hits
from cbir.search.candidate_view import (
    NO_NUMBERS,
    CandidateQuery,
    CandidateView,
    find_candidates,
    list_everything,
)
from cbir.search.collection_scale import SampledScale
from cbir.search.index_vectors import Vectors
from cbir.search.judged_images import feedback_in, read_feedback
from cbir.search.method_choice import choose_learner, choose_reranker
from cbir.search.query_likeness import query_likeness
from cbir.search.ranked_images import RankedImages, ranked_images
from cbir.search.request_scope import request_scope, without_absent, without_filter
from cbir.search.search_request import Request
from cbir.search.stopwatch import Stopwatch
from cbir.search.view_vectors import ViewVectors
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base.normalisation import Statistics
from cbir.store.index.port import IndexScope, Numbers
from cbir.store.limited_collection import LimitedCollection

Read = TypeVar("Read")

HEADS = 4  # times as many images as candidates: as long as that, a list is re-ranked as a whole
NEAR = 2000  # nearest images from which relevance flows
REACHED = 2500  # images that it reaches from one query
MOST = 20_000  # candidates of a search that asks for more hits, or for hits of many groups

UNLINKED = (
    "Relevance flows among the nearest images alone: the graph of neighbours of all images is not built yet."
)
SAMPLED = "Images beyond the candidates count by a sample of them alone."
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
        Number of candidates, and default re-ranker.
    vectors : ViewVectors
        Vectors that a view of the collection has.
    index : Vectors, optional
        Vectors behind a vector index, which is searched in place of the view.
    everything : Vectors, optional
        Those of all images behind the index, if `collection` is a limited view; `index` by default.
    """

    def __init__(
        self,
        collection: Collection,
        settings: Settings,
        vectors: ViewVectors,
        index: Vectors | None,
        everything: Vectors | None = None,
    ) -> None:
        self.collection, self.settings, self.vectors, self.index = collection, settings, vectors, index
        self._everything = index if everything is None else everything
        self.whole_up_to = HEADS * settings.indexed_candidates
        self._lock = Lock()
        self._scale: SampledScale | None = None

    def over(self, collection: LimitedCollection) -> "CollectionRanking":
        """Return the ranking of `collection`, a limited view of this one's."""
        index = None if self.index is None else self.index.over(collection)
        return CollectionRanking(
            collection, self.settings, self.vectors.over(collection), index, self._everything
        )

    def statistics(self) -> Statistics:
        """Return the statistics that normalise a query."""
        try:
            return self._current().statistics
        except IndexUnavailable:
            return self._instead().statistics

    def rank(self, raw: Floats, content: str, request: Request, watch: Stopwatch) -> RankedImages:
        """Search with one vector.

        Parameters
        ----------
        raw, content, request, watch
            As of `Searcher.rank`.
        """
        return self._search(lambda vectors: self._rank(vectors, raw, content, request, watch))

    def learn(
        self, raw: Floats, contents: Sequence[str], request: Request, watch: Stopwatch, judged_first: bool
    ) -> RankedImages:
        """Search with several vectors and the judgements of the request.

        Parameters
        ----------
        raw, contents, request, watch, judged_first
            As of `Searcher.learn`.
        """
        return self._search(lambda vectors: self._learn(vectors, raw, contents, request, watch, judged_first))

    def _rank(
        self, vectors: Vectors, raw: Floats, content: str, request: Request, watch: Stopwatch
    ) -> RankedImages:
        query = vectors.statistics.normalise(raw)
        auto = vectors.view.auto if isinstance(vectors, ViewVectors) else self.collection.auto_choice()
        choice = choose_reranker(self.collection, self.settings.rerank, request, auto)
        candidates = self._find(vectors, query[None, :], [content], request, choice.reranker)
        watch.lap("search")
        ranking, gallery = candidates.ranking, candidates.view.gallery
        hits = rerank_top(choice.reranker, query, ranking, gallery, _most(candidates, request.k))
        if candidates.hits is not None:
            hits = hits.among(candidates.hits, request.k)
        watch.lap("rerank")
        ranked = ranked_images(candidates.view, hits, choice.reranker, candidates.scope, choice.reason)
        ranked = self._with_facts(ranked, choice.reranker, vectors, candidates, [raw], request.k)
        return replace(ranked, agreement={} if request.group_by else choice.agreement)

    def _learn(
        self, vectors: Vectors, raw: Floats, contents: Sequence[str], request: Request, watch: Stopwatch,
        judged_first: bool,
    ) -> RankedImages:  # fmt: skip
        learner, reason = choose_learner(self.collection, self.settings.rerank, request)
        numbers, relevance = read_feedback(self.collection, request)
        examples = np.stack([vectors.statistics.normalise(vector) for vector in raw])
        candidates = self._find(vectors, examples, contents, request, learner, numbers)
        ranking, gallery = candidates.ranking, candidates.view.gallery
        feedback = feedback_in(gallery.ids, numbers, relevance)
        watch.lap("search")
        reranked = learn(learner, examples, feedback, ranking, gallery)
        if judged_first:
            reranked = replace(reranked, scores=apply_judgements(reranked.scores, feedback, ranking.rows))
        hits = select_hits(ranking, reranked, _most(candidates, request.k))
        if candidates.hits is not None:
            hits = hits.among(candidates.hits, request.k)
        watch.lap("rerank")
        ranked = ranked_images(candidates.view, hits, learner, candidates.scope, reason)
        return self._with_facts(ranked, learner, vectors, candidates, list(raw), request.k)

    def _find(
        self, vectors: Vectors, queries: Floats, contents: Sequence[str], request: Request, method: Learner,
        judged: Numbers = NO_NUMBERS,
    ) -> CandidateView:  # fmt: skip
        scope = request_scope(self.collection, request, contents)
        most, depth = self.settings.indexed_candidates, getattr(method, "depth", None)
        k = min(request.k, MOST)
        count, reach = max(most, k) if depth is None else depth + k, 0
        if _flows(method):
            reach = most if isinstance(method, Feedback) else min(most, REACHED)
        if reach and vectors.graph() is not None:  # what is farther is found along its edges
            count = max(min(most, NEAR), k)
        sample = self.settings.indexed_sample if _reads_tail(method) else 0
        query = CandidateQuery(queries, scope, count, sample, judged, reach)
        if isinstance(vectors, ViewVectors):
            # Relevance flows through images that a filter leaves out, too.
            ranked = without_filter(scope) if reach and vectors.graph() is not None else scope
            if vectors.count(ranked) <= self.whole_up_to:
                return list_everything(vectors, query)
            return find_candidates(vectors, vectors.scale(), query)
        query = replace(query, scope=without_absent(self.collection, scope))
        return find_candidates(vectors, self._sampled_scale(vectors).fitted, query)

    def _sampled_scale(self, vectors: Vectors) -> SampledScale:
        """Return what is fitted to the collection behind an index, of which `vectors` are those of a search."""
        generation, statistics = vectors.generation(), vectors.statistics
        with self._lock:
            scale = self._scale
            if scale is None or not scale.is_of(generation, statistics):
                assert self.index is not None
                self._scale = scale = SampledScale(self.index, self.collection.profile, scale)
            return scale

    def _with_facts(
        self, ranked: RankedImages, method: Learner, vectors: Vectors, candidates: CandidateView,
        raw: Sequence[Floats], k: int,
    ) -> RankedImages:  # fmt: skip
        """Name the index, say where a method reads less than the whole collection, and how like it the query is."""
        notes = list(ranked.reranking.notes)
        if candidates.scope is not None:
            if k > MOST:
                notes.append(f"A search in more images than it can re-rank ranks {MOST} at most.")
            if getattr(method, "depth", None) is None and _reads_tail(method):
                notes.append(SAMPLED)
            if _flows(method) and not candidates.linked:
                notes.append(UNLINKED)
        facts = ranked.reranking.model_copy(update={"notes": tuple(notes), "index": vectors.index_name})
        return replace(ranked, reranking=facts, likeness=self._likeness(vectors, candidates, raw))

    def _likeness(self, vectors: Vectors, candidates: CandidateView, raw: Sequence[Floats]) -> float | None:
        ranking = candidates.ranking
        if not len(ranking):
            return None
        if not isinstance(vectors, ViewVectors):
            nearest = float(ranking.distances.min())
            return self._sampled_scale(vectors).nearest_distances.likeness(nearest)
        rows = ranking.rows if candidates.hits is None else None
        return query_likeness(self.collection, vectors.view, raw, rows, ranking.distances)

    def _search(self, search: Callable[[Vectors], RankedImages]) -> RankedImages:
        try:
            return search(self._current().for_search())
        except IndexUnavailable:  # its reason names servers, which callers need not know
            ranked = search(self._instead().for_search())
            notes = (*ranked.reranking.notes, NO_INDEX)
            return replace(ranked, reranking=ranked.reranking.model_copy(update={"notes": notes}))

    def read_vectors(self, indexed: Callable[[Vectors], Read], whole: Callable[[], Read]) -> Read:
        """Return what `indexed` reads behind a vector index, or `whole` where the collection's view is searched.

        indexed, whole: functions. Raises IndexUnavailable if the index does not answer for too many images.
        """
        try:
            current = self._current()
            return whole() if isinstance(current, ViewVectors) else indexed(current)
        except IndexUnavailable:
            self._instead()
            return whole()

    def rows(self, scope: IndexScope) -> tuple[ViewVectors, Numbers | None]:
        """Return the vectors of a view of the collection, and the rows of a scope there; None for all rows."""
        vectors = self.vectors.for_search()
        return vectors, vectors.rows(scope)

    def _current(self) -> Vectors:
        """Return the vectors to search: those of a view, unless there is a vector index of many images."""
        if self.index is None or self._loaded() <= self.whole_up_to:
            return self.vectors
        return self.index

    def _instead(self) -> ViewVectors:
        """Return the vectors of a view while the index does not answer; raises IndexUnavailable for too many."""
        count = self._loaded()
        if count > self.settings.exact_limit and self.settings.index != "auto":
            raise IndexUnavailable(
                f"the index does not answer, and {count} images are too many to compare without it (exact_limit)"
            )
        return self.vectors

    def require_whole(self, what: str) -> None:
        """Raise InvalidInput where a vector index is named, and `what` would load too many images."""
        if self.index is None or self.settings.index == "auto":
            return
        count, limit = self._loaded(), self.settings.exact_limit
        if count > limit:
            raise InvalidInput(
                f"{what} reads all images of the collection: {count} are too many where searches use a vector "
                f"index; it works up to {limit} (setting exact_limit)"
            )

    def _loaded(self) -> int:
        """Return the number of images whose vectors a view loads: all of them, also for a limited caller."""
        return 0 if self._everything is None else len(self._everything)


def _flows(method: Learner) -> bool:
    """Return whether relevance flows through a graph of neighbours."""
    return isinstance(method, Diffusion | Feedback)


def _reads_tail(method: Learner) -> bool:
    """Return whether a method needs a sample of the images that are no candidates."""
    return getattr(method, "reads_tail", True)


def _most(candidates: CandidateView, k: int) -> int:
    """Return how many of a re-ranked list are ordered to find k hits: images of a sample are none."""
    return k if candidates.hits is None else len(candidates.ranking)
