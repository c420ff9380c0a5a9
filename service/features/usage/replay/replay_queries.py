"""Queries of a usage log: what is known of each from all its searches."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from service.features.usage.replay_log import ERASED, LoggedSearch

REASONS = {
    "other profile": "searched in vectors of another profile",
    "no vector": "an upload or region, whose vector the log does not have (setting usage_vectors)",
    "no single image": "a search by text or by several images",
    "erased": "the query image is no longer in the collection",
    "no events": "no answer was opened or judged",
}


@dataclass(frozen=True, eq=False)
class Click:
    """An opened answer, and its rank in the list that was shown, from 1."""

    image: str
    rank: int


@dataclass(frozen=True, eq=False)
class LoggedQuery:
    """A query with the events of all its searches.

    image_id: None for a vector. vector: (d,) float32 raw. relevant, irrelevant: judged more often so than otherwise.
    plain: searches without filters, groups and judgements, whose ranks can be compared with those of a replay.
    clicks: opened answers of these.
    """

    name: str
    image_id: str | None
    vector: NDArray[np.float32] | None
    relevant: frozenset[str]
    irrelevant: frozenset[str]
    plain: tuple[LoggedSearch, ...]
    clicks: tuple[Click, ...]


def collect_queries(
    searches: Iterable[LoggedSearch], profile: str, images: frozenset[str]
) -> tuple[list[LoggedQuery], dict[str, int]]:
    """Group searches by their query.

    Parameters
    ----------
    searches : iterable of LoggedSearch
        Of one collection.
    profile : str
        Hash of the collection's profile.
    images : frozenset of str
        Ids of the collection's images; events of others are left out.

    Returns
    -------
    queries : list of LoggedQuery
        Those with an event, by name.
    left_out : dict
        Number of searches by each of REASONS that applies.
    """
    groups: dict[str, list[LoggedSearch]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    for search in searches:
        if reason := _reason_against(search, profile, images):
            left_out[reason] += 1
        else:
            groups[_name(search)].append(search)
    queries = []
    for name, group in sorted(groups.items()):
        query = _merge(name, group, images)
        if query.relevant or query.irrelevant or query.clicks:
            queries.append(query)
        else:
            left_out["no events"] += len(group)
    return queries, dict(left_out)


def _reason_against(search: LoggedSearch, profile: str, images: frozenset[str]) -> str | None:
    if search.kind == "other":
        return "no single image"
    if search.query_image is not None:
        return None if search.query_image in images else "erased"
    if search.vector is None:
        return "no vector"
    return None if search.profile == profile else "other profile"


def _name(search: LoggedSearch) -> str:
    """Return the id of the query image, or for a vector a name of the same form."""
    if search.query_image is not None:
        return search.query_image
    assert search.vector is not None, "searches without a query are left out"
    return "vector-" + blake2b(search.vector.tobytes(), digest_size=8).hexdigest()


def _merge(name: str, group: Sequence[LoggedSearch], images: frozenset[str]) -> LoggedQuery:
    votes: Counter[str] = Counter()
    for search in group:
        for image, value in search.marks.items():
            if image in images and image != name:
                votes[image] += value
    plain = tuple(search for search in group if not (search.filters or search.grouped or search.judgements))
    clicks = tuple(
        Click(image, rank)
        for search in plain
        for rank, image in enumerate(search.answers, start=1)
        if image != ERASED and image in search.opened and image in images
    )
    return LoggedQuery(
        name,
        group[0].query_image,
        group[0].vector,
        frozenset(image for image, value in votes.items() if value > 0),
        frozenset(image for image, value in votes.items() if value < 0),
        plain,
        clicks,
    )
