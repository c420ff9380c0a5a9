"""From images that were found to the instances, series or studies they are of.

Slices are combined as in Khun Jush et al. 2024, Content-based image retrieval for multi-class volumetric radiology
images: by the best score, the sum of scores, or how many were found.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cbir.search import Hit


class Level(StrEnum):
    """What an answer is of; each holds the one before."""

    instance = "instance"
    series = "series"
    study = "study"


class Combination(StrEnum):
    """How the scores of a group's images become its own."""

    max = "max"
    sum = "sum"
    frequency = "frequency"


def _sum(scores: Sequence[float]) -> float:
    return sum(max(score, 0.0) for score in scores)


COMBINE: dict[Combination, Callable[[Sequence[float]], float]] = {
    Combination.max: max,
    Combination.sum: _sum,  # scores below 0 say "not relevant": finding such an image too is no argument against
    Combination.frequency: len,
}


@dataclass(frozen=True)
class ImageGroup:
    """An instance, series or study that was found.

    score: combined. found: how often its images are in the lists. best: the image with the greatest score.
    """

    score: float
    found: int
    best: Hit


def group_key(hit: Hit, level: Level) -> tuple[str, ...]:
    """The UIDs that name what a hit is of; hits without them are passed over by `combine`."""
    if hit.dicom is None:
        return ()
    uids = (hit.dicom.study, hit.dicom.series, hit.dicom.instance)
    return uids[: {Level.study: 1, Level.series: 2, Level.instance: 3}[level]]


def group_hits(lists: Iterable[Sequence[Hit]], level: Level, how: Combination) -> list[ImageGroup]:
    """The groups of one or several ranked lists, best first; equal ones by their best image, then by first sight.

    With several lists, one for each slice of the query, an image counts once in each list that it is in.
    """
    members: dict[tuple[str, ...], list[Hit]] = {}
    for hits in lists:
        for hit in hits:
            if named := group_key(hit, level):
                members.setdefault(named, []).append(hit)
    groups = [
        ImageGroup(
            float(COMBINE[how]([hit.score for hit in hits])), len(hits), max(hits, key=lambda hit: hit.score)
        )
        for hits in members.values()
    ]
    return sorted(groups, key=lambda group: (-group.score, -group.best.score))
