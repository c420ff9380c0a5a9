"""Candidates of a search: a small view and ranking list, on which all methods run as on the whole collection."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cbir.gallery.gallery import Gallery, RankingList, merge_nearest, rank, similarities, top_k
from cbir.gallery.numbered_graph import NumberedGraph, StoredNeighbourhood
from cbir.gallery.vector_blocks import AS_A_WHOLE, Floats, Rows, is_among, positions_among, union
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.feedback import Feedback
from cbir.rerank.several_examples import Learner
from cbir.search.fitted_values import FittedValues, Vectors
from cbir.search.search_options import Request
from cbir.search.view_vectors import ViewVectors
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.index.port import IndexScope, Neighbours, Numbers
from cbir.store.records.records import hash_patient
from cbir.store.views.collection_view import View
from cbir.system.threads import OneBlasThread, checkpoint

NEAR = 2000  # nearest images from which relevance flows
REACHED = 2500  # images that it reaches from one query

UNLINKED = (
    "Relevance flows among the nearest images alone: the graph of neighbours of all images is not built yet."
)
SAMPLED = "Images beyond the candidates count by a sample of them alone."

NO_NUMBERS = np.empty(0, np.int64)
EVERYTHING = IndexScope()


@dataclass(frozen=True)
class CandidateQuery:
    """Query that candidates are read for.

    queries: (e, d) float32, normalised. scope: images that may be hits. count: nearest images of each query.
    sample: images that stand for the rest; 0 for a method that does not read them. judged: (j,) int64, numbers of
    judged images. reach: images that relevance may reach in the graph of the collection, of images too that may be
    no hits; 0 for a method that it does not flow in.
    """

    queries: Floats
    scope: IndexScope
    count: int
    sample: int
    judged: Numbers = field(default_factory=lambda: NO_NUMBERS)
    reach: int = 0


def request_scope(collection: Collection, request: Request, contents: Sequence[str]) -> IndexScope:
    """Return the scope of a request.

    Parameters
    ----------
    collection : Collection
        Collection that is searched.
    request : Request
        Parameters of the search.
    contents : sequence of str
        Content hashes of the query images, whose copies are left out.

    Raises
    ------
    InvalidInput
        For a condition that cannot be read.
    """
    named = request.exclude_patient_key, request.exclude_patient, request.without_patient_key
    keys = [key for key in named if key]
    if request.exclude_patient and (key := hash_patient(collection.secret, request.exclude_patient)):
        keys.append(key)
    return IndexScope(
        where=tuple(collection.conditions(request.where)),
        of_patients=(request.of_patient,) if request.of_patient else (),
        without_patients=tuple(keys),
        without_contents=tuple(filter(None, contents)),
        outside=request.outside,
    )


def without_absent(collection: Collection, scope: IndexScope) -> IndexScope:
    """Return a scope without query images that are not in the collection, as most are: an index is faster then."""
    contents = tuple(each for each in scope.without_contents if len(collection.numbers_showing([each])))
    return replace(scope, without_contents=contents)


def without_filter(scope: IndexScope) -> IndexScope:
    """Return the images that relevance may flow through: those of `scope`, and those that its filters leave out."""
    return replace(scope, where=(), of_patients=())


def candidate_query(
    vectors: Vectors, queries: Floats, scope: IndexScope, request: Request, method: Learner, settings: Settings,
    judged: Numbers = NO_NUMBERS,
) -> CandidateQuery:  # fmt: skip
    """Return how many candidates of each kind a method needs.

    Parameters
    ----------
    vectors : Vectors
        Vectors that are searched.
    queries : (e, d) float32
        Normalised query vectors.
    scope : IndexScope
        Images that may be hits.
    request : Request
        Parameters of the search.
    method : Learner
        Method that re-ranks the candidates.
    settings : Settings
        Numbers of candidates and of the sample.
    judged : (j,) int64, optional
        Numbers of judged images.
    """
    most, depth, k = settings.indexed_candidates, getattr(method, "depth", None), min(request.k, AS_A_WHOLE)
    count, reach = max(most, k) if depth is None else depth + k, 0
    if _flows(method):
        reach = most if isinstance(method, Feedback) else min(most, REACHED)
    if reach and vectors.graph() is not None:  # what is farther is found along its edges
        count = max(min(most, NEAR), k)
    sample = settings.indexed_sample if _reads_tail(method) else 0
    return CandidateQuery(queries, scope, count, sample, judged, reach)


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

    def notes(self, method: Learner, k: int) -> tuple[str, ...]:
        """Return where a `method` that ranks for `k` hits reads less than the whole collection, for the user."""
        if self.scope is None:
            return ()
        notes = (
            [f"A search in more images than it can re-rank ranks {AS_A_WHOLE} at most."]
            if k > AS_A_WHOLE
            else []
        )
        if getattr(method, "depth", None) is None and _reads_tail(method):
            notes.append(SAMPLED)
        if _flows(method) and not self.linked:
            notes.append(UNLINKED)
        return tuple(notes)


def find_candidates(vectors: Vectors, fitted: FittedValues, query: CandidateQuery) -> CandidateView:
    """Return the candidates of one or several queries.

    Parameters
    ----------
    vectors : Vectors
        Vectors of the collection.
    fitted : FittedValues
        What is fitted to the whole collection.
    query : CandidateQuery
        What to search for.
    """
    stored = vectors.graph() if query.reach else None
    neighbours, around = _nearest(vectors, query, stored)
    complete = any(len(each.numbers) <= query.count for each in neighbours)
    nearest = union(*(each.numbers for each in neighbours))
    judged = vectors.within(query.judged, query.scope) if len(query.judged) else NO_NUMBERS
    sample, sampled = NO_NUMBERS, np.empty((0, query.queries.shape[1]), np.float32)
    if query.sample and not complete:
        sample, sampled = vectors.sample(query.sample, query.scope)
    checkpoint()
    pool = _Pool(*vectors.vectors(union(nearest, judged, query.judged, around)))
    far = NO_NUMBERS if stored is None else _far(vectors, stored, query, pool, nearest)
    checkpoint()
    unread = far[~(is_among(far, pool.ids) | is_among(far, sample))]
    unread_sample = ~is_among(sample, pool.ids)
    pool = pool.joined(vectors.vectors(unread), (sample[unread_sample], sampled[unread_sample]))
    far = far[is_among(far, pool.ids)]  # others were deleted
    reached = far if query.scope == EVERYTHING else vectors.within(far, query.scope)
    listed = pool.rows(union(nearest, sample, judged, reached))
    distances = _distances(query.queries, Gallery((pool.matrix,), pool.ids), listed)
    # An image of the sample that is nearer than a candidate is one, too: the index had missed it.
    best = listed[top_k(-distances, len(nearest) - (not complete))]
    hits = union(best, pool.rows(judged), pool.rows(reached))
    graph, passable = None, _passable(vectors, query, pool)
    if stored is not None:
        others = pool.rows(union(far, query.judged))
        linked = union(hits, others) if passable is None else union(hits, others, passable)
        graph = StoredNeighbourhood(stored, pool.ids, linked)
    gallery = Gallery(
        (pool.matrix,), pool.ids, fitted.parts, graph, fitted.projected, fitted_space=fitted.space
    )
    ranking = RankingList(
        listed,
        distances,
        similarities(distances),
        passable=None if passable is None else union(listed, passable),
        sample=pool.rows(sample) if len(sample) else None,
    )
    view = View(fitted.generation, gallery, None, fitted.statistics, None, None)
    scope = None if complete else _describe(vectors, query, stored is not None)
    return CandidateView(view, ranking, hits, scope, linked=stored is not None)


@dataclass(frozen=True, eq=False)
class _Pool:
    """Images that have been read. ids: (n,) int64, ascending numbers. matrix: (n, d) float32, their vectors."""

    ids: Numbers
    matrix: Floats

    def rows(self, numbers: Numbers) -> Rows:
        """Return the rows of those of ascending numbers that are there."""
        return positions_among(numbers, self.ids)[0]

    def joined(self, *others: tuple[Numbers, Floats]) -> "_Pool":
        """Return these images and others, of which none is in two of the arguments."""
        ids = union(self.ids, *(numbers for numbers, _ in others))
        matrix = np.empty((len(ids), self.matrix.shape[1]), np.float32)
        for numbers, vectors in ((self.ids, self.matrix), *others):
            matrix[np.searchsorted(ids, numbers)] = vectors
        return _Pool(ids, matrix)


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


def _nearest(
    vectors: Vectors, query: CandidateQuery, stored: NumberedGraph | None
) -> tuple[list[Neighbours], Numbers]:
    """Return the images nearest to each query, one more than are needed if there are more, and others around it.

    Those are left out by a filter, and relevance may flow through them.
    """
    most = query.count + 1
    if stored is None or without_filter(query.scope) == query.scope:
        return vectors.nearest(query.queries, most, query.scope), NO_NUMBERS
    return vectors.nearest_around(query.queries, most, query.scope, query.count)


def _far(
    vectors: Vectors, stored: NumberedGraph, query: CandidateQuery, pool: _Pool, nearest: Numbers
) -> Numbers:
    """Return the images that relevance reaches first in the graph of the collection, ascending.

    Parameters
    ----------
    vectors : Vectors
        Vectors of the collection.
    stored : NumberedGraph
        Its graph.
    query : CandidateQuery
        Whose queries and judged images relevance comes from.
    pool : _Pool
        Images that have been read.
    nearest : (m,) int64
        Those of them that match the request.
    """
    unfiltered = without_filter(query.scope)
    passable = nearest if unfiltered == query.scope else vectors.within(pool.ids, unfiltered)
    sources = pool.rows(union(passable, query.judged))
    rows, in_graph = stored.rows(pool.ids[sources])
    sources = sources[in_graph]
    start = is_among(pool.ids[sources], np.sort(query.judged)).astype(np.float32)
    with OneBlasThread():  # the others would keep their cores busy for longer than the search takes
        units, _ = stored.space.transform(pool.matrix[sources])
        for unit in stored.space.transform(query.queries)[0]:
            start += stored.joined(rows, np.maximum(2.0 - 2.0 * (units @ unit), 0.0))
    return stored.numbers[stored.reached(rows, start, query.reach)]


def _passable(vectors: Vectors, query: CandidateQuery, pool: _Pool) -> Rows | None:
    """Return the rows that relevance may flow through beside those of the list; None without a filter."""
    unfiltered = without_filter(query.scope)
    if not query.reach or unfiltered == query.scope:
        return None
    return pool.rows(vectors.within(pool.ids, unfiltered))


def _distances(queries: Floats, gallery: Gallery, rows: Rows) -> Floats:
    """Return the distances (m,) of rows to the nearest query."""
    distances = gallery.distances(queries[0], rows)
    for query in queries[1:]:
        np.minimum(distances, gallery.distances(query, rows), out=distances)
    return distances


def _describe(vectors: Vectors, query: CandidateQuery, linked: bool) -> str:
    total = vectors.count(query.scope)
    of_all = "" if total is None else f" of {total}"
    if linked:
        return (
            f"the best {query.count}{of_all} by an index and {query.reach} that relevance reaches from them"
        )
    return f"the best {query.count}{of_all} by an index"


def _flows(method: Learner) -> bool:
    """Return whether relevance flows through a graph of neighbours."""
    return isinstance(method, Diffusion | Feedback)


def _reads_tail(method: Learner) -> bool:
    """Return whether a method needs a sample of the images that are no candidates."""
    return getattr(method, "reads_tail", True)
