"""Shares of a descriptor's parts in the distance of two images, and their maps of edges."""

from typing import TYPE_CHECKING

import numpy as np

from cbir import descriptors
from cbir.descriptors.edge_histogram import BINS, KINDS, LEVELS, SIDE
from cbir.search.regions.feature_cells import Floats
from cbir.store.base.normalisation import Statistics, part_bounds

if TYPE_CHECKING:
    from cbir.store.base.profile import Profile

EDGES = "edge_histogram"


def part_shares(
    profile: "Profile", statistics: Statistics, query: Floats, answer: Floats
) -> dict[str, float]:
    """Return the share of each part of the descriptor in the squared distance; they add up to 1.

    Parameters
    ----------
    profile : Profile
        Profile of the collection; its descriptor has several parts.
    statistics : Statistics
        Statistics that normalise its vectors.
    query, answer : (d,) float32
        Raw vectors. Of equal ones all shares are 0.
    """
    squares = np.square(
        statistics.normalise(query).astype(np.float64) - statistics.normalise(answer).astype(np.float64)
    )
    total = float(squares.sum())
    names = [part.name for part in descriptors.get(profile.descriptor).parts]
    bounds = part_bounds(profile, statistics)
    return {
        name: float(squares[start:stop].sum()) / total if total else 0.0
        for name, (start, stop) in zip(names, bounds, strict=True)
    }


def edge_map(profile: "Profile", raw: Floats) -> Floats | None:
    """Return the shares of five kinds of edges in each of 4 x 4 parts of an image; None without such a descriptor.

    Parameters
    ----------
    profile : Profile
        Profile of the collection.
    raw : (d,) float32
        Raw vector.

    Returns
    -------
    (4, 4, 5) float32 or None
        Shares from 0 to 1 of vertical, horizontal, 45 degrees, 135 degrees and other edges (ISO/IEC 15938-3, 7.4).
    """
    part = next((part for part in descriptors.get(profile.descriptor).parts if part.name == EDGES), None)
    if part is None:
        return None
    local = raw[part.start : part.start + BINS].reshape(SIDE, SIDE, KINDS)
    if part.stop - part.start == BINS:  # indices of levels, not shares
        local = LEVELS[np.arange(KINDS), local.astype(int)]
    return np.asarray(local, np.float32)
