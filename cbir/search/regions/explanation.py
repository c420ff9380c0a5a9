"""Explanation of a result: matching places for an encoder, shares of the distance for other descriptors."""

from dataclasses import dataclass

from cbir import descriptors
from cbir.descriptors.encoders import Encoder
from cbir.descriptors.network_descriptors import JOIN, encoder_of
from cbir.errors import InvalidInput
from cbir.search.regions.feature_cells import Area, Floats
from cbir.search.regions.match_map import MatchMaps
from cbir.search.regions.part_shares import edge_map, part_shares
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import Profile


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
    x, y, across, down = region
    if across < 1 or down < 1 or x < 0 or y < 0 or x + across > width or y + down > height:
        raise InvalidInput(
            f"the region {x},{y},{across},{down} is not inside the image, which is {width} pixels wide "
            f"and {height} high; give x,y,width,height in its pixels"
        )
    return x / width, y / height, across / width, down / height
