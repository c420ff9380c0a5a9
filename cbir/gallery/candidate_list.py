"""Ranking list of a query, cut down to candidates where the gallery is large."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbir.cancellation import checkpoint
from cbir.gallery.candidate_index import CandidateIndex
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, merge_nearest, rank, similarities, take, top_k
from cbir.gallery.vector_blocks import CHUNK, Floats, Rows, is_among, spread_rows

SAMPLE_SEED = 0  # the sample that stands in for the tail of a large list is always the same


@dataclass(frozen=True)
class CandidateLimits:
    """Sizes of ranking lists.

    exact_limit: length from which a list is cut down to candidates. candidates: nearest rows then, and as many of a
    sample. indexed: the same, where an index finds them. probes: lists that a search of the index reads.
    """

    exact_limit: int
    candidates: int
    indexed: int
    probes: int


def rank_candidates(
    queries: Sequence[Floats],
    gallery: Gallery,
    rows: Rows | None,
    limits: CandidateLimits,
    k: int,
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
    limits : CandidateLimits
        Sizes of the list.
    k : int
        Number of nearest rows at least.
    include : (j,) int64 or None
        Rows that are kept in any case.

    Returns
    -------
    ranking : RankingList
        List of all rows, or of the candidates.
    scope : str or None
        Description of the candidates; None for the full list.
    """
    total = len(gallery) if rows is None else len(rows)
    if total > limits.exact_limit and gallery.candidates is not None:
        count = min(max(limits.indexed, k), total)
        ranking = _rank_indexed(queries, gallery, gallery.candidates, rows, count, limits.probes, include)
        return ranking, f"the best {count} of {total} by an index and a sample of {count}"
    ranking = merge_nearest([rank(query, gallery, rows) for query in queries])
    if total <= limits.exact_limit:
        return ranking, None
    count = min(max(limits.candidates, k), total)
    sample = np.random.default_rng(SAMPLE_SEED).choice(total, count, replace=False)
    positions = np.union1d(top_k(ranking.similarities, count), sample)
    if include is not None:
        positions = np.union1d(positions, np.flatnonzero(np.isin(ranking.rows, include)))
    return take(ranking, positions), f"the best {count} of {total} and a sample of {count}"


def _rank_indexed(
    queries: Sequence[Floats], gallery: Gallery, index: CandidateIndex, rows: Rows | None, count: int, probes: int,
    include: Rows | None,
) -> RankingList:  # fmt: skip
    """Return the list of the rows that an index finds, of rows added since, and of a sample."""
    total, indexed = len(gallery) if rows is None else len(rows), len(index)
    added = np.arange(indexed, len(gallery)) if rows is None else rows[np.searchsorted(rows, indexed) :]
    allowed = None if rows is None else rows[: total - len(added)]
    sample = spread_rows(total, count)
    listed = [sample if rows is None else rows[sample]]
    if include is not None:
        listed.append(include if rows is None else include[is_among(include, rows)])
    for query in queries:
        listed.append(index.nearest(query, count, probes, allowed))
        if len(added):
            listed.append(added[top_k(-gallery.distances(query, added), count)])
    candidates = np.unique(np.concatenate(listed))
    distances = np.full(len(candidates), np.inf, np.float32)
    for start in range(0, len(candidates), CHUNK):
        checkpoint()
        part = slice(start, start + CHUNK)
        for query in queries:
            exact = gallery.exact_distances(query, candidates[part])
            np.minimum(distances[part], exact, out=distances[part])
    return RankingList(candidates, distances, similarities(distances), rows)
