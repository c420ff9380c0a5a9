"""Images that may belong to a cohort: all of a collection, or candidates of its index with a sample of the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cbir.gallery.vector_blocks import Doubles, Rows, VectorBlocks, is_among
from cbir.search import Request, Searcher
from cbir.search.candidate_view import request_scope
from cbir.search.collection_scale import Vectors
from cbir.store import Collection
from cbir.store.index.port import IndexScope, Numbers
from cbir.store.records.filter_conditions import Condition

QUERIES = 24  # relevant images that an index searches with
SAMPLE = 2000  # images that stand for those that it does not find
COMPANIONS = 10_000  # images of patients of whom one was found


class Companions(NamedTuple):
    """Images of patients with a relevant image.

    numbers: ascending, of all images of these patients. agreement: share of the judged ones that are relevant, with
    one assumed, and without the first relevant image of each patient.
    """

    numbers: Numbers
    agreement: float


NO_COMPANIONS = Companions(np.empty(0, np.int64), 0.0)


def find_companions(collection: Collection, relevant: Numbers, irrelevant: Numbers) -> Companions:
    """Return the images of the patients of relevant images.

    Parameters
    ----------
    collection : Collection
        Whose patient keys say which images are of a patient.
    relevant, irrelevant : (p,), (n,) int64
        Numbers of the judged images.
    """
    keys = collection.group_keys(relevant.tolist(), "patient")
    if not keys:
        return NO_COMPANIONS
    patients = set(keys.values())
    numbers = collection.numbers_of_patients(patients)
    hits, misses = len(keys) - len(patients), int(is_among(irrelevant, numbers).sum())
    return Companions(numbers, (hits + 1) / (hits + misses + 1))


@dataclass(frozen=True, eq=False)
class CohortPool:
    """Images that a cohort is searched in.

    numbers: (n,) int64, ascending, of all vectors here, with judged images outside of the search. vectors: of them.
    rows: ascending rows of the images that are searched; None for all. weights: (m,) how many images each of those
    rows stands for. total: number of images in the collection that are searched.
    """

    numbers: Numbers
    vectors: VectorBlocks
    rows: Rows | None
    weights: Doubles
    total: int

    def searched_rows(self) -> Rows:
        """Return the rows that are searched."""
        return np.arange(len(self.numbers)) if self.rows is None else self.rows

    def rows_of(self, numbers: Numbers) -> Rows:
        """Return the rows of image numbers that have one, in their order."""
        return np.searchsorted(self.numbers, numbers[is_among(numbers, self.numbers)])


def collect_pool(
    searcher: Searcher,
    where: Sequence[str | Condition],
    relevant: Numbers,
    judged: Numbers,
    companions: Numbers,
) -> CohortPool:
    """Return the images to search in.

    Parameters
    ----------
    searcher : Searcher
        Of the collection; where it searches by an index, the pool has the images near the relevant ones only.
    where : sequence of str or Condition
        Conditions on labels.
    relevant, judged : (p,), (j,) int64
        Numbers of the images judged relevant, in the order of judging, and of all that are judged.
    companions : (c,) int64
        Numbers of images that an index need not find.
    """
    scope = request_scope(searcher.collection, Request(where=list(where)), [])
    count = searcher.settings.indexed_candidates
    included = np.concatenate([judged, _spread(companions, COMPANIONS)])
    return searcher.vectors.read(
        lambda vectors: _candidates(vectors, scope, relevant, included, count),
        lambda: _all_images(searcher.collection, scope),
    )


def _all_images(collection: Collection, scope: IndexScope) -> CohortPool:
    view = collection.view()
    rows = view.select(collection.matching_rows(view, scope.where), np.empty(0, np.int64))
    total = len(view.gallery) if rows is None else len(rows)
    return CohortPool(view.gallery.ids, view.gallery, rows, np.ones(total), total)


def _candidates(
    vectors: Vectors, scope: IndexScope, relevant: Numbers, included: Numbers, count: int
) -> CohortPool:
    """Return the nearest images of the relevant ones, those that are named, and a sample of all."""
    _, queries = vectors.vectors(np.sort(_spread(relevant, QUERIES)))
    neighbours = vectors.nearest(queries, count, scope) if len(queries) else []
    near = _union([each.numbers for each in neighbours])
    sample, _ = vectors.sample(SAMPLE, scope)
    numbers, matrix = vectors.vectors(_union([near, sample, included]))
    searched = vectors.within(_union([near, sample, included]), scope)
    searched = searched[is_among(searched, numbers)]
    total = vectors.count(scope)
    if total is None:
        total = len(vectors)
    is_counted_once = is_among(searched, _union([near, included]))
    weights = np.ones(len(searched))
    others = int((~is_counted_once).sum())
    if others:
        weights[~is_counted_once] = max(total - int(is_counted_once.sum()), others) / others
    return CohortPool(numbers, VectorBlocks((matrix,)), np.searchsorted(numbers, searched), weights, total)


def _spread(numbers: Numbers, count: int) -> Numbers:
    """Return at most `count` of the numbers, the last among them."""
    if len(numbers) <= count:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, count).astype(np.int64)]


def _union(several: Sequence[Numbers]) -> Numbers:
    numbers = np.sort(np.concatenate([np.empty(0, np.int64), *several]))
    return np.asarray(numbers[np.diff(numbers, prepend=-1) != 0])
