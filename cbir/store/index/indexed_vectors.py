"""Nearest images, vectors and samples of a collection by a vector index, right also where the index is behind."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import TypeVar

import numpy as np

from cbir.errors import IndexUnavailable
from cbir.gallery.numbered_graph import NumberedGraph
from cbir.gallery.vector_blocks import AS_A_WHOLE, Floats, union
from cbir.store.base.normalisation import Statistics
from cbir.store.index.current_index import NOT_BUILT, GapOfSearch, Gaps, IndexGap, OpenedEdition
from cbir.store.index.local_content import join_neighbours, nearest_vectors
from cbir.store.index.port import IndexScope, Neighbours, Numbers
from cbir.store.index.scope_numbers import ScopeNumbers
from cbir.store.index.stored_neighbours import StoredNeighbours
from cbir.store.limited_collection import LimitedCollection
from cbir.store.views.index_feed import IndexFeed


class SentVectors:
    """Normalised vectors of the images that an edition has answered with. Thread-safe."""

    def __init__(self) -> None:
        self._latest: tuple[OpenedEdition, Numbers, Floats] | None = None

    def keep(self, edition: OpenedEdition, answers: Sequence[Neighbours]) -> None:
        """Keep the vectors of answers, beside those of earlier answers of the same edition."""
        sent = [(each.numbers, each.vectors) for each in answers if each.vectors is not None]
        if not sent:
            return
        latest = self._latest
        if latest is not None and latest[0] is edition:
            sent.append((latest[1], latest[2]))
        numbers, first = np.unique(np.concatenate([part[0] for part in sent]), return_index=True)
        self._latest = edition, numbers, np.concatenate([part[1] for part in sent])[first]

    def among(self, edition: OpenedEdition, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return those of the ascending `numbers` whose vectors of an edition are known, and these (n, d)."""
        latest = self._latest
        if latest is None or latest[0] is not edition:
            return np.empty(0, np.int64), np.empty((0, edition.statistics.dimensions), np.float32)
        rows = np.flatnonzero(np.isin(latest[1], numbers))
        return latest[1][rows], latest[2][rows]


EVERYTHING = IndexScope()

SPARE = 32  # images fetched besides, in place of those that are dropped, at least

READ = 2000  # images of a scope that are read from the collection and compared; more are left to the index

WIDER = 4  # times as many, where too many were dropped

MOST_FETCHED = 100_000  # images; if they are not enough, all in the scope are compared

T = TypeVar("T")


