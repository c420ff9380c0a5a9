"""Retrieval quality of groups."""

import numpy as np
import pytest

from service.features.audit.audited_images import IndependentNeighbours
from service.features.audit.label_values import (
    age_bands,
    compare_groups,
    correct_holm,
    precision_of,
)
from service.features.audit.messages import GroupFinding


def test_precision_is_the_share_of_labelled_answers_with_the_label() -> None:
    rows = np.array([[1, 2, 3], [0, -1, -1], [0, 1, 3], [2, 1, 0]])
    nearest = IndependentNeighbours(rows, np.zeros(rows.shape, np.float32))
    precision = precision_of(nearest, np.array([0, 0, 1, -1]))
    np.testing.assert_allclose(precision, [0.5, 1.0, 0.0, np.nan])


def test_a_group_is_compared_within_labels() -> None:
    generator = np.random.default_rng(0)
    label = np.repeat([0, 1], 300)
    group = (generator.random(600) < np.where(label == 0, 0.8, 0.2)).astype(
        np.int64
    )  # mostly of the hard label
    precision = np.where(label == 0, 0.5, 0.9) + 0.05 * generator.normal(size=600)
    alike = compare_groups("sex", ["F", "M"], group, precision, label, np.arange(600))
    assert all(abs(each.difference) < 0.02 and each.low < 0 < each.high for each in alike)
    worse = compare_groups("sex", ["F", "M"], group, precision - 0.1 * group, label, np.arange(600))
    (male,) = [each for each in correct_holm(worse) if each.value == "M"]
    assert male.worse
    assert male.low < -0.1 < male.high


def test_groups_of_few_patients_are_left_out() -> None:
    group = np.array([0] * 50 + [1] * 50)
    block = np.array([0] * 50 + list(range(1, 51)))
    assert compare_groups("scanner", ["a", "b"], group, np.ones(100), np.zeros(100, np.int64), block) == []


def test_holm() -> None:
    same = {
        "images": 1,
        "patients": 1,
        "precision": 1.0,
        "difference": 0.0,
        "low": 0.0,
        "high": 0.0,
        "worse": False,
    }
    groups = [GroupFinding(key="k", value="v", p=p, **same) for p in (0.01, 0.04, 0.03)]
    assert [each.p for each in correct_holm(groups)] == pytest.approx([0.03, 0.06, 0.06])


def test_age_bands() -> None:
    assert age_bands(["047Y", "47", "0", " 80y", "18M", "", "old", "2000"]) == [
        "40-59",
        "40-59",
        "0-19",
        "80-99",
        "",
        "",
        "",
        "",
    ]
