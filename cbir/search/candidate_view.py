"""Candidates of a search: a small view and ranking list, on which all methods run as on the whole collection."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from cbir.cancellation import checkpoint
from cbir.gallery.gallery import Gallery
from cbir.gallery.numbered_graph import NumberedGraph
from cbir.gallery.ranking import RankingList, merge_nearest, rank, similarities, top_k
from cbir.gallery.stored_neighbourhood import StoredNeighbourhood
from cbir.gallery.vector_blocks import Floats, Rows, is_among
from cbir.search.index_vectors import Scale, Vectors
from cbir.search.request_scope import without_filter
from cbir.search.view_vectors import ViewVectors
from cbir.store.collection_view import View
from cbir.vector_index.port import IndexScope, Numbers

NO_NUMBERS = np.empty(0, np.int64)
EVERYTHING = IndexScope()


@dataclass(frozen=True)
class CandidateQuery:
    """Query that candidates are read for.

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
    """Images that are re-ranked: those nearest to a query with a sample of the rest, or all.

    view: of all of them. ranking: list of those that match the request. hits: ascending rows that may be hits, the
    others of the list being of the sample; None for all. scope: what is re-ranked, for the user; None where that is
    all that match. linked: whether relevance can flow through the graph of the collection.
    """

    view: View
    ranking: RankingList
    hits: Rows | None
    scope: str | None
    linked: bool


def find_candidates(vectors: Vectors, scale: Scale, query: CandidateQuery) -> CandidateView:
    """Return the candidates of one or several queries.

    Parameters
    ----------
    vectors : Vectors
        Vectors of the collection.
    scale : Scale
        What is fitted to the whole collection.
    query : CandidateQuery
        What to search for.
    """
    # One more than needed tells whether there are more.
    neighbours = vectors.nearest(query.queries, query.count + 1, query.scope)
    complete = any(len(each.numbers) <= query.count for each in neighbours)
    nearest = _union(each.numbers for each in neighbours)
    sample, sampled = NO_NUMBERS, np.empty((0, query.queries.shape[1]), np.float32)
    if not complete:
        sample, sampled = vectors.sample(query.sample, query.scope)
    judged_numbers = vectors.within(query.judged, query.scope) if len(query.judged) else NO_NUMBERS
    stored = vectors.graph() if query.flows else None
    unfiltered = without_filter(query.scope)
    around = NO_NUMBERS if stored and unfiltered == query.scope else _around(vectors, query)
    checkpoint()
    needed_numbers = _union([nearest, judged_numbers, query.judged, around])
    ids, matrix = _merge(
        vectors.vectors(needed_numbers[~is_among(needed_numbers, sample)]), (sample, sampled)
    )
    checkpoint()
    reached = NO_NUMBERS
    if stored:
        passable = _union([nearest, vectors.within(around, unfiltered)]) if len(around) else nearest
        far = _far(stored, query, ids, matrix, passable)
        ids, matrix = _merge((ids, matrix), vectors.vectors(far[~is_among(far, ids)]))
        far = far[is_among(far, ids)]
        reached = far if query.scope == EVERYTHING else vectors.within(far, query.scope)
        around = _union([around, far])
        checkpoint()
    listed = _rows_of(ids, _union([nearest, sample, judged_numbers, reached]))
    distances = _distances(query.queries, Gallery((matrix,), ids), listed)
    # An image of the sample that is nearer than a candidate is one, too: the index had missed it.
    best = top_k(-distances, len(nearest) - (not complete))
    hits = _union([listed[best], _rows_of(ids, judged_numbers), _rows_of(ids, reached)])
    judged = _rows_of(ids, _union([query.judged]))
    linked = _union([hits, _rows_of(ids, around), judged])
    graph = StoredNeighbourhood(stored, ids, linked) if stored else None
    view = View(
        scale.generation,
        Gallery((matrix,), ids, scale.parts, graph, scale.projected, fitted_space=scale.space),
        None,
        scale.statistics,
        None,
        None,
    )
    ranking = RankingList(
        listed,
        distances,
        similarities(distances),
        passable=_passable(vectors, query, ids, listed, around),
        sample=_rows_of(ids, sample) if len(sample) else None,
    )
    scope = None if complete else _describe(vectors, query, len(sample))
    return CandidateView(view, ranking, hits, scope, linked=stored is not None)


