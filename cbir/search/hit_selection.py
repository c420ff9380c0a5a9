"""Selection of hits from ranked images: thresholds, and one or several images of each group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.rerank.none import NoReranking
from cbir.search.ranked_images import RankedImages
from cbir.search.search_models import Grouping, HitGroup
from cbir.search.search_request import Request

DEPTH = 200  # images ranked at first, at least, where not every one of the best becomes a hit
GROWTH = 10  # of the depth, as long as hits are missing

Rank = Callable[[int], RankedImages]
ReadGroups = Callable[[Sequence[int]], Mapping[int, str]]


@dataclass(frozen=True, eq=False)
class SelectedImages:
    """Images that become hits, in their order.

    ranked: the images. groups: of each of them, None without grouping. grouping: facts about it.
    """

    ranked: RankedImages
    groups: list[HitGroup] | None = None
    grouping: Grouping | None = None


def select_images(rank: Rank, request: Request, read_groups: ReadGroups) -> SelectedImages:
    """Rank as many images as it takes to find k hits, or hits of k groups, or to see that there are fewer.

    Parameters
    ----------
    rank : callable
        Returns the best images; fewer than k where there are no more. A smaller number of images is
        the beginning of a larger one.
    request : Request
        k, thresholds and groups.
    read_groups : callable
        Returns the group's key of each image number that has one.
    """
    if request.group_by is None and request.max_distance is None:
        ranked = rank(request.k)
        return SelectedImages(ranked.take(_within(ranked, request)))
    depth, keys = max(DEPTH, 10 * request.k * request.group_size), dict[int, str]()
    while True:
        ranked = rank(depth)
        remaining = ranked.take(_within(ranked, request))
        numbers = remaining.numbers.tolist()
        if request.group_by is not None:
            keys |= read_groups([number for number in numbers if number not in keys])
        groups = _group(numbers, keys)
        if len(groups) >= request.k or len(ranked) < depth or _is_beyond(ranked, request):
            break
        depth *= GROWTH
    if request.group_by is None:
        return SelectedImages(remaining.take(np.arange(min(request.k, len(remaining)))))
    return _select_groups(remaining, groups[: request.k], keys, request, len(ranked))


def _within(ranked: RankedImages, request: Request) -> NDArray[np.int64]:
    """Return the positions of the images within the thresholds."""
    within = np.ones(len(ranked), bool)
    if request.score_threshold is not None:
        within &= ranked.reported >= request.score_threshold
    if request.max_distance is not None:
        within &= ranked.distances <= request.max_distance
    return np.flatnonzero(within)


def _is_beyond(ranked: RankedImages, request: Request) -> bool:
    """Return whether all further images are beyond a threshold."""
    by_distance = request.max_distance is not None and ranked.reranking.method == NoReranking.name
    return bool(
        (request.score_threshold is not None and ranked.reported[-1] < request.score_threshold)
        or (by_distance and ranked.distances[-1] > request.max_distance)
    )


def _group(numbers: Sequence[int], keys: Mapping[int, str]) -> list[list[int]]:
    """Return the positions of each group's images, best groups first; an image without a key is a group."""
    groups: dict[str | int, list[int]] = {}
    for position, number in enumerate(numbers):
        groups.setdefault(keys.get(number, position), []).append(position)
    return [*groups.values()]


def _select_groups(
    remaining: RankedImages,
    groups: Sequence[list[int]],
    keys: Mapping[int, str],
    request: Request,
    depth: int,
) -> SelectedImages:
    positions, facts = list[int](), list[HitGroup]()
    for rank, members in enumerate(groups, 1):
        hits = members[: request.group_size]
        key = keys.get(int(remaining.numbers[members[0]]))
        positions += hits
        facts += [HitGroup(rank=rank, key=key, more=len(members) - len(hits))] * len(hits)
    grouping = Grouping(by=str(request.group_by), size=request.group_size, depth=depth)
    return SelectedImages(remaining.take(np.array(positions, np.int64)), facts, grouping)
