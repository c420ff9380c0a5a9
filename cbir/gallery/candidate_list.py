"""Ranking list of a query, cut down to candidates where the gallery is large."""

from collections.abc import Sequence

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, merge_nearest, rank, take, top_k
from cbir.gallery.vector_blocks import Floats, Rows

SAMPLE_SEED = 0  # the sample that stands in for the tail of a large list is always the same


def rank_candidates(
    queries: Sequence[Floats],
    gallery: Gallery,
    rows: Rows | None,
    *,
    exact_limit: int,
    count: int,
    include: Rows | None = None,
) -> tuple[RankingList, str | None]:
    """Rank rows of a gallery by their distance to the nearest of several queries.

    Parameters
    ----------
    queries : sequence of (d,) float32
        Normalised query vectors, one at least.
    gallery : Gallery
        Vectors of the collection.
    rows : (m,) int64 or None
        Rows to rank, ascending; None for all.
    exact_limit : int
        Length from which the list is cut down to `count` nearest rows and a fixed sample of as many.
    count : int
        Number of nearest rows then.
    include : (j,) int64 or None
        Rows that are kept in any case.

    Returns
    -------
    ranking : RankingList
        List of all rows, or of the candidates.
    scope : str or None
        Description of the candidates; None for the full list.
    """
    ranking = merge_nearest([rank(query, gallery, rows) for query in queries])
    total = len(ranking)
    if total <= exact_limit:
        return ranking, None
    count = min(count, total)
    sample = np.random.default_rng(SAMPLE_SEED).choice(total, count, replace=False)
    positions = np.union1d(top_k(ranking.similarities, count), sample)
    if include is not None:
        positions = np.union1d(positions, np.flatnonzero(np.isin(ranking.rows, include)))
    return take(ranking, positions), f"the best {count} of {total} and a sample of {count}"
