"""Explanation of a result: matching places for an encoder, shares of the distance for other descriptors."""

from dataclasses import dataclass

import numpy as np

from cbir import descriptors
from cbir.descriptors.edge_histogram import BINS, KINDS, LEVELS, SIDE
from cbir.descriptors.encoders import Encoder
from cbir.descriptors.network_descriptors import JOIN, encoder_of
from cbir.errors import InvalidInput
from cbir.images.scaling import check_region
from cbir.search.feature_cells import Area, Floats, MatchMaps
from cbir.store.base.normalisation import Statistics, part_bounds
from cbir.store.base.profile import Profile

EDGES = "edge_histogram"


def part_shares(profile: Profile, statistics: Statistics, query: Floats, answer: Floats) -> dict[str, float]:
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


def edge_map(profile: Profile, raw: Floats) -> Floats | None:
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


@dataclass(frozen=True, eq=False)
class Explanation:
    """Reasons for a result: the maps of an encoder, or the parts of another descriptor; the others are None.

    maps: how well each place matches. shares: of the descriptor's parts in the squared distance, which add up to 1;
    all 0 for equal vectors. query_edges, answer_edges: see `edge_map`.
    """

    maps: MatchMaps | None = None
    shares: dict[str, float] | None = None
    query_edges: Floats | None = None
    answer_edges: Floats | None = None


def explaining_encoder(profile: Profile) -> Encoder | None:
    """Return the encoder whose places explain the results of a profile, None where the descriptor's parts do.

    Raises InvalidInput if neither does.
    """
    if profile.volume_grid is None:
        encoder = None if JOIN in profile.descriptor else encoder_of(profile.descriptor)
        if encoder is not None and any(output.pooling != "none" for output in encoder.card.outputs):
            return encoder
        if encoder is None and len(descriptors.get(profile.descriptor).parts) > 1:
            return None
    raise InvalidInput(
        f"the profile {profile.name} has no explanation: there is one for encoders of images that have a map, and "
        "for descriptors of several parts, such as huang2012"
    )


def explanation_kind(profile: Profile) -> str:
    """Return "places" or "parts", what explains the results of a profile; "" if nothing does."""
    try:
        return "parts" if explaining_encoder(profile) is None else "places"
    except InvalidInput:
        return ""


def explain_parts(profile: Profile, statistics: Statistics, query: Floats, answer: Floats) -> Explanation:
    """Explain a distance by the parts of the descriptor.

    Parameters
    ----------
    profile : Profile
        Profile of the collection.
    statistics : Statistics
        Statistics that normalise its vectors.
    query, answer : (d,) float32
        Raw vectors.
    """
    return Explanation(
        shares=part_shares(profile, statistics, query, answer),
        query_edges=edge_map(profile, query),
        answer_edges=edge_map(profile, answer),
    )


def region_area(region: tuple[int, int, int, int], width: int, height: int) -> Area:
    """Return a region as shares of an image.

    Parameters
    ----------
    region : (int, int, int, int)
        x, y, width, height in pixels.
    width, height : int
        Size of the image in pixels.

    Raises
    ------
    InvalidInput
        If the region is empty or exceeds the image.
    """
    check_region(region, width, height)
    x, y, across, down = region
    return x / width, y / height, across / width, down / height
