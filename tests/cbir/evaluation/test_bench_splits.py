"""Splits of bench/rerank_quality.py."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.evaluation.relevance import parse_relevance
from tests.benches import loaded
from tests.cbir.evaluation.small import pool

splits = loaded("splits")

LABEL = parse_relevance("label")
IMAGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([None, "p", "q", "r", "s"])), max_size=40)


def among(images):
    return pool([{"label": label} for label, _ in images], [patient for _, patient in images])


@given(IMAGES)
def test_halves_share_neither_image_nor_patient(images):
    first, second = splits.split_halves(among(images), LABEL)
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(len(images)))
    patients = [{images[place][1] for place in half.tolist()} - {None} for half in (first, second)]
    assert not patients[0] & patients[1]


def test_halves_of_images_without_patients_are_even_in_every_class():
    images = [("ab"[number % 3 == 0], None) for number in range(31)]
    of_first, of_second = (
        Counter(images[place][0] for place in half) for half in splits.split_halves(among(images), LABEL)
    )
    assert all(abs(of_first[label] - of_second[label]) <= 1 for label in "ab")


def test_another_seed_gives_other_halves():
    images = among([("a", None)] * 40)
    first, again, other = (splits.split_halves(images, LABEL, seed)[0].tolist() for seed in (0, 0, 1))
    assert first == again != other


@given(IMAGES, st.integers(1, 12))
def test_a_cut_class_has_at_most_so_many_images_of_whole_patients(images, most):
    kept = {*splits.limit_classes(among(images), LABEL, most).tolist()}
    assert max(Counter(images[place][0] for place in kept).values(), default=0) <= most
    for place in kept:
        mates = [other for other, image in enumerate(images) if image == images[place] and image[1]]
        assert kept.issuperset(mates)


@pytest.mark.parametrize(("most", "count"), [(None, 5), (5, 5), (3, 3), (1, 1)])
def test_images_without_label_are_left_out(most, count):
    kept = splits.limit_classes(pool([{"label": "a"}] * 5 + [{}, {"label": ""}]), LABEL, most)
    assert len(kept) == count
    assert kept.max() < 5


def test_equal_pictures_stay_together():
    labelled = pool([{"label": "a"}] * 6, contents=["same", "same", "same", "x", "y", "z"])
    for half in splits.split_halves(labelled, LABEL):
        assert len({0, 1, 2} & {*half.tolist()}) in (0, 3)