class IndexedVectors:
    """Vectors of a collection by an index, normalised by its statistics. Thread-safe.

    Images that the index lacks are compared one by one, and no deleted image is ever returned. Every call may raise
    IndexUnavailable: while the engine does not answer, before the index is built, or while it lacks too much.
    """

    def __init__(
        self,
        feed: IndexFeed,
        gap: Gaps,
        limited: LimitedCollection | None = None,
        neighbours: StoredNeighbours | None = None,
        index_name: str = "",
    ) -> None:
        self.index_name = index_name
        self._gap, self._limited, self._neighbours = gap, limited, neighbours
        self._limits = limited.limits if limited else ()
        self._visible = limited.index_feed() if limited else feed
        self._feed, self._scopes = feed, ScopeNumbers(self._visible)
        self._sent: SentVectors | None = None  # by the index, in this search

    def over(self, limited: LimitedCollection) -> "IndexedVectors":
        """Return the vectors of a limited view of this collection: other images are never returned."""
        return IndexedVectors(self._feed, self._gap, limited, self._neighbours, self.index_name)

    def for_search(self) -> "IndexedVectors":
        """Return these vectors as they are now, for the calls of one search.

        The database is asked once what has changed, and vectors that the index sent with its answers are not read.
        """
        vectors = copy(self)
        vectors._gap, vectors._sent = GapOfSearch(self._gap), SentVectors()
        return vectors

    @property
    def statistics(self) -> Statistics:
        """Statistics that normalise a query as they normalised the vectors."""
        return self._gap.now().edition.statistics

    def generation(self) -> int:
        """Return the number of transactions that have changed the collection."""
        return self._gap.now().version[0]

    def __len__(self) -> int:
        return self._scopes.total(self._feed.version())

    def count(self, scope: IndexScope = EVERYTHING) -> int | None:
        """Return the number of images in a scope; None if that takes long."""
        version = self._gap.now().version
        if scope == EVERYTHING:
            return self._scopes.total(version)
        few = self._scopes.few(self._narrowed(scope), version)
        return None if few is None else len(few)

    def within(self, numbers: Numbers, scope: IndexScope = EVERYTHING) -> Numbers:
        """Return those of the numbers whose images are in a scope, ascending."""
        return self._scopes.among(numbers, self._narrowed(scope))

    def nearest(self, queries: Floats, k: int, scope: IndexScope = EVERYTHING) -> list[Neighbours]:
        """Return the k nearest images of each query, or all in the scope where there are fewer.

        Parameters
        ----------
        queries : (q, d) float32
            Normalised query vectors.
        k : int
            Number of images.
        scope : IndexScope
            Images that may be answers.
        """
        return self._with_gap(lambda gap: self._nearest(gap, queries, k, self._narrowed(scope)))

    def nearest_around(
        self, queries: Floats, k: int, scope: IndexScope, around: int
    ) -> tuple[list[Neighbours], Numbers]:
        """Return what `nearest` does, and the ascending numbers of images of any scope that are nearest to a query.

        queries, k, scope: as of `nearest`. around: number of images of any scope for each query.
        """
        wide = self.nearest(queries, around, EVERYTHING)
        return self.nearest(queries, k, scope), union(*(each.numbers for each in wide))

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return the numbers of those images that exist, ascending, and their vectors (n, d)."""
        return self._with_gap(lambda gap: self._vectors(gap, np.unique(numbers)))

    def graph(self) -> NumberedGraph | None:
        """Return the stored k-NN graph of the collection; None while there is none, or where none is needed."""
        return self._neighbours.of(self._gap.now().edition.name) if self._neighbours else None

    def sample(self, count: int, scope: IndexScope = EVERYTHING) -> tuple[Numbers, Floats]:
        """Return random images of a scope, the same in every process, ascending, and their vectors (n, d).

        A smaller sample is part of a larger one. Where a scope leaves out few images of a wider one, the sample is
        that of the wider one without them.

        Parameters
        ----------
        count : int
            Number of images; all where there are fewer.
        scope : IndexScope
            Images to draw from.
        """
        return self._with_gap(lambda gap: self._sample(gap, count, self._narrowed(scope)))

    def _narrowed(self, scope: IndexScope) -> IndexScope:
        return replace(scope, where=(*scope.where, *self._limits)) if self._limits else scope

    def _with_gap(self, read: Callable[[IndexGap], T]) -> T:
        """Call `read`, again if the edition that it read has meanwhile been replaced and deleted."""
        gap = self._gap.now()
        try:
            return read(gap)
        except IndexUnavailable:
            latest = self._gap.latest()
            if latest.edition is gap.edition:
                raise
            return read(latest)

    def _nearest(self, gap: IndexGap, queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        few = self._scopes.few(scope, gap.version)
        by_index = gap.changed is not None and not gap.edition.index.serves_vectors
        if few is not None and (len(few) <= READ or not by_index):
            return nearest_vectors(queries, *self._vectors(gap, few), k)
        if gap.changed is None:  # what the index has of labels may be wrong: its answers are checked instead
            left_out, pushed = np.empty(0, np.int64), EVERYTHING
        else:
            left_out, pushed = self._scopes.left_out(scope)
        apart = gap.apart
        neighbours = self._search(gap, queries, k, pushed, np.union1d(left_out, apart), scope)
        if len(apart):
            compared = self._vectors(gap, self._scopes.among(apart, scope))
            one_by_one = nearest_vectors(queries, *compared, k)
            neighbours = [join_neighbours(pair, k) for pair in zip(neighbours, one_by_one, strict=True)]
        if min(map(len, (answer.numbers for answer in neighbours)), default=k) < k:
            return self._compare_all(gap, queries, k, scope, neighbours)
        return neighbours

    def _search(
        self, gap: IndexGap, queries: Floats, k: int, pushed: IndexScope, left_out: Numbers, scope: IndexScope
    ) -> list[Neighbours]:
        """Search the index, for more images until k of each query are left, or too many would be needed."""
        fetched = k + min(len(left_out), max(SPARE, k // 8))
        while True:
            answers = gap.edition.index.nearest(queries, fetched, pushed)
            if self._sent is not None:
                self._sent.keep(gap.edition, answers)
            remaining = self._keep(gap, answers, left_out, scope)
            pairs = zip(answers, remaining, strict=True)
            if all(len(rest.numbers) >= k or len(answer.numbers) < fetched for answer, rest in pairs):
                return [Neighbours(rest.numbers[:k], rest.distances[:k]) for rest in remaining]
            fetched *= WIDER
            if fetched > max(MOST_FETCHED, 2 * k):
                return remaining

    def _keep(
        self, gap: IndexGap, answers: Sequence[Neighbours], left_out: Numbers, scope: IndexScope
    ) -> list[Neighbours]:
        """Drop images that are left out, deleted, or not visible."""
        present = None
        if not gap.closed or self._limited:
            all_numbers = np.concatenate([np.empty(0, np.int64), *(answer.numbers for answer in answers)])
            checked = scope if gap.changed is None or self._limited else EVERYTHING
            present = self._scopes.among(all_numbers, checked)
        remaining = []
        for answer in answers:
            keep = ~np.isin(answer.numbers, left_out)
            if present is not None:
                keep &= np.isin(answer.numbers, present)
            remaining.append(Neighbours(answer.numbers[keep], answer.distances[keep]))
        return remaining

    def _compare_all(
        self, gap: IndexGap, queries: Floats, k: int, scope: IndexScope, neighbours: list[Neighbours]
    ) -> list[Neighbours]:
        """Compare the queries with all images of a scope, if it has more than were found."""
        if gap.edition.index.position() is None:  # deleted meanwhile: read the next edition
            raise IndexUnavailable(NOT_BUILT)
        numbers = self._scopes.all(scope)
        if min(len(answer.numbers) for answer in neighbours) >= min(k, len(numbers)):
            return neighbours
        best = [Neighbours(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        for start in range(0, len(numbers), AS_A_WHOLE):
            page = nearest_vectors(queries, *self._vectors(gap, numbers[start : start + AS_A_WHOLE]), k)
            best = [join_neighbours(pair, k) for pair in zip(best, page, strict=True)]
        return best

    def _vectors(self, gap: IndexGap, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return vectors of ascending numbers: of the index, of the gap, and of the collection for the others."""
        if not gap.closed or self._limited:
            numbers = self._scopes.among(numbers, EVERYTHING)
        if gap.edition.index.serves_vectors:
            index_numbers, vectors = gap.edition.index.vectors(numbers)
        else:
            sent = self._sent or SentVectors()
            index_numbers, vectors = sent.among(gap.edition, numbers)
        missing = np.setdiff1d(numbers, index_numbers, assume_unique=True)
        in_tail = np.isin(gap.tail, missing)
        parts = [(index_numbers, vectors)]
        if in_tail.any():
            parts.append((gap.tail[in_tail], gap.vectors[in_tail]))
            missing = np.setdiff1d(missing, gap.tail, assume_unique=True)
        if len(missing):
            read, raw = self._feed.vectors(missing)
            parts.append((read, gap.edition.statistics.normalise(raw)))
        if len(parts) == 1:
            return index_numbers, vectors
        joined = np.concatenate([part[0] for part in parts])
        order = np.argsort(joined)
        return joined[order], np.concatenate([part[1] for part in parts])[order]

    def _sample(self, gap: IndexGap, count: int, scope: IndexScope) -> tuple[Numbers, Floats]:
        sample_numbers = self._scopes.drawn(count, scope, gap.version, gap.last_number)
        return self._gap.sample_vectors(
            gap, np.sort(sample_numbers), lambda missing: self._vectors(gap, missing)
        )
