"""The benchmark of strategies runs, and its significance is that of the same pairs."""

import csv
import json
import re
import sys

import cv2
import numpy as np
import pytest
from scipy.stats import binomtest

from cbir.learn.severity.severity_rankers import BayesianRanker, ValueRanker
from service.features.annotate.active.severity_grades import relative_accuracy
from tests.benches import loaded
from tests.service.features.annotate.active.drawn import draw


@pytest.fixture(scope="module")
def bench():
    return loaded("active")


@pytest.fixture(scope="module")
def tables():
    return loaded("active_tables")


def test_table_of_a_fold(bench, tmp_path, monkeypatch, capsys):
    pictures, grades = draw(60)
    with (tmp_path / "manifest.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "grade", "patient", "source"])
        for number, (picture, grade) in enumerate(zip(pictures, grades, strict=True)):
            cv2.imwrite(str(tmp_path / f"{number}.png"), picture)
            writer.writerow([f"{number}.png", f"{grade:g}", f"P{number // 2}", "drawn"])
    options = [
        "--data",
        tmp_path,
        "--out",
        tmp_path / "out",
        "--folds",
        1,
        "--rounds",
        1,
        "--epochs",
        1,
        "--steps",
        0,
        "--threads",
        1,
    ]
    options += [
        "--calibrate",
        "--side",
        32,
        "--backbone",
        "toprank",
        "--methods",
        "variance",
        "baseline",
        "all data",
        "conventional",
    ]
    monkeypatch.setattr(sys, "argv", ["active.py", "table", *map(str, options)])
    bench.main()
    said = capsys.readouterr().out
    assert said.count("\nall data ") == 8  # accuracy, grades four times, by round twice, what was asked about
    assert said.count("\nconventional ") == 2  # rounded grades, in one table and by fold
    kept = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    methods = ("variance", "baseline", "all-data", "conventional")
    assert set(kept) == {f"0-{method}-calibrated" for method in methods}
    assert kept["0-conventional-calibrated"]["rounds"][-1]["seconds"] == 20 * 48
    del kept["0-conventional-calibrated"]
    shares = {name: row["rounds"][-1]["labelling"] for name, row in kept.items()}
    (by_fold,) = re.findall(r"rounded, by fold: precision/recall/F1\n.*\n.*\nall data +(.*)", said)
    values = kept["0-all-data-calibrated"]["rounds"][-1]["classified"]
    assert by_fold == "/".join(f"{values[name]:.3f}" for name in ("precision", "recall", "f1"))
    assert shares["0-all-data-calibrated"] == 1
    assert shares["0-variance-calibrated"] == pytest.approx(shares["0-baseline-calibrated"], abs=0.05)
    bench.main()  # what was learnt is not learnt again
    assert capsys.readouterr().out == said


def test_the_better_of_two_is_found(tables):
    grades = np.repeat([0.0, 1, 2, 3, 4], 40)
    random = np.random.default_rng(0)

    def row(noise):
        return [{"grades": grades, "scores": random.normal(grades, noise)}]

    found = {"variance": row(0.1), "random": row(3.0), "baseline": row(0.1)}
    p = tables.significance(found, near=False)
    assert p["random"] < 1e-4
    assert p["baseline"] > 0.5


def test_drawn_pairs_expect_the_accuracy(tables):
    random = np.random.default_rng(0)
    grades = np.repeat([0.0, 1, 2, 3], [2000, 400, 300, 60])
    scores = random.normal(grades, 1.2)
    expected = relative_accuracy(scores, grades)
    for near, name in ((False, "overall"), (True, "neighbouring")):
        pairs = tables.drawn_pairs(grades, random, near)
        assert (grades[pairs[:, 0]] > grades[pairs[:, 1]]).all()
        assert tables.right(scores, pairs).mean() == pytest.approx(expected[name], abs=0.04)
        if near:
            assert (grades[pairs[:, 0]] - grades[pairs[:, 1]] == 1).all()


def test_drawn_pairs_of_one_grade_are_none(tables):
    assert tables.drawn_pairs(np.ones(9), np.random.default_rng(0)).shape == (0, 2)


def test_mcnemar_is_the_binomial_test_of_what_only_one_got_right(tables):
    ours = np.array([True] * 30 + [False] * 10 + [True] * 20)
    other = np.array([False] * 30 + [True] * 10 + [True] * 20)
    assert tables.mcnemar_holm(ours, {"other": other})["other"] == pytest.approx(binomtest(10, 40).pvalue)


def test_holm_multiplies_the_smallest_by_their_number(tables):
    random = np.random.default_rng(1)
    ours = random.random(400) < 0.8
    others = {name: random.random(400) < share for name, share in (("a", 0.6), ("b", 0.7), ("c", 0.79))}
    alone = {name: tables.mcnemar_holm(ours, {name: other})[name] for name, other in others.items()}
    found = tables.mcnemar_holm(ours, others)
    order = sorted(alone, key=alone.__getitem__)
    reached = 0.0
    for rank, name in enumerate(order):
        reached = max(reached, min(1.0, (3 - rank) * alone[name]))
        assert found[name] == pytest.approx(reached)


def test_mcnemar_without_differences(tables):
    ours = np.ones(5, bool)
    assert tables.mcnemar_holm(ours, {"same": ours}) == {"same": 1.0}
    assert tables.mcnemar_holm(ours, {}) == {}


@pytest.mark.parametrize("kind", ["values", "pictures"])
def test_a_conventional_classifier_learns(kind):
    pictures, grades = draw(150, levels=3)
    values = (grades[:, None] + np.random.default_rng(0).normal(size=(150, 12)) / 2).astype(np.float32)
    if kind == "values":
        images, ranker = values, ValueRanker(directions=8, hidden=8, steps=100)
    else:
        images, ranker = pictures, BayesianRanker("toprank", 32, epochs=12, steps=0)
    predicted, expected = loaded("active_tables").classify(ranker, images[:110], grades[:110], images[110:])
    assert set(predicted) <= {0.0, 1.0, 2.0}
    assert (predicted == grades[110:]).mean() > 0.7
    assert np.corrcoef(expected, grades[110:])[0, 1] > 0.8
