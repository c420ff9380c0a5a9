"""The grid search for C and gamma."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from cbir.errors import InvalidInput
from cbir.evaluation.rank_metrics import average_precision
from cbir.evaluation.tune import METHODS, setting_advice, tune_profile, tune_svm
from cbir.rerank import default_choice, get_tuned, reranker_class
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.profile import PROJECTED_EPRF
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


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_tuned_for_itself(two_classes, method):
    profile, trials = tune_profile(two_classes, "label", method, 4, lambda done, total: None)
    kind = reranker_class(method)
    assert len(trials) == len(kind.svm_grid["C"]) * len(kind.svm_grid["gamma"])
    best = {"C": trials[0].C, "gamma": trials[0].gamma}
    for other in METHODS:
        parameters = get_tuned(other, profile.rerank, {}).parameters
        if other == method:
            assert {name: parameters[name] for name in best} == best
        else:
            assert parameters == reranker_class(other)().parameters
    assert get_tuned(method, profile.rerank, {"C": 2.0}).parameters["C"] == 2.0


def test_gamma_follows_the_sharpness_of_the_method(two_classes):
    """The automatic width of fuzzy-eprf is wider: its grid lies around it."""
    trials = {
        method: tune_svm(two_classes, "label", method=method, queries=4, penalties=(1.0,))
        for method in ("eprf", "fuzzy-eprf")
    }
    largest = {method: max(trial.gamma for trial in tried) for method, tried in trials.items()}
    assert largest["fuzzy-eprf"] / largest["eprf"] == pytest.approx(3 / 15, rel=0.01)


def test_methods_without_svms_are_refused(two_classes):
    with pytest.raises(InvalidInput, match="pearson has no SVMs to tune; these have: eprf"):
        tune_svm(two_classes, "label", method="pearson")


def test_settings_of_an_earlier_version_are_named_and_replaced_by_tuning(tmp_path):
    old = profiles.get("lite0").model_copy(update={"rerank": {"N": 300}})
    made = Collection.create(tmp_path / "collection", old)
    entries = []
    for number in range(40):
        record, _ = entry(number, labels={"label": "ab"[number % 2]})
        entries.append((record, np.random.default_rng(number).random(1008, np.float32)))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
        listed = " ".join(f"{name}={value:g}" for name, value in PROJECTED_EPRF["eprf"].items())
        assert f"new collections have {listed}: `cbir collection tune`" in setting_advice(made)[0]
        profile, trials = tune_profile(made, "label", "eprf", 2, lambda done, total: None)
        assert profile.rerank.keys() == {*PROJECTED_EPRF, "C", "gamma"}
        assert profile.rerank["N"] == 300
        best = {"C": trials[0].C, "gamma": trials[0].gamma}
        assert get_tuned("svm-eprf", profile.rerank, {}).parameters == (
            get_tuned("svm-eprf", PROJECTED_EPRF, best).parameters
        )
        writer.set_profile(profile)
        made.view()
        assert setting_advice(made) == []
        fuzzy, _ = tune_profile(made, "label", "fuzzy-eprf", 2, lambda done, total: None)
        assert fuzzy.rerank["fuzzy-eprf"].keys() == {*PROJECTED_EPRF["fuzzy-eprf"], "C", "gamma"}
        writer.set_auto(default_choice("lite0").to_json())
    assert "auto was chosen by an earlier version" in setting_advice(made)[0]
