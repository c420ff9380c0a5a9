"""Rounds with answers from known grades, and what is left of them to look at."""

import json

import numpy as np
import pytest

from cbir.errors import InvalidInput
from cbir.learn.severity.judged_pairs import SeverityEstimate
from cbir.learn.severity.severity_rankers import BayesianRanker, ValueRanker
from service.features.annotate.active import simulation_report
from service.features.annotate.active.pair_selection import first_pairs
from service.features.annotate.active.severity_grades import compare_grades, fit_grade_thresholds
from service.features.annotate.active.simulation import (
    SimulationPlan,
    _round,
    answers,
    load_graded_images,
    simulate,
)
from tests.service.features.annotate.active.drawn import SIDE, collection_of, draw

PICTURES, GRADES = draw(100)
TRAIN, TEST = np.arange(70), np.arange(70, 100)


def make(_):
    return BayesianRanker("toprank", SIDE, passes=4, epochs=10, steps=0)


@pytest.fixture(scope="module")
def found():
    return simulate(
        PICTURES, GRADES, TRAIN, TEST, SimulationPlan(rounds=2, start=0.4, step=0.2, calibrate=True), make
    )


def test_rounds_grow_by_their_step(found):
    assert [one.number for one in found.rounds] == [0, 1, 2]
    assert [one.pairs for one in found.rounds] == [28, 42, 56]
    assert [one.labelling for one in found.rounds] == pytest.approx([0.4, 0.6, 0.8])
    assert [one.images for one in found.rounds] == sorted(one.images for one in found.rounds)
    last = found.rounds[-1]
    assert last.seconds == 56 + 20 * last.images
    assert set(last.proportions) == {"0", "1", "2", "3"}
    assert sum(last.proportions.values()) == pytest.approx(1)
    assert len(last.scores) == 30
    assert len(last.variance) == 70


def test_pairs_never_repeat_and_answers_are_right(found):
    assert len({tuple(sorted(pair)) for pair in found.pairs.tolist()}) == len(found.pairs) == 56
    np.testing.assert_array_equal(
        found.labels, answers(GRADES[TRAIN], found.pairs, 0, np.random.default_rng(0))
    )


def test_it_learns(found):
    told = found.as_dict()
    assert list(told) == ["overall", "neighbouring", "rounds"]
    assert told["overall"] == told["rounds"][-1]["overall"] > 0.8
    assert json.loads(json.dumps(told)) == told


def test_grades_by_thresholds_are_measured_beside_rounded_ones(found):
    last = found.rounds[-1]
    assert last.classified.keys() == last.classified_by_thresholds.keys()
    assert last.classified_by_thresholds["accuracy"] > 0.6
    assert found.as_dict()["rounds"][-1]["classified_by_thresholds"] == last.classified_by_thresholds


def test_thresholds_know_the_grades_of_images_in_pairs_only():
    plan = SimulationPlan(rounds=0, start=0.15, calibrate=True)
    found = simulate(PICTURES, GRADES, TRAIN, TEST, plan, make)
    compared, end = np.unique(found.pairs), found.rounds[0]
    severity = found.ranker.severity(PICTURES[TRAIN]).mean
    thresholds = fit_grade_thresholds(severity[compared], GRADES[TRAIN][compared])
    assert end.classified_by_thresholds == compare_grades(thresholds(end.scores), GRADES[TEST])
    of_all = fit_grade_thresholds(severity, GRADES[TRAIN])
    assert end.classified_by_thresholds != compare_grades(of_all(end.scores), GRADES[TEST])


def test_scores_are_rounded_to_the_grades_of_training_images():
    """A grade that no test image has can be given wrongly, as in the confusion of a reader."""
    train_grades, test_grades = np.array([0.0, 1, 2, 3]), np.array([0.0, 1, 3, 3])
    estimate = SeverityEstimate(
        np.arange(4, dtype=np.float32), np.ones(4, np.float32), np.zeros((4, 1), np.float32)
    )
    scores = np.array([0.1, 0.9, 2.1, 3.4], np.float32)
    made = _round(0, np.array([[0, 1], [2, 3]]), train_grades, estimate, scores, test_grades, train_grades)
    assert made.classified["accuracy"] == 3 / 4


def test_the_same_plan_asks_the_same():
    plan = SimulationPlan("balanced", rounds=1, start=0.3, step=0.2, error_rate=0.3, seed=5)
    one, other = (
        simulate(
            PICTURES,
            GRADES,
            TRAIN,
            TEST,
            plan,
            lambda _: BayesianRanker("toprank", SIDE, passes=3, epochs=1, steps=0),
        )
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.pairs, other.pairs)
    np.testing.assert_array_equal(one.labels, other.labels)
    assert one.as_dict() == other.as_dict()


