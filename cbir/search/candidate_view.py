"""Candidates of a search by an index: a small view and ranking list, on which all methods run as on the whole."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from cbir.cancellation import checkpoint
from cbir.gallery.candidate_graph import CandidateGraph
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, similarities, top_k
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.search.collection_scale import CollectionScale
from cbir.search.index_vectors import Vectors
from cbir.search.request_scope import without_filter
from cbir.store.collection_view import View
from cbir.vector_index.port import IndexScope, Numbers

NO_NUMBERS = np.empty(0, np.int64)
EVERYTHING = IndexScope()


@dataclass(frozen=True)
class CandidateQuery:
    """What candidates are searched for.

    queries: (e, d) float32, normalised. scope: images that may be hits. count: nearest images of each query. sample:
    images that stand for the rest. judged: (j,) int64, numbers of judged images. flows: whether relevance flows
    through a graph, of images too that may be no hits.
    """

    queries: Floats
    scope: IndexScope
    count: int
    sample: int
    judged: Numbers = field(default_factory=lambda: NO_NUMBERS)
    flows: bool = False


@dataclass(frozen=True, eq=False)
class CandidateView:
    """Images that an index finds for a search, with a sample of the rest.

    view: of all of them. ranking: list of those that match the request. hits: ascending rows that may be hits; the
    others of the list are of the sample. scope: what is re-ranked, for the user; None where that is all that match.
    """

    view: View
    ranking: RankingList
    hits: Rows
    scope: str | None


def find_candidates(vectors: Vectors, scale: CollectionScale, query: CandidateQuery) -> CandidateView:
    """Return the candidates of one or several queries.

    Parameters
    ----------
    vectors : Vectors
        Vectors of the collection.
    scale : CollectionScale
        What is fitted to the whole collection.
    query : CandidateQuery
        What to search for.
    """
    # One more than needed tells whether there are more.
    found = vectors.nearest(query.queries, query.count + 1, query.scope)
    complete = any(len(each.numbers) <= query.count for each in found)
    nearest = _union(each.numbers for each in found)
    sample, sampled = NO_NUMBERS, np.empty((0, query.queries.shape[1]), np.float32)
    if not complete:
        sample, sampled = vectors.sample(query.sample, query.scope)
    kept = vectors.within(query.judged, query.scope) if len(query.judged) else NO_NUMBERS
    around = NO_NUMBERS
    if query.flows and query.scope != EVERYTHING:
        around = _union(each.numbers for each in vectors.nearest(query.queries, query.count, EVERYTHING))
    checkpoint()
    asked = np.setdiff1d(_union([nearest, kept, query.judged, around]), sample, assume_unique=True)
    ids, matrix = _merge(vectors.vectors(asked), (sample, sampled))
    checkpoint()

    def rows_of(numbers: Numbers) -> Rows:
        return np.flatnonzero(np.isin(ids, numbers, assume_unique=True))

    listed, plain = rows_of(_union([nearest, sample, kept])), Gallery((matrix,), ids)
    distances = np.full(len(listed), np.inf, np.float32)
    for each in query.queries:
        np.minimum(distances, plain.exact_distances(each, listed), out=distances)
    # An image of the sample that is nearer than a candidate is one, too: the index had missed it.
    best = np.sort(top_k(-distances, len(nearest) - (not complete)))
    hits = np.union1d(listed[best], rows_of(kept))
    joined = _union([hits, rows_of(around), rows_of(query.judged)])
    graph = CandidateGraph(scale, joined)
    gallery = Gallery((matrix,), ids, scale.parts, graph, scale.projected)
    passable, unfiltered = None, without_filter(query.scope)
    if query.flows and unfiltered != query.scope:
        passable = np.union1d(listed, rows_of(vectors.within(around, unfiltered)))
    ranking = RankingList(
        listed,
        distances,
        similarities(distances),
        passable=passable,
        sample=rows_of(sample) if len(sample) else None,
    )
    view = View(scale.generation, gallery, None, scale.statistics, None, None)
    return CandidateView(view, ranking, hits, None if complete else _describe(vectors, query, len(sample)))


def _union(several: Iterable[Numbers]) -> Numbers:
    return np.unique(np.concatenate([NO_NUMBERS, *several]))


def _merge(one: tuple[Numbers, Floats], other: tuple[Numbers, Floats]) -> tuple[Numbers, Floats]:
    """Return numbers, ascending, and vectors of both, which have no number in common."""
    if not len(other[0]):
        return one
    numbers = np.concatenate([one[0], other[0]])
    order = np.argsort(numbers)
    return numbers[order], np.concatenate([one[1], other[1]])[order]


def _describe(vectors: Vectors, query: CandidateQuery, sample: int) -> str:
    total = vectors.count(query.scope)
    of_all = "" if total is None else f" of {total}"
    return f"the best {query.count}{of_all} by an index and a sample of {sample}"
