"""Ranking of the candidates that a vector index finds: no search holds all vectors of the collection."""

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock

import numpy as np

from cbir.gallery.candidate_graph import CandidateGraph
from cbir.gallery.vector_blocks import Floats
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.feedback import Feedback, apply_judgements
from cbir.rerank.several_examples import Learner, learn
from cbir.rerank.top_hits import rerank_top, select_hits
from cbir.search.candidate_count import candidate_count
from cbir.search.candidate_view import NO_NUMBERS, CandidateQuery, CandidateView, find_candidates
from cbir.search.collection_scale import CollectionScale
from cbir.search.index_vectors import Vectors
from cbir.search.judged_images import feedback_in, read_feedback
from cbir.search.method_choice import choose_learner, choose_reranker
from cbir.search.ranked_images import RankedImages, ranked_images
from cbir.search.request_scope import request_scope
from cbir.search.search_request import Request
from cbir.search.stopwatch import Stopwatch
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.normalisation import Statistics
from cbir.vector_index.port import Numbers

MOST = 20_000  # candidates of a search that asks for more hits, or for hits of many groups

UNLINKED = (
    "Relevance flows among the candidates alone: the graph of neighbours of all images is not built yet."
)
SAMPLED = "Images beyond the candidates count by a sample of them alone."


class IndexedRanking:
    """Ranks the images of one collection that its index finds.

    Parameters
    ----------
    collection : Collection
        Collection to search.
    settings : Settings
        Number of candidates, and default re-ranker.
    vectors : Vectors
        Vectors of the collection.
    """

    def __init__(self, collection: Collection, settings: Settings, vectors: Vectors) -> None:
        self.collection, self.settings, self.vectors = collection, settings, vectors
        self.candidates = candidate_count(settings, collection.profile)
        self._lock = Lock()
        self._scale: CollectionScale | None = None

    def _scale_of(self, vectors: Vectors) -> CollectionScale:
        """Return what is fitted to the collection, of which `vectors` are those of a search."""
        generation, statistics = vectors.generation(), vectors.statistics
        with self._lock:
            scale = self._scale
            if scale is None or scale.generation != generation or scale.statistics is not statistics:
                self._scale = scale = CollectionScale(self.vectors, self.collection.profile, scale)
            return scale

    def statistics(self) -> Statistics:
        """Return the statistics that normalise a query."""
        return self.vectors.statistics

    def rank(self, raw: Floats, content: str, request: Request, watch: Stopwatch) -> RankedImages:
        """Search with one vector.

        Parameters
        ----------
        raw, content, request, watch
            As of `Searcher.rank`.
        """
        vectors = self.vectors.for_search()
        scale = self._scale_of(vectors)
        query = scale.statistics.normalise(raw)
        choice = choose_reranker(
            self.collection, self.settings.rerank, request, self.collection.auto_choice()
        )
        flows, depth = _flows(choice.reranker), choice.reranker.depth
        count = self.candidates if depth is None else depth + min(request.k, MOST)
        candidates = self._find(query[None, :], [content], request, vectors, count, flows)
        watch.lap("search")
        gallery, ranking = candidates.view.gallery, candidates.ranking
        hits = rerank_top(choice.reranker, query, ranking, gallery, len(ranking)).among(
            candidates.hits, request.k
        )
        watch.lap("rerank")
        ranked = ranked_images(candidates.view, hits, choice.reranker, candidates.scope, choice.reason)
        ranked = self._with_notes(ranked, choice.reranker, candidates, request)
        return replace(
            ranked,
            likeness=_likeness(scale, candidates),
            agreement={} if request.group_by else choice.agreement,
        )

    def learn(
        self, raw: Floats, contents: Sequence[str], request: Request, watch: Stopwatch, judged_first: bool
    ) -> RankedImages:
        """Search with several vectors and the judgements of the request.

        Parameters
        ----------
        raw, contents, request, watch, judged_first
            As of `Searcher.learn`.
        """
        vectors = self.vectors.for_search()
        scale = self._scale_of(vectors)
        learner, reason = choose_learner(self.collection, self.settings.rerank, request)
        numbers, relevance = read_feedback(self.collection, request)
        examples = np.stack([scale.statistics.normalise(vector) for vector in raw])
        count, flows = self.candidates, _flows(learner)
        candidates = self._find(examples, contents, request, vectors, count, flows, numbers)
        gallery, ranking = candidates.view.gallery, candidates.ranking
        feedback = feedback_in(gallery.ids, numbers, relevance)
        watch.lap("search")
        reranked = learn(learner, examples, feedback, ranking, gallery)
        if judged_first:
            reranked = replace(reranked, scores=apply_judgements(reranked.scores, feedback, ranking.rows))
        hits = select_hits(ranking, reranked, len(ranking)).among(candidates.hits, request.k)
        watch.lap("rerank")
        ranked = ranked_images(candidates.view, hits, learner, candidates.scope, reason)
        ranked = self._with_notes(ranked, learner, candidates, request)
        return replace(ranked, likeness=_likeness(scale, candidates))

    def _find(
        self, queries: Floats, contents: Sequence[str], request: Request, vectors: Vectors, count: int,
        flows: bool, judged: Numbers = NO_NUMBERS,
    ) -> CandidateView:  # fmt: skip
        if flows and vectors.graph() is not None:
            count = min(count, self.settings.indexed_candidates)
        count = max(count, min(request.k, MOST))
        scope = request_scope(self.collection, request, contents)
        query = CandidateQuery(queries, scope, count, self.settings.indexed_sample, judged, flows)
        return find_candidates(vectors, self._scale_of(vectors), query)

    def _with_notes(
        self, ranked: RankedImages, method: Learner, candidates: CandidateView, request: Request
    ) -> RankedImages:
        """Say where a method reads less than the whole collection."""
        if candidates.scope is None:
            return ranked
        notes = list(ranked.reranking.notes)
        if request.k > MOST:
            notes.append(f"With an index, a search ranks {MOST} images at most.")
        if getattr(method, "depth", None) is None:
            notes.append(SAMPLED)
        if isinstance(candidates.view.gallery.neighbourhood, CandidateGraph) and _flows(method):
            projected = candidates.view.gallery.projected
            notes.extend([] if projected else [UNLINKED])
        facts = ranked.reranking.model_copy(update={"notes": tuple(notes)})
        return replace(ranked, reranking=facts)


def _flows(method: Learner) -> bool:
    """Return whether relevance flows through a graph of neighbours."""
    return isinstance(method, Diffusion | Feedback)


def _likeness(scale: CollectionScale, candidates: CandidateView) -> float | None:
    if not len(candidates.ranking):
        return None
    return scale.nearest_distances.likeness(float(candidates.ranking.distances.min()))
