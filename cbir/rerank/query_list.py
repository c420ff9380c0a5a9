"""Operations on a query's ranking list that re-rankers share, among them the draw of pseudo-negative examples."""

from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery, RankingList, bottom_k, rank, top_k
from cbir.gallery.knn_graph import SCALE, Graph, flow_rows, squared_distances
from cbir.gallery.vector_blocks import Floats, Rows, Scores, is_among, spread_rows
from cbir.rerank.kernel_expansion import KernelExpansion, find_best_sums
from cbir.system.threads import OneBlasThread

Ranks = NDArray[np.int64]
NEAREST = 200  # images that are compared with each other, in a few milliseconds
ROUNDING = 1e-13  # of the squared norms: smaller squared distances are none
STEP = 1e-9  # between the first score and the others, in float64


def draw_negatives(query: Floats, scores: Scores, *, P: int, sets: int, lowest: float, seed: int) -> Ranks:
    """Draw negative examples for each of several training sets.

    A draw picks ranks, so it follows the order of the list and not that of its rows. It is seeded with `seed` and
    the content of the query: the same query on the same list gives the same negatives.

    Parameters
    ----------
    query : (d,) float32
        Query vector, part of the seed.
    scores : (m,) floating
        Scores of the list.
    P : int
        Negatives in a set.
    sets : int
        Number of draws, each without replacement.
    lowest : float in [0, 1]
        Share of the list to draw from: at least P places, and never one of the P best.
    seed : int
        Seed of the draw.

    Returns
    -------
    (sets, q) int64
        Places in `scores`; q = P, or fewer, down to 0, where the pool is smaller.
    """
    pool, ranks = draw_negative_ranks(query, len(scores), P=P, sets=sets, lowest=lowest, seed=seed)
    return bottom_k(scores, pool)[ranks]


def draw_negative_ranks(
    query: Floats, count: int, *, P: int, sets: int, lowest: float, seed: int
) -> tuple[int, Ranks]:
    """Draw the ranks that `draw_negatives` picks.

    Parameters
    ----------
    query : (d,) float32
        Query vector, part of the seed.
    count : int
        Length of the list.
    P, sets, lowest, seed
        As in `draw_negatives`.

    Returns
    -------
    pool : int
        Number of ranks to draw from.
    ranks : (sets, q) int64
        0 is the last rank of the list.
    """
    pool = min(max(P, round(lowest * count)), max(count - P, 0))
    values = np.asarray(query, np.float32) + np.float32(0.0)  # -0 has other bytes than 0
    digest = blake2b(values.tobytes(), digest_size=16).digest()
    generator = np.random.default_rng([seed, int.from_bytes(digest, "little")])
    return pool, _without_replacement(generator, pool, min(P, pool), sets)


def _without_replacement(generator: np.random.Generator, pool: int, count: int, sets: int) -> Ranks:
    """Draw (sets, count) numbers below `pool`, distinct within a row, every subset equally likely (Floyd 1987)."""
    ranks = np.empty((sets, count), np.int64)
    for column in range(count):
        last = pool - count + column
        number = generator.integers(0, last, size=sets, endpoint=True)
        repeated = (ranks[:, :column] == number[:, None]).any(axis=1)
        ranks[:, column] = np.where(repeated, last, number)
    return ranks


def pairwise_squared_distances(images: Floats, query: Floats) -> Floats:
    """Return squared distances (m + 1, m + 1) between the query, which comes first, and `images` (m, d)."""
    offsets = np.zeros((len(images) + 1, len(query)))
    offsets[1:] = images.astype(np.float64) - query
    norms = np.einsum("ij,ij->i", offsets, offsets)
    norms = norms[:, None] + norms
    with OneBlasThread():
        squared = offsets @ offsets.T
    squared *= -2.0
    squared += norms
    squared[squared < ROUNDING * norms] = 0.0
    return squared.astype(np.float32)


