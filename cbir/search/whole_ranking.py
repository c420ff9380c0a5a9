"""Ranking of all images of a collection, from a view that holds all of its vectors."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cbir.gallery.candidate_list import CandidateLimits, rank_candidates
from cbir.gallery.ranking import RankingList
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.gpu.device_search import DeviceSearch
from cbir.rerank.feedback import apply_judgements
from cbir.rerank.several_examples import learn
from cbir.rerank.top_hits import rerank_top, select_hits
from cbir.search.candidate_count import candidate_count
from cbir.search.judged_images import feedback_in, read_feedback
from cbir.search.method_choice import choose_learner, choose_reranker
from cbir.search.query_likeness import query_likeness
from cbir.search.ranked_images import RankedImages, ranked_images
from cbir.search.search_request import Request
from cbir.search.stopwatch import Stopwatch
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.collection_view import View
from cbir.store.normalisation import Statistics


class WholeRanking:
    """Ranks the images of one collection, of which a process holds all vectors.

    Parameters
    ----------
    collection : Collection
        Collection to search.
    settings : Settings
        Limits and default re-ranker.
    device : DeviceSearch
        Search on a GPU or in FAISS, where there is one.
    """

    def __init__(self, collection: Collection, settings: Settings, device: DeviceSearch) -> None:
        self.collection, self.settings, self.device = collection, settings, device

    def statistics(self) -> Statistics:
        """Return the statistics that normalise a query."""
        return self.collection.view().statistics

    def rank(self, raw: Floats, content: str, request: Request, watch: Stopwatch) -> RankedImages:
        """Search with one vector.

        Parameters
        ----------
        raw, content, request, watch
            As of `Searcher.rank`.
        """
        view = self.collection.view()
        query = view.statistics.normalise(raw)
        rows, passable = self.select_rows(view, [content], request)
        choice = choose_reranker(self.collection, self.settings.rerank, request, view.auto)
        reranker = choice.reranker
        scope, hits = None, self.device.search(query, view.gallery, rows, reranker, request.k, passable)
        if hits is None:
            ranking, scope = self._rank_candidates([query], view, rows, request.k)
            ranking = replace(ranking, population=view.rows, passable=None if scope else passable)
            watch.lap("search")
            hits = rerank_top(reranker, query, ranking, view.gallery, request.k)
            rows, distances = ranking.rows, ranking.distances
        else:
            watch.lap("search")  # on a device the list and its re-ranking are one stage
            rows, distances = hits.rows, hits.distances
        watch.lap("rerank")
        ranked = ranked_images(view, hits, reranker, scope, choice.reason)
        likeness = query_likeness(self.collection, view, [raw], rows, distances)
        return replace(ranked, likeness=likeness, agreement={} if request.group_by else choice.agreement)

    def learn(
        self, raw: Floats, contents: Sequence[str], request: Request, watch: Stopwatch, judged_first: bool
    ) -> RankedImages:
        """Search with several vectors and the judgements of the request.

        Parameters
        ----------
        raw, contents, request, watch, judged_first
            As of `Searcher.learn`.
        """
        view = self.collection.view()
        learner, reason = choose_learner(self.collection, self.settings.rerank, request)
        feedback = feedback_in(view.gallery.ids, *read_feedback(self.collection, request))
        examples = np.stack([view.statistics.normalise(vector) for vector in raw])
        rows, _ = self.select_rows(view, contents, request)
        ranking, scope = self._rank_candidates(list(examples), view, rows, request.k, feedback.rows)
        watch.lap("search")
        reranked = learn(learner, examples, feedback, ranking, view.gallery)
        if judged_first:
            reranked = replace(reranked, scores=apply_judgements(reranked.scores, feedback, ranking.rows))
        watch.lap("rerank")
        ranked = ranked_images(view, select_hits(ranking, reranked, request.k), learner, scope, reason)
        likeness = query_likeness(self.collection, view, list(raw), ranking.rows, ranking.distances)
        return replace(ranked, likeness=likeness)

    def select_rows(
        self, view: View, contents: Sequence[str], request: Request
    ) -> tuple[Rows | None, Rows | None]:
        """Return the rows to search, and with a filter those that relevance may flow through.

        Neither has copies of the query images or images that the caller may not see.
        """
        conditions = self.collection.conditions(request.where)
        matching = self.collection.matching_rows(view, conditions)
        if request.of_patient:
            of_patient = self.collection.patient_rows(view, request.of_patient)
            matching = of_patient if matching is None else np.intersect1d(matching, of_patient)
        excluded = self.collection.excluded_rows(
            view,
            request.exclude_patient,
            contents[0] if contents else None,
            request.outside,
            exclude_patient_key=request.exclude_patient_key,
        )
        if len(contents) > 1:
            excluded = np.union1d(excluded, view.rows_of(self.collection.numbers_showing(contents[1:])))
        rows = view.select(matching, excluded)
        if matching is None:
            return rows, None
        passable = view.select(None, excluded)
        return rows, np.arange(len(view.gallery)) if passable is None else passable

    def _rank_candidates(
        self, queries: Sequence[Floats], view: View, rows: Rows | None, k: int, include: Rows | None = None
    ) -> tuple[RankingList, str | None]:
        settings = self.settings
        limits = CandidateLimits(
            settings.exact_limit,
            settings.candidates,
            candidate_count(settings, self.collection.profile),
            settings.index_probes,
        )
        return rank_candidates(queries, view.gallery, rows, limits, k, include)
