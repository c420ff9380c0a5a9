"""The grid search for C and gamma."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from cbir.errors import InvalidInput
from cbir.evaluation.metrics.average_precision import average_precision
from cbir.evaluation.tune import tune_svm
from cbir.store import Collection
from cbir.store import profile as profiles
from tests.cbir.store.conftest import entry


@given(st.lists(st.booleans(), min_size=1).filter(any))
def test_average_precision_is_what_others_compute(relevant):
    expected = average_precision_score(relevant, -np.arange(len(relevant)))
    assert average_precision(np.array([relevant]))[0] == pytest.approx(expected)


@pytest.fixture
def two_classes(tmp_path):
    made = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    entries = []
    for number in range(120):
        record, vector = entry(number, labels={"label": "ab"[number % 2]})
        vector[:3] += 8 * (number % 2)
        entries.append((record, vector))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    return made


def test_trials_are_ordered_and_repeatable(two_classes):
    first = tune_svm(two_classes, "label", queries=20, penalties=(1.0,), widths=(0.01, 1.0, 50.0))
    assert len(first) == 3
    reached = [trial.mean_average_precision for trial in first]
    assert reached == sorted(reached, reverse=True)
    assert reached[0] > 0.9
    assert reached[0] > reached[-1]
    assert tune_svm(two_classes, "label", queries=20, penalties=(1.0,), widths=(0.01, 1.0, 50.0)) == first


def test_images_of_the_querys_patient_do_not_count(tmp_path):
    made = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    with made.writer() as writer:
        writer.add([entry(n, patient="one", labels={"label": "a"}) for n in range(10)])
        writer.add([entry(n, labels={"label": str(n)}) for n in range(10, 40)])
        writer.finish()
    with pytest.raises(InvalidInput, match="other patient"):
        tune_svm(made, "label", penalties=(1.0,), widths=(1.0,))


def test_equal_images_leave_the_width_in_its_bounds(tmp_path):
    made = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    entries = []
    for number in range(20):
        record, vector = entry(number, labels={"label": "ab"[number % 2]})
        vector[:] = 1e-6 * (number == 0)
        entries.append((record, vector))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    trials = tune_svm(made, "label", queries=4, penalties=(1.0,))
    assert all(1e-6 <= trial.gamma <= 1e6 for trial in trials)


def test_without_labels_there_is_nothing_to_tune_by(two_classes):
    with pytest.raises(InvalidInput, match="no two images"):
        tune_svm(two_classes, "grade")