class QueryList:
    """Ranking list (m rows) of a query, and the vectors and the k-NN graph of its gallery.

    Parameters
    ----------
    query : (d,) float32
        Normalised query vector.
    ranking : RankingList
        Ranking list.
    gallery : Gallery
        Vectors of the collection.
    k : int, optional
        Number of images to find; all by default.
    """

    def __init__(self, query: Floats, ranking: RankingList, gallery: Gallery, k: int | None = None) -> None:
        self.query, self.ranking, self.gallery = query, ranking, gallery
        self.k = len(ranking) if k is None else min(k, len(ranking))

    def __len__(self) -> int:
        """Return the number of rows to rank."""
        return len(self.ranking)

    def sample_rows(self, count: int) -> Rows:
        """Return at most `count` gallery rows of the list, evenly spread and ascending."""
        rows = self.ranking.evenly
        return rows[spread_rows(len(rows), count)]

    def head_around(self, query: Floats) -> RankingList:
        """Return the ranking list of another `query`."""
        return rank(query, self.gallery, self.ranking.rows)

    def with_scores(self, rows: Rows, scores: Floats) -> Floats:
        """Return the similarities of all rows, with `scores` in place of those of gallery rows, listed ones."""
        if len(rows) == len(self.ranking):
            return scores
        similarities = self.ranking.similarities.copy()
        similarities[np.searchsorted(self.ranking.rows, rows)] = scores
        return similarities

    def draw_negatives(self, scores: Floats, *, P: int, sets: int, lowest: float, seed: int) -> Rows:
        """Draw gallery rows of negative examples from the end of the order of `scores`.

        Parameters
        ----------
        scores : (m,) floating
            Scores of all rows.
        P, sets, lowest, seed
            As in `cbir.rerank.query_list.draw_negatives`.

        Returns
        -------
        (sets, q) int64
        """
        rows = self.ranking.evenly
        if self.ranking.sample is not None:
            scores = scores[np.searchsorted(self.ranking.rows, rows)]
        return rows[draw_negatives(self.query, scores, P=P, sets=sets, lowest=lowest, seed=seed)]

    def add_expansion(self, expansion: KernelExpansion, scores: Floats, weight: float) -> tuple[Rows, Scores]:
        """Score rows by expansion(x) + weight * score.

        Parameters
        ----------
        expansion : KernelExpansion
            Function of the vectors.
        scores : (m,) floating
            Scores of all rows.
        weight : float
            Weight of `scores`.

        Returns
        -------
        rows : (r,) int64
            Gallery rows, ascending; the k best among them.
        sums : (r,) floating
            Their new scores.
        """
        rows = self.ranking.rows
        positions, sums = find_best_sums(expansion, self.gallery, rows, self.k, scores, weight)
        return rows[positions], sums

    def graph_distances(self) -> tuple[Graph, Floats]:
        """Return the gallery's k-NN graph and squared distances (nodes,), infinite where nothing flows through."""
        assert self.gallery.neighbourhood is not None
        graph, lengths = self.gallery.neighbourhood.covering(self.gallery)
        squared = np.full(len(graph), np.inf, np.float32)
        rows = flow_rows(graph, self.ranking.rows, self.ranking.passable)
        unit, query_length = self.gallery.space.transform(self.query[None, :])
        if self.gallery.space.is_plain and rows is self.ranking.rows:
            squared[: len(self.gallery)] = self._squared_angles(lengths, float(query_length[0]))
        else:
            squared[rows] = squared_distances(self.gallery, self.gallery.space, unit, lengths)[0][rows]
        return graph, squared

    def _squared_angles(self, lengths: Floats, query_length: float) -> Floats:
        """Return squared distances (n,) between unit vectors from those of the list, without reading vectors.

        Of all rows, infinite for those that are not in the list: selecting rows of each array would take longer.
        """
        distances = np.full(len(self.gallery), np.inf, np.float32)
        distances[self.ranking.rows] = self.ranking.distances
        cosines: Floats = self.gallery.squared_norms + np.float32(self.query @ self.query)
        cosines -= np.square(distances, out=distances)
        cosines /= np.multiply(
            lengths[: len(cosines)], np.float32(query_length), out=distances
        )  # twice the cosine
        np.subtract(np.float32(2.0), cosines, out=cosines)
        return np.asarray(np.maximum(cosines, np.float32(0.0), out=cosines))

    @cached_property
    def near_squared(self) -> Floats:
        """Squared distances (m + 1, m + 1) between the query, which comes first, and the NEAREST images."""
        nearest = top_k(self.ranking.similarities, NEAREST)
        return pairwise_squared_distances(self.gallery.vectors(self.ranking.rows[nearest]), self.query)

    @property
    def passable_count(self) -> int:
        """Return the number of rows that relevance may flow through."""
        return len(self.ranking.rows if self.ranking.passable is None else self.ranking.passable)

    def is_listed(self, rows: Rows) -> NDArray[np.bool_]:
        """Return whether gallery rows are in the list."""
        return is_among(rows, self.ranking.rows)


def keep_sure_first(query_list: QueryList, scores: Scores, sure: float) -> Scores:
    """Put the nearest image first if the fifth is at least 1 / `sure` times as far from the query.

    Parameters
    ----------
    query_list : QueryList
        Ranking list of the query.
    scores : (m,) floating
        Scores of its rows after re-ranking, at most 0.
    sure : float
        Share in [0, 1]; 0: keep the scores.

    Returns
    -------
    (m,) floating
        The scores in the same order but for the nearest image.
    """
    row = sure_row(query_list, sure)
    if row is None:
        return scores
    kept = scores - STEP
    kept[np.searchsorted(query_list.ranking.rows, row)] = 0.0
    return kept


def place_sure_first(
    query_list: QueryList, rows: Rows, scores: Scores, sure: float, refused: Rows | None = None
) -> tuple[Rows, Scores]:
    """Put the nearest image first where `keep_sure_first` does, for scores of any scale.

    Parameters
    ----------
    query_list, sure
        As for `keep_sure_first`.
    rows : (r,) int64
        Gallery rows, ascending. If they lack the nearest image, it joins them.
    scores : (r,) floating
        Their scores after re-ranking.
    refused : (j,) int64, optional
        Gallery rows that are not put first.

    Returns
    -------
    rows : (r,) or (r + 1,) int64
        Gallery rows, ascending.
    scores : (r,) or (r + 1,) floating
        Their scores, of which that of the nearest image alone may differ.
    """
    row = sure_row(query_list, sure)
    if row is None or not len(rows) or rows[np.argmax(scores)] == row:
        return rows, scores
    if refused is not None and row in refused:
        return rows, scores
    highest = scores.max() + STEP
    position = int(np.searchsorted(rows, row))
    if position == len(rows) or rows[position] != row:
        return np.insert(rows, position, row), np.insert(scores, position, highest)
    scores = scores.copy()
    scores[position] = highest
    return rows, scores


def sure_row(query_list: QueryList, sure: float) -> int | None:
    """Return the gallery row of the nearest image if the fifth is at least 1 / `sure` times as far, else None."""
    if sure <= 0.0 or len(query_list) < SCALE:
        return None
    ranking = query_list.ranking
    nearest = int(np.argmin(ranking.distances))
    if np.count_nonzero(ranking.distances * sure <= ranking.distances[nearest]) >= SCALE:
        return None
    return int(ranking.rows[nearest])
