"""Grouping of hits by instance, series or study.

Slices are combined as in Khun Jush et al. 2024, Content-based image retrieval for multi-class volumetric radiology
images: by the best score, the sum of scores, or the number of hits; or by late interaction (arXiv 2405.09334): the
best slice for each slice of the query.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cbir.search import Hit
    from cbir.store import Record


class Level(StrEnum):
    """Level of an answer; each contains the one before."""

    instance = "instance"
    series = "series"
    study = "study"


class Exclude(StrEnum):
    """Part of the query's own patient to leave out of the answers; each level contains the one before."""

    instance = "instance"
    series = "series"
    study = "study"
    patient = "patient"


class Combination(StrEnum):
    """Score of a group, from those of its images among the hits, or of all its images (maxsim)."""

    max = "max"
    sum = "sum"
    frequency = "frequency"
    maxsim = "maxsim"


COMBINE: dict[Combination, Callable[[Sequence[float]], float]] = {
    Combination.max: max,
    # a score below 0 says "not relevant", and is no argument against the group
    Combination.sum: lambda scores: sum(max(score, 0.0) for score in scores),
    Combination.frequency: len,
}


@dataclass(frozen=True)
class MatchingSlice:
    """The image of a group that is most similar to one image of the query.

    similarity: at most 1, of equal vectors. distance: Euclidean.
    """

    query: "Record"
    image: "Record"
    similarity: float
    distance: float


@dataclass(frozen=True)
class ImageGroup:
    """An instance, series or study among the hits.

    score: combined. count: number of hits. best: the hit with the largest score. matches: with maxsim, the image for
    each image of the query, in its order.
    """

    score: float
    count: int
    best: "Hit"
    matches: tuple[MatchingSlice, ...] = ()


def group_key(hit: "Hit", level: Level) -> tuple[str, ...]:
    """Return the UIDs that identify a hit at `level`; empty for an image that is not DICOM."""
    if hit.dicom is None:
        return ()
    uids = (hit.dicom.study, hit.dicom.series, hit.dicom.instance)
    return uids[: {Level.study: 1, Level.series: 2, Level.instance: 3}[level]]


def group_hits(lists: "Iterable[Sequence[Hit]]", level: Level, combination: Combination) -> list[ImageGroup]:
    """Group the hits of ranked lists; images that are not DICOM are left out.

    Parameters
    ----------
    lists : iterable of sequences of Hit
        One list for each query; an image counts once in each list that it is in.
    level : Level
        Instance, series or study.
    combination : Combination
        How the scores of a group are combined; not maxsim, which needs all images
        (`cbir.search.slice_matching`).

    Returns
    -------
    list of ImageGroup
        Best first; equal ones by their best image, then by first occurrence.
    """
    members: dict[tuple[str, ...], list[Hit]] = {}
    for hits in lists:
        for hit in hits:
            if uids := group_key(hit, level):
                members.setdefault(uids, []).append(hit)
    groups = []
    for hits in members.values():
        score = float(COMBINE[combination]([hit.score for hit in hits]))
        groups.append(ImageGroup(score, len(hits), max(hits, key=lambda hit: hit.score)))
    return sorted(groups, key=lambda group: (-group.score, -group.best.score))