def test_another_seed_asks_other_pairs():
    values = PICTURES.reshape(len(PICTURES), -1)[:, ::50].astype(np.float32)
    small = ValueRanker(directions=4, hidden=4, passes=2, epochs=1, steps=0)
    one, other = (
        simulate(values, GRADES, TRAIN, TEST, SimulationPlan(rounds=0, seed=seed), lambda _: small).pairs
        for seed in (1, 2)
    )
    assert len(one) == len(other)
    assert not np.array_equal(one, other)


def test_it_begins_with_the_pairs_it_is_given():
    begin = first_pairs(70, 0.2, None, np.random.default_rng(9))
    shown = []
    found = simulate(PICTURES, GRADES, TRAIN, TEST, SimulationPlan(rounds=0), make, begin,
                     lambda done, total: shown.append((done, total)))  # fmt: skip
    np.testing.assert_array_equal(found.pairs, begin)
    assert shown == [(1, 1)]
    assert found.rounds[0].classified is found.rounds[0].classified_by_thresholds is None
    assert found.rounds[0].seconds == 14


def test_answers_follow_the_grades():
    grades = np.array([0.0, 1.0, 1.0, 2.5])
    pairs = np.array([[0, 1], [1, 0], [1, 2], [3, 1]])
    np.testing.assert_array_equal(answers(grades, pairs, 0, np.random.default_rng(0)), [0, 1, 0.5, 1])


def test_errors_come_at_their_rate_and_are_either_wrong_answer():
    grades = np.array([0.0, 1.0])
    pairs = np.tile([[1, 0]], (4000, 1))
    said = answers(grades, pairs, 0.3, np.random.default_rng(0))
    assert (said != 1).mean() == pytest.approx(0.3, abs=0.03)
    assert (said == 0).mean() == pytest.approx(0.15, abs=0.03)
    assert (answers(grades, pairs, 1.0, np.random.default_rng(0)) != 1).all()


def test_all_images_of_a_patient_are_on_one_side(tmp_path):
    with collection_of(tmp_path, PICTURES[:30], GRADES[:30]) as collection:
        images = load_graded_images(collection, "grade", make(0), held_out=1 / 3)
    np.testing.assert_array_equal(images.grades, GRADES[:30])
    assert sorted([*images.train, *images.test]) == list(range(30))
    assert not set(images.train // 3) & set(images.test // 3)


def test_images_to_test_on_are_not_learnt_from():
    with pytest.raises(InvalidInput, match="overlap"):
        simulate(PICTURES, GRADES, TRAIN, np.arange(69, 100), SimulationPlan(), make)


@pytest.mark.parametrize(
    "options", [{"strategy": "best"}, {"rounds": -1}, {"start": 0}, {"step": 1.5}, {"error_rate": 2}]
)
def test_plans_out_of_range_are_refused(options):
    with pytest.raises(InvalidInput):
        SimulationPlan(**options)


def test_report_shows_figures_and_numbers(found, tmp_path):
    simulation_report.write_simulation_report({"variance": found, "<b>": found}, tmp_path / "report")
    html = (tmp_path / "report" / "report.html").read_text()
    said = json.loads((tmp_path / "report" / "report.json").read_text())
    assert html.count("<svg") == 2 + 2 * 5
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert said["variance"]["overall"] == found.as_dict()["overall"]


def test_report_of_one_round_and_one_grade(tmp_path):
    alike = np.where(np.arange(100) < 70, GRADES, 1.0)
    one = simulate(PICTURES, alike, TRAIN, TEST, SimulationPlan(rounds=0), make)
    simulation_report.write_simulation_report({"variance": one}, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["variance"]["overall"] is None


def test_answers_are_as_often_wrong_in_later_rounds():
    plan = SimulationPlan("random", rounds=1, start=0.2, step=0.2, error_rate=1.0)
    wrong = simulate(
        PICTURES,
        GRADES,
        TRAIN,
        TEST,
        plan,
        lambda number: BayesianRanker("toprank", SIDE, passes=2, epochs=1, steps=0),
    )
    right = answers(GRADES[TRAIN], wrong.pairs, 0, np.random.default_rng(0))
    assert wrong.rounds[0].pairs < len(right)
    assert (wrong.labels != right).all()
