"""Neighbours that only the other image of a pair found."""

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats
from cbir.system.cancellation import checkpoint

BLOCK = 65_536  # images whose pairs are looked at together

Numbers = NDArray[np.int32]


def add_reverse_neighbours(rows: Numbers, squared: Floats) -> None:
    """Give each image those of its nearest that have it as a neighbour and that it lacks, in place.

    The images of a list are compared with other lists than those compare theirs with, so that one of a pair may miss
    the other.

    Parameters
    ----------
    rows : (n, k) int32
        Neighbours of n images, nearest first; -1 if there are fewer.
    squared : (n, k) float32
        Their squared distances, infinite if there are fewer.
    """
    targets, sources, distances = _missing(rows, squared)
    order = np.lexsort((distances, targets))
    targets, sources, distances = targets[order], sources[order], distances[order]
    place = np.arange(len(targets)) - np.searchsorted(
        targets, targets
    )  # of a source among those of its target
    kept = place < rows.shape[1]
    targets, sources, distances, place = targets[kept], sources[kept], distances[kept], place[kept]
    changed, position = np.unique(targets, return_inverse=True)
    new_rows = np.full((len(changed), rows.shape[1]), -1, np.int32)
    new_squared = np.full((len(changed), rows.shape[1]), np.inf, np.float32)
    new_rows[position, place], new_squared[position, place] = sources, distances
    both_rows = np.concatenate([rows[changed], new_rows], axis=1)
    both_squared = np.concatenate([squared[changed], new_squared], axis=1)
    nearest = np.argsort(both_squared, axis=1, kind="stable")[:, : rows.shape[1]]
    rows[changed] = np.take_along_axis(both_rows, nearest, axis=1)
    squared[changed] = np.take_along_axis(both_squared, nearest, axis=1)


def _missing(rows: Numbers, squared: Floats) -> tuple[Numbers, Numbers, Floats]:
    """Return images, the others that have them as neighbours and are nearer than their last one, and distances."""
    found: list[tuple[Numbers, Numbers, Floats]] = []
    for start in range(0, len(rows), BLOCK):
        checkpoint()
        block = slice(start, start + BLOCK)
        targets, distances = rows[block].ravel(), squared[block].ravel()
        sources = np.repeat(np.arange(start, start + len(rows[block]), dtype=np.int32), rows.shape[1])
        nearer = np.flatnonzero((targets >= 0) & (distances < squared[targets, -1]))
        targets, sources, distances = targets[nearer], sources[nearer], distances[nearer]
        lacking = ~(rows[targets] == sources[:, None]).any(axis=1)
        found.append((targets[lacking], sources[lacking], distances[lacking]))
    targets, sources, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return targets, sources, distances
