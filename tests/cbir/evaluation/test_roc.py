"""Pos@Top, ROC and AUC."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from cbir.errors import InvalidInput
from cbir.evaluation.rank_metrics import auc, pos_at_top, roc

SCORES = [0.9, 0.8, 0.8, 0.7, 0.7, 0.1]
POSITIVE = [1, 1, 0, 0, 1, 0]


@st.composite
def scored(draw):
    """Scores with ties among them, and positives and negatives."""
    positive = [*draw(st.lists(st.booleans(), min_size=0, max_size=40)), True, False]
    few = st.sampled_from([-1e4, -1.0, 0.0, 0.5, 1.0, 1e4])
    one = st.one_of(few, st.floats(-1e6, 1e6, width=32))
    scores = draw(st.lists(one, min_size=len(positive), max_size=len(positive)))
    return np.array(scores), np.array(positive)


def slow_pos_at_top(scores, positive):
    """Equation 3 as it stands."""
    positives = [s for s, p in zip(scores, positive, strict=True) if p]
    negatives = [s for s, p in zip(scores, positive, strict=True) if not p]
    return sum(s > max(negatives) for s in positives) / len(positives)


def test_by_hand():
    assert pos_at_top(SCORES, POSITIVE) == pytest.approx(1 / 3)  # the tie at 0.8 does not count
    assert auc(SCORES, POSITIVE) == pytest.approx((3 + 2.5 + 1.5) / 9)
    curve = roc(SCORES, POSITIVE)
    assert curve.thresholds.tolist() == [np.inf, 0.9, 0.8, 0.7, 0.1]
    assert curve.true_positives == pytest.approx([0, 1 / 3, 2 / 3, 1, 1])
    assert curve.false_positives == pytest.approx([0, 0, 1 / 3, 2 / 3, 1])


@given(scored())
def test_against_the_plain_formula_and_sklearn(case):
    scores, positive = case
    assert pos_at_top(scores, positive) == pytest.approx(slow_pos_at_top(scores, positive))
    assert auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))
    curve = roc(scores, positive)
    false_positives, true_positives, thresholds = roc_curve(positive, scores, drop_intermediate=False)
    assert curve.false_positives == pytest.approx(false_positives)
    assert curve.true_positives == pytest.approx(true_positives)
    assert curve.thresholds == pytest.approx(thresholds)


@given(scored())
def test_the_vertical_part_is_pos_at_top(case):
    scores, positive = case
    curve = roc(scores, positive)
    assert curve.vertical == pytest.approx(pos_at_top(scores, positive))
    assert curve.at(0.0) == pytest.approx(curve.vertical)
    assert curve.at(1.0) == pytest.approx(1.0)
    x, y = curve.corners()
    assert len(x) <= len(curve.thresholds)
    assert np.trapezoid(y, x) == pytest.approx(auc(scores, positive))
    area = np.trapezoid(curve.true_positives, curve.false_positives)
    assert auc(scores, positive) == pytest.approx(area)


@given(scored())
def test_only_the_order_counts(case):
    scores, positive = case
    ranks = np.searchsorted(np.unique(scores), scores)
    assert pos_at_top(ranks, positive) == pos_at_top(scores, positive)
    assert auc(ranks, positive) == pytest.approx(auc(scores, positive))


def test_a_line_between_two_points():
    curve = roc([3.0, 2.0, 2.0, 1.0], [1, 1, 0, 0])
    assert curve.at([0.0, 0.25, 0.5, 0.75]) == pytest.approx([0.5, 0.75, 1.0, 1.0])


def test_all_alike():
    assert pos_at_top([2.0] * 5, [1, 0, 0, 1, 0]) == 0.0
    assert auc([2.0] * 5, [1, 0, 0, 1, 0]) == 0.5


def test_perfect_and_upside_down():
    assert pos_at_top([np.inf, 1, 0, -np.inf], [1, 1, 0, 0]) == auc([4, 3, 2, 1], [1, 1, 0, 0]) == 1.0
    assert pos_at_top([1, 2, 3, 4], [1, 1, 0, 0]) == auc([1, 2, 3, 4], [1, 1, 0, 0]) == 0.0


@pytest.mark.parametrize(
    ("scores", "positive", "said"),
    [
        ([], [], "at least one positive"),
        ([1.0], [True], "at least one positive"),
        ([1.0, 2.0], [0, 0], "at least one positive"),
        ([1.0, np.nan], [0, 1], "1 of 2 scores are NaN"),
        ([1.0], [0, 1], "each image needs one score"),
        ([[1.0, 2.0]], [[0, 1]], "each image needs one score"),
        (["a", "b"], [0, 1], "scores are real numbers"),
        ([1j, 2.0], [0, 1], "scores are real numbers"),
        ([1.0, 2.0, 3.0], [0, 1, 2], "there are other marks"),
        ([1.0, 2.0], [0, np.nan], "there are other marks"),
        ([1.0, 2.0], [-1, 1], "there are other marks"),
    ],
)
def test_what_cannot_be_measured(scores, positive, said):
    for measure in (pos_at_top, auc, roc):
        with pytest.raises(InvalidInput, match=said):
            measure(scores, positive)