def list_everything(vectors: ViewVectors, query: CandidateQuery) -> CandidateView:
    """Return all images of a view, with the list of those that match.

    vectors, query: as of `find_candidates`.
    """
    view, rows = vectors.view, vectors.rows(query.scope)
    passable, unfiltered = None, without_filter(query.scope)
    if unfiltered != query.scope:
        passable = vectors.rows(unfiltered)
        passable = np.arange(len(view.gallery)) if passable is None else passable
    ranking = merge_nearest([rank(each, view.gallery, rows) for each in query.queries])
    ranking = replace(ranking, population=view.rows, passable=passable)
    return CandidateView(view, ranking, None, None, linked=True)


def _far(
    stored: NumberedGraph, query: CandidateQuery, ids: Numbers, matrix: Floats, passable: Numbers
) -> Numbers:
    """Return the images that relevance reaches first in the graph of the collection, as many as candidates.

    Parameters
    ----------
    stored : NumberedGraph
        Graph of the collection.
    query : CandidateQuery
        Whose queries and judged images relevance comes from.
    ids : (n,) int64
        Images whose vectors are known, ascending.
    matrix : (n, d) float32
        Their vectors.
    passable : (p,) int64
        Images that relevance may flow from a query into.
    """
    sources = _rows_of(ids, _union([passable, query.judged]))
    rows, in_graph = stored.rows(ids[sources])
    sources = sources[in_graph]
    units, _ = stored.space.transform(matrix[sources])
    start = is_among(ids[sources], np.sort(query.judged)).astype(np.float32)
    for unit in stored.space.transform(query.queries)[0]:
        start += stored.joined(rows, np.maximum(2.0 - 2.0 * (units @ unit), 0.0))
    return stored.numbers[stored.reached(rows, start, query.count)]


def _around(vectors: Vectors, query: CandidateQuery) -> Numbers:
    """Return the images around the queries that relevance may flow through, hits or not."""
    if not query.flows or query.scope == EVERYTHING:
        return NO_NUMBERS
    return _union(each.numbers for each in vectors.nearest(query.queries, query.count, EVERYTHING))


def _passable(
    vectors: Vectors, query: CandidateQuery, ids: Numbers, listed: Rows, around: Numbers
) -> Rows | None:
    """Return the rows that relevance may flow through; None for those that are listed."""
    unfiltered = without_filter(query.scope)
    if not query.flows or unfiltered == query.scope:
        return None
    return _union([listed, _rows_of(ids, vectors.within(around, unfiltered))])


def _distances(queries: Floats, gallery: Gallery, rows: Rows) -> Floats:
    """Return the distances (m,) of rows to the nearest query."""
    distances = gallery.distances(queries[0], rows)
    for query in queries[1:]:
        np.minimum(distances, gallery.distances(query, rows), out=distances)
    return distances


def _union(several: Iterable[Numbers]) -> Numbers:
    """Return all numbers, ascending; sorting them is several times as fast as the hashing of `numpy.unique`."""
    numbers = np.sort(np.concatenate([NO_NUMBERS, *several]))
    return np.asarray(numbers[np.diff(numbers, prepend=-1) != 0])


def _rows_of(ids: Numbers, numbers: Numbers) -> Rows:
    """Return the rows of those of the ascending numbers that are among ascending `ids`."""
    return np.searchsorted(ids, numbers[is_among(numbers, ids)])


def _merge(first: tuple[Numbers, Floats], other: tuple[Numbers, Floats]) -> tuple[Numbers, Floats]:
    """Return numbers, ascending, and vectors of both, which have no number in common."""
    if not len(other[0]):
        return first
    numbers = _union([first[0], other[0]])
    merged = np.empty((len(numbers), first[1].shape[1]), np.float32)
    for part_numbers, vectors in (first, other):
        merged[np.searchsorted(numbers, part_numbers)] = vectors
    return numbers, merged


def _describe(vectors: Vectors, query: CandidateQuery, sample: int) -> str:
    total = vectors.count(query.scope)
    of_all = "" if total is None else f" of {total}"
    return f"the best {query.count}{of_all} by an index and a sample of {sample}"
