"""Merging of the answers of several sites."""

import heapq
from collections.abc import Sequence
from operator import itemgetter
from typing import Protocol, TypeVar


class HasDistance(Protocol):
    """A hit of a site."""

    @property
    def distance(self) -> float:
        """Euclidean distance from the query."""


AnyHit = TypeVar("AnyHit", bound=HasDistance)


def reserved_places(sites: int, k: int) -> int:
    """Return the places among k results that each of several sites keeps: half of all are shared out evenly.

    One at least, where there is one for each: a site that claims distances of 0 cannot take every place.
    """
    return max(k // (2 * sites), int(k >= sites)) if sites > 1 else 0


def merge_by_distance(sites: Sequence[Sequence[AnyHit]], k: int, reserved: int = 0) -> list[AnyHit]:
    """Return the k nearest images; of equal distances those of the first site first, in the order of the site.

    It is the order of a collection to which the images of all sites were added, one site after another. The nearer
    half is of the nearest images, whose ever they are. Where a site has fewer than its `reserved` places, its nearest
    images take those of the last ones of other sites; if there are not enough for all, the nearer images get them.

    Parameters
    ----------
    sites : sequence of sequences of hits
        Hits of each site, nearest first.
    k : int
        Number of hits; fewer where there are no more.
    reserved : int
        Places that each site keeps, see `reserved_places`.
    """
    numbered = [[(hit, position < reserved) for position, hit in enumerate(hits)] for hits in sites]
    merged = list(heapq.merge(*numbered, key=lambda item: item[0].distance))
    by_claim = sorted(range(len(merged)), key=lambda place: (place >= k // 2, not merged[place][1]))
    return [merged[place][0] for place in sorted(by_claim[:k])]


def merge_by_rank(sites: Sequence[Sequence[AnyHit]], k: int) -> list[AnyHit]:
    """Return k images in the order of their ranks at their sites; of equal ranks the nearer one first.

    Scores of re-rankers are relative to the images of one site, so they are not compared. No site can take more than
    its share of the first ranks.

    Parameters
    ----------
    sites : sequence of sequences of hits
        Hits of each site, best first.
    k : int
        Number of hits; fewer where there are no more.
    """
    ranked = [
        ((rank, hit.distance, site), hit) for site, hits in enumerate(sites) for rank, hit in enumerate(hits)
    ]
    return [hit for _, hit in sorted(ranked, key=itemgetter(0))[:k]]


def score_of_distance(distance: float) -> float:
    """Return a score in (0, 1] that depends on nothing but the distance, so that no site changes another's."""
    return 1.0 / (1.0 + distance)
