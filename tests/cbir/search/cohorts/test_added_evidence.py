"""Adding evidence to probabilities: another order, the same sum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.search.cohorts.cohort_pool import add_evidence

IMAGES = st.lists(
    st.tuples(st.floats(0.001, 0.999), st.floats(-8, 8), st.floats(1, 50)), min_size=1, max_size=40
)


@given(IMAGES)
def test_the_weighted_sum_stays(images: list[tuple[float, float, float]]) -> None:
    probabilities, evidence, weights = np.array(images).T
    added = add_evidence(probabilities, evidence, weights)
    assert ((added >= 0) & (added <= 1)).all()
    assert weights @ added == pytest.approx(weights @ probabilities, rel=1e-3, abs=1e-3)


@given(IMAGES)
def test_equal_evidence_changes_nothing(images: list[tuple[float, float, float]]) -> None:
    probabilities, _, weights = np.array(images).T
    np.testing.assert_array_equal(
        add_evidence(probabilities, np.full(len(images), 3.0), weights), probabilities
    )


def test_evidence_is_added_to_the_log_odds() -> None:
    added = add_evidence(np.array([0.2, 0.2, 0.5]), np.array([2.0, 0.0, 0.0]), np.ones(3))
    odds = np.log(added / (1 - added))
    assert odds[0] - odds[1] == pytest.approx(2)
    assert odds[2] - odds[1] == pytest.approx(np.log(4))


@pytest.mark.parametrize("probabilities", [[], [0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
def test_certain_and_no_probabilities(probabilities: list[float]) -> None:
    evidence = np.linspace(-1e6, 1e6, len(probabilities))
    added = add_evidence(np.array(probabilities), evidence, np.ones(len(probabilities)))
    assert added.shape == (len(probabilities),)
    assert np.isfinite(added).all()
