"""Groups of slices, against a plain version that looks at every image for every group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.search import DicomPlace, Hit, Links
from cbir.search.dicom_levels import Combination, Level, group_hits, group_key

FROM_HITS = [how for how in Combination if how is not Combination.maxsim]
SCORES = st.floats(-2, 2).map(lambda score: round(score, 3))


def hit(rank: int, uids: tuple[int, int, int] | None, score: float) -> Hit:
    place = None
    if uids is not None:
        study, series, instance = (f"1.{uids[0]}", f"1.{uids[0]}.{uids[1]}", ".".join(map(str, (1, *uids))))
        place = DicomPlace(study=study, series=series, instance=instance, frame=None)
    return Hit(
        rank=rank, image_id=f"{rank:032x}", score=score, distance=0.0, labels={}, patient=None, dicom=place,
        links=Links(thumbnail="t", image="i"),
    )  # fmt: skip


uids = st.none() | st.tuples(*[st.integers(0, 2)] * 3)
hits = st.lists(st.tuples(uids, SCORES), max_size=12).map(
    lambda result: [
        hit(rank, *one) for rank, one in enumerate(sorted(result, key=lambda one: -one[1]), start=1)
    ]
)


@given(st.lists(hits, max_size=4), st.sampled_from(Level), st.sampled_from(FROM_HITS))
def test_combined_as_the_plain_version(lists: list[list[Hit]], level: Level, how: Combination) -> None:
    names = {group_key(one, level) for one_list in lists for one in one_list} - {()}
    plain = {}
    for name in names:
        scores = [one.score for one_list in lists for one in one_list if group_key(one, level) == name]
        combined = {
            "max": sorted(scores)[-1],
            "sum": sum(score for score in scores if score > 0),
            "frequency": len(scores),
        }
        plain[name] = combined[how], len(scores), sorted(scores)[-1]
    result = group_hits(lists, level, how)
    assert {group_key(group.best, level) for group in result} == names
    assert len(result) == len(names)
    for group in result:
        score, count, best = plain[group_key(group.best, level)]
        assert group.score == pytest.approx(score)
        assert (group.count, group.best.score) == (count, best)
    order = [(group.score, group.best.score) for group in result]
    assert order == sorted(order, reverse=True)


def test_slices_of_two_series() -> None:
    lists = [
        [hit(1, (0, 0, 0), 0.9), hit(2, (1, 0, 0), 0.5), hit(3, (1, 0, 1), 0.45), hit(4, (1, 1, 0), 0.4)]
    ]
    best = {(level, how): group_hits(lists, level, how)[0].best.rank for level in Level for how in FROM_HITS}
    assert best[Level.series, Combination.max] == best[Level.study, Combination.max] == 1
    assert best[Level.series, Combination.sum] == best[Level.study, Combination.sum] == 2
    assert group_hits(lists, Level.study, Combination.frequency)[0].score == 3.0
    assert group_hits(lists, Level.series, Combination.sum)[0].score == pytest.approx(0.95)
    assert group_hits([], Level.study, Combination.max) == []
