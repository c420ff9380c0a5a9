"""Late interaction between the images of a query and those of each series or study: combine=maxsim.

Similarity of a set of query vectors to groups of vectors, by the best vector for each query: MaxSim of Khattab and
Zaharia 2020 (ColBERT, equation 3), divided by the number of query vectors."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import CHUNK, Doubles, Floats, Rows, VectorBlocks
from cbir.search import Hit, Searcher
from cbir.search.dicom_levels import ImageGroup, Level, MatchingSlice
from cbir.store import Collection
from cbir.store.views.collection_view import View
from cbir.system.threads import checkpoint, cores, for_each, take_turn

DIGITS = 9  # of similarities: equal groups are equal, however their vectors lie in memory


def max_similarity(
    queries: Floats, gallery: VectorBlocks, rows: Rows, groups: NDArray[np.int64], scale: float
) -> Doubles:
    """Return the mean over the queries of the similarity to the nearest vector of each group.

    Exact, in blocks: no more than CHUNK rows per thread are in memory beside the gallery.

    Parameters
    ----------
    queries : (q, d) float32
        Query vectors, one at least.
    gallery : VectorBlocks
        Vectors of d dimensions.
    rows : (m,) int64
        Rows of the gallery to compare with.
    groups : (m,) int64
        Group of each row: 0 to g - 1, each with one row at least.
    scale : float
        Squared length of a typical vector, see `similarity`.

    Returns
    -------
    (g,) float64
        At most 1; 1 if a group holds all queries.
    """
    order = np.argsort(groups, kind="stable")
    rows, groups = rows[order], groups[order]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    scores = np.empty(len(starts))

    def compare(where: slice, stop: int) -> None:
        best = np.full((where.stop - where.start, len(queries)), -np.inf)
        for start in range(starts[where.start], stop, CHUNK):
            piece = slice(start, min(start + CHUNK, stop))
            members = groups[piece] - where.start
            firsts = np.flatnonzero(np.diff(members, prepend=-1))
            largest = np.maximum.reduceat(similarity(gallery.vectors(rows[piece]), queries, scale), firsts)
            best[members[firsts]] = np.maximum(best[members[firsts]], largest)
        scores[where] = best.mean(axis=1)

    for_each(_whole_groups(starts, len(rows)), compare, cores())
    return scores.round(DIGITS)


def _whole_groups(starts: NDArray[np.int64], total: int) -> Iterator[tuple[slice, int]]:
    """Yield ranges of groups with some CHUNK rows together, and the end of their rows."""
    first = 0
    while first < len(starts):
        last = max(int(np.searchsorted(starts, starts[first] + CHUNK)), first + 1)
        yield slice(first, last), int(starts[last]) if last < len(starts) else total
        first = last


def best_matches(
    queries: Floats, gallery: VectorBlocks, rows: Rows, scale: float
) -> tuple[NDArray[np.int64], Doubles]:
    """Return for each query the row with the nearest vector, the first of equal ones.

    Parameters
    ----------
    queries, gallery, scale
        As for `max_similarity`.
    rows : (m,) int64
        Rows of one group, one at least.

    Returns
    -------
    rows : (q,) int64
    similarities : (q,) float64
    """
    best_rows, best = np.full(len(queries), rows[0]), np.full(len(queries), -np.inf)
    for start in range(0, len(rows), CHUNK):
        piece = rows[start : start + CHUNK]
        values = similarity(gallery.vectors(piece), queries, scale).round(DIGITS)
        nearest = values.argmax(axis=0)
        largest = values[nearest, np.arange(len(queries))]
        better = largest > best
        best_rows[better], best[better] = piece[nearest[better]], largest[better]
    return best_rows, best


def similarity(vectors: Floats, queries: Floats, scale: float) -> Doubles:
    """Return 1 - |x - q|^2 / (2 scale): with vectors of squared length `scale`, the cosine.

    In double precision, since the difference of nearly equal numbers loses the digits of single precision.

    Parameters
    ----------
    vectors : (m, d) float32
    queries : (q, d) float32
    scale : float
        Mean squared length of the collection's vectors; 0 for a collection of zero vectors.

    Returns
    -------
    (m, q) float64
    """
    x, q = vectors.astype(np.float64), queries.astype(np.float64)
    squared = -2.0 * (x @ q.T)
    squared += np.einsum("ij,ij->i", x, x)[:, None]
    squared += np.einsum("ij,ij->i", q, q)
    np.maximum(squared, 0.0, out=squared)
    squared /= -2.0 * scale if scale > 0 else -1.0
    squared += 1.0
    return squared


UIDS = {Level.study: 1, Level.series: 2, Level.instance: 3}  # that identify a group


@dataclass(frozen=True, eq=False)
class RankedGroup:
    """A group, and for each of the q images of a query the image of the group that is most similar to it.

    score: mean of the similarities. numbers: (q,) int64, of the images. similarities: (q,) float64. distances: (q,)
    float64, Euclidean.
    """

    score: float
    numbers: NDArray[np.int64]
    similarities: Doubles
    distances: Doubles


@take_turn()
def rank_groups(
    collection: Collection, view: View, queries: Rows, rows: Rows, level: Level, page: slice
) -> tuple[list[RankedGroup], int]:
    """Order series or studies by the mean, over the images of a query, of the similarity to their best image.

    Parameters
    ----------
    collection : Collection
        Collection to search.
    view : View
        View of the collection.
    queries : (q,) int64
        Rows of the query's images, one at least.
    rows : (m,) int64
        Rows to compare with, ascending; images that are not DICOM are left out.
    level : Level
        Groups to order.
    page : slice
        Groups to return, best first; equal ones in the order in which they were added.

    Returns
    -------
    groups : list of RankedGroup
        The page.
    total : int
        Number of all groups.
    """
    rows, groups = _group_rows(collection, view, rows, level)
    if not len(rows):
        return [], 0
    gallery, scale = view.gallery, _squared_length(view)
    vectors = gallery.vectors(queries)
    scores = max_similarity(vectors, gallery, rows, groups, scale)
    ranked = []
    for group in np.argsort(-scores, kind="stable")[page]:
        checkpoint()
        best, similarities = best_matches(vectors, gallery, rows[groups == group], scale)
        distances = np.sqrt(2.0 * scale * (1.0 - similarities))
        ranked.append(RankedGroup(float(scores[group]), gallery.ids[best], similarities, distances))
    return ranked, len(scores)


def _group_rows(
    collection: Collection, view: View, rows: Rows, level: Level
) -> tuple[Rows, NDArray[np.int64]]:
    """Return those of `rows` that belong to a group, and their groups, numbered in the order of their first rows."""
    numbers, groups = collection.group_images(UIDS[level])
    positions = np.searchsorted(numbers, view.gallery.ids[rows])
    grouped = np.flatnonzero(positions < len(numbers))
    grouped = grouped[numbers[positions[grouped]] == view.gallery.ids[rows[grouped]]]
    _, firsts, members = np.unique(groups[positions[grouped]], return_index=True, return_inverse=True)
    position = np.empty(len(firsts), np.int64)
    position[np.argsort(firsts)] = np.arange(len(firsts))
    return rows[grouped], position[members]


def _squared_length(view: View) -> float:
    """Return the mean squared length of the vectors: 1 for encoders, whose similarities are cosines then."""
    return float(view.gallery.squared_norms.mean(dtype=np.float64))


def load_groups(
    searcher: Searcher, queries: Rows, ranked: list[RankedGroup], first_rank: int
) -> list[ImageGroup]:
    """Load the records of groups; images that have been deleted meanwhile are left out.

    Parameters
    ----------
    searcher : Searcher
        Search of the collection.
    queries : (q,) int64
        Numbers of the query's images.
    ranked : list of RankedGroup
        Groups, best first.
    first_rank : int
        Rank of the first one.
    """
    numbers = np.unique(np.concatenate([queries, *(group.numbers for group in ranked)]))
    records = searcher.collection.records(numbers.tolist())
    loaded = []
    for rank, group in enumerate(ranked, start=first_rank):
        columns = (queries, group.numbers, group.similarities, group.distances)
        matches = tuple(
            MatchingSlice(records[query], records[image], similarity, distance)
            for query, image, similarity, distance in zip(
                *(column.tolist() for column in columns), strict=True
            )
            if query in records and image in records
        )
        if matches:
            best = max(matches, key=lambda match: match.similarity)
            hit = Hit.of_record(
                best.image, searcher.settings, rank=rank, score=best.similarity, distance=best.distance
            )
            count = len({match.image.image_id for match in matches})
            loaded.append(ImageGroup(group.score, count, hit, matches))
    return loaded
