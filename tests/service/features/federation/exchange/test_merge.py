"""Merged lists against the order of all images together."""

from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from service.features.federation.federated_search import (
    merge_by_distance,
    merge_by_rank,
    reserved_places,
    score_of_distance,
)


class Near(NamedTuple):
    distance: float
    site: int
    position: int


distances = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 7.25]), max_size=12)
several = st.lists(distances, min_size=1, max_size=4)


def hits_of(sites: list[list[float]]) -> list[list[Near]]:
    return [
        [Near(distance, site, position) for position, distance in enumerate(sorted(found))]
        for site, found in enumerate(sites)
    ]


@given(several, st.integers(1, 20))
def test_distances_are_in_the_order_of_the_pooled_images(sites: list[list[float]], k: int) -> None:
    lists = hits_of(sites)
    pooled = sorted((hit for found in lists for hit in found), key=lambda hit: hit.distance)  # stable
    assert merge_by_distance(lists, k) == pooled[:k]


@given(several, st.integers(1, 20))
@example([[0.5], [0.0, 0.0], [0.0], [0.0]], 4)  # places for all, but not beyond the nearer half
@example([[1.0], [0.0, 0.0, 0.0, 0.0], [0.5], [1.5]], 4)
def test_each_site_keeps_its_places(sites: list[list[float]], k: int) -> None:
    lists = hits_of(sites)
    reserved = reserved_places(sum(map(bool, lists)), k)
    merged = merge_by_distance(lists, k, reserved)
    assert len(merged) == min(k, sum(map(len, lists)))
    assert [hit.distance for hit in merged] == sorted(hit.distance for hit in merged)
    for site, found in enumerate(lists):
        mine = [hit for hit in merged if hit.site == site]
        assert mine == found[: len(mine)]
        if reserved * sum(map(bool, lists)) <= k - k // 2:
            assert len(mine) >= min(len(found), reserved)
        elif sum(map(bool, lists)) > 1:
            assert len(mine) < k, "no site takes every place"
    nearest = merge_by_distance(lists, k)
    assert {*nearest[: k // 2]} <= {*merged}, "the nearer half is that of all images together"


def test_a_liar_takes_no_more_than_its_share() -> None:
    honest, liar = hits_of([[3.0] * 20, [0.0] * 20])
    merged = merge_by_distance([honest, liar], 20, reserved_places(2, 20))
    assert [hit.site for hit in merged] == [1] * 15 + [0] * 5
    assert [reserved_places(sites, k) for sites, k in ((1, 20), (2, 1), (2, 2), (3, 2), (3, 20))] == [
        0,
        0,
        1,
        0,
        3,
    ]


@given(several, st.integers(1, 20))
def test_no_site_gets_more_than_its_share_of_the_first_ranks(sites: list[list[float]], k: int) -> None:
    lists = hits_of(sites)
    merged = merge_by_rank(lists, k)
    assert len(merged) == min(k, sum(map(len, lists)))
    assert [hit.position for hit in merged] == sorted(hit.position for hit in merged)
    for site, found in enumerate(lists):
        mine = [hit for hit in merged if hit.site == site]
        assert mine == found[: len(mine)]
    first = merged[: sum(bool(found) for found in lists)]
    assert len({hit.site for hit in first}) == len(first)


def test_nothing_from_anyone() -> None:
    assert merge_by_distance([[], []], 5) == []
    assert merge_by_rank([[], []], 5) == []


@given(st.floats(0, 1e30), st.floats(0, 1e30))
def test_scores_fall_with_the_distance(one: float, other: float) -> None:
    assert 0 < score_of_distance(one) <= 1
    assert (one < other) <= (score_of_distance(one) >= score_of_distance(other))
