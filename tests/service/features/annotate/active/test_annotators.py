"""Agreement beside plain definitions and published examples."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa

from service.features.annotate.active.annotator_agreement import (
    annotator_agreement,
    cohen_kappa,
    krippendorff_alpha,
)
from tests.service.features.annotate.active.test_journal import judgement

NAN = math.nan
# Krippendorff (2011), section C: four observers, twelve units; alpha 0.743 nominal, 0.815 ordinal.
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
]


def slow_alpha(table: np.ndarray, level: str) -> float | None:
    """1 - observed / expected disagreement, over every pair of answers there is, one after the other."""
    units = [[value for value in column if not math.isnan(value)] for column in table.T]
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]

    def distance(one: float, other: float) -> float:
        if level == "nominal":
            return float(one != other)
        low, high = min(one, other), max(one, other)
        between = sum(1 for value in values if low <= value <= high)
        return (between - (values.count(low) + values.count(high)) / 2) ** 2

    observed = sum(
        distance(one, other) / (len(unit) - 1)
        for unit in units
        for one, other in itertools.permutations(unit, 2)
    )
    expected = sum(distance(one, other) for one, other in itertools.permutations(values, 2))
    if not expected:
        return None
    return 1 - (observed / len(values)) / (expected / (len(values) * (len(values) - 1)))


@pytest.mark.parametrize(("level", "expected"), [("nominal", 0.743), ("ordinal", 0.815)])
def test_alpha_as_published(level: str, expected: float) -> None:
    assert krippendorff_alpha(PUBLISHED, level) == pytest.approx(expected, abs=0.0005)  # type: ignore[arg-type]


tables = st.integers(1, 4).flatmap(
    lambda people: st.lists(
        st.lists(st.sampled_from([-1.0, 0.0, 1.0, NAN]), min_size=people, max_size=people), max_size=12
    ).map(lambda rows: np.array(rows, np.float64).reshape(-1, people).T)
)


@given(tables, st.sampled_from(["nominal", "ordinal"]))
def test_alpha_by_its_definition(table: np.ndarray, level: str) -> None:
    expected = slow_alpha(table, level)
    found = krippendorff_alpha(table, level)  # type: ignore[arg-type]
    assert (found is None) == (expected is None)
    if expected is not None:
        assert found == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1])), min_size=1))
def test_kappa_beside_statsmodels(answers: list[tuple[int, int]]) -> None:
    one, other = [a for a, _ in answers], [b for _, b in answers]
    found = cohen_kappa(one, other)
    if len({*one, *other}) < 2:
        assert found is None
        return
    table = np.array([[answers.count((a, b)) for b in (-1, 0, 1)] for a in (-1, 0, 1)])
    assert found == pytest.approx(cohens_kappa(table, return_results=False), abs=1e-9)


def test_nothing_to_agree_on() -> None:
    assert (
        krippendorff_alpha(np.empty((0, 0)))
        is krippendorff_alpha([[1.0], [NAN]])
        is krippendorff_alpha([[1.0, 1.0], [1.0, 1.0]])
        is None
    )
    assert cohen_kappa([], []) is cohen_kappa([1, 1], [1, 1]) is None
    found = annotator_agreement([])
    assert (found.people, found.pairs, found.alpha, found.between) == (0, 0, None, ())
    alone = annotator_agreement([judgement(1), judgement(2, pair=(2, 3))])
    assert (alone.people, alone.pairs, alone.alpha) == (1, 0, None)


def test_sides_do_not_matter_and_skips_do_not_count() -> None:
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7)]
    answers = ["first", "second", "alike", "first"]
    opposite = {"first": "second", "second": "first", "alike": "alike"}
    said = [judgement(n, a, "Ada", pair) for n, (a, pair) in enumerate(zip(answers, pairs, strict=True))]
    mirrored = [
        judgement(10 + n, opposite[a], "Bob", pair[::-1])  # type: ignore[arg-type]
        for n, (a, pair) in enumerate(zip(answers, pairs, strict=True))
    ]
    skipped = [judgement(20 + n, "skip", "Cy", pair) for n, pair in enumerate(pairs)]
    found = annotator_agreement([*said, *mirrored, *skipped])
    assert (found.people, found.pairs, found.alpha) == (2, 4, 1.0)
    assert [(one.one, one.other, one.pairs, one.kappa) for one in found.between] == [("Ada", "Bob", 4, 1.0)]


def test_an_opposite_answer_is_worse_than_alike() -> None:
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7)]
    answers = ["first", "second", "alike", "first"]

    def of(changed: str) -> float:
        ada = [judgement(n, a, "Ada", pair) for n, (a, pair) in enumerate(zip(answers, pairs, strict=True))]
        bob = [
            judgement(10 + n, a, "Bob", pair)
            for n, (a, pair) in enumerate(zip([*answers[:3], changed], pairs, strict=True))
        ]
        found = annotator_agreement([*ada, *bob]).alpha
        assert found is not None
        return found

    assert of("first") == 1 > of("alike") > of("second")
