"""Late interaction between the images of a query and those of each series or study: combine=maxsim."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.max_similarity import best_matches, max_similarity
from cbir.gallery.vector_blocks import Doubles, Rows
from cbir.search import Hit, Searcher
from cbir.search.dicom_levels import ImageGroup, Level, MatchingSlice
from cbir.store import Collection
from cbir.store.views.collection_view import View
from cbir.system.threads import checkpoint, take_turn

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
