"""Tables by fold and the figure of rankings, as `bench/grading.py` makes them."""

import cv2
import numpy as np
import pytest

from cbir.evaluation.significance import group_folds
from cbir.learn.grading.grader_evaluation import evaluate_grader
from tests.benches import loaded


@pytest.fixture(scope="module")
def cases():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    return X, np.clip(np.rint(2 + X[:, 0] + 0.5 * random.normal(size=60)), 0, 4), np.arange(60)


def test_rows_are_the_lists_of_each_fold(cases):
    X, y, patients = cases
    tables, splits = loaded("grading_tables"), group_folds(y, patients, 3)
    schemes = {"linear": ("ranking-svm", {}), "boosted": ("rankboost", {})}
    evaluations = tables.evaluate_schemes(schemes, X, y, splits, patients, 5)
    assert [method.name for method in evaluations] == ["linear", "boosted"]
    lines = list(tables.fold_table(evaluations, splits, 5))
    assert lines[0].split("|")[1:] == [" lists of 5: fold ", " linear ", " boosted ", ""]
    for fold, line in enumerate(lines[2:5]):
        cells = [cell.strip(" *") for cell in line.split("|")[1:-1]]
        assert cells[0] == str(fold + 1)
        for method, cell in zip(evaluations, cells[1:], strict=True):
            values = method.lists[4 * fold : 4 * fold + 4]  # 20 images in lists of 5
            assert cell == f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"
            assert values.mean() == pytest.approx(method.folds[fold]["ndcg"])
    means = [method.folds[0]["ndcg"] for method in evaluations]
    best = lines[2].split("|")[2 + int(np.argmax(means))].strip()
    assert best.startswith("**")
    assert best.endswith("**")


def test_list_size_reaches_the_ranker(cases):
    X, y, patients = cases
    tables, splits = loaded("grading_tables"), group_folds(y, patients, 3)
    (method,) = tables.evaluate_schemes({"boosted": ("rankboost", {})}, X, y, splits, patients, 5)
    same = evaluate_grader("rankboost", X, y, splits, patients, 5, options={"list_size": 5})
    assert method.lists.tolist() == same.lists.tolist()
    assert method.lists.tolist() != evaluate_grader("rankboost", X, y, splits, patients, 5).lists.tolist()


def test_every_pair_and_what_differs(cases):
    X, y, patients = cases
    X = np.c_[X, np.random.default_rng(1).normal(size=60)]
    tables, splits = loaded("grading_tables"), group_folds(y, patients, 3)
    schemes = {name: (name, {}) for name in ("ranking-svm", "rankboost", "regression")}
    lines = list(tables.tukey_table(tables.evaluate_schemes(schemes, X, y, splits, patients, 5), 5))
    assert [line.split("|")[1:3] for line in lines[3:]] == [
        [" ranking-svm ", " rankboost "],
        [" ranking-svm ", " regression "],
        [" rankboost ", " regression "],
    ]
    rows = list(tables.significant_differences(X, y, patients, 3, schemes))
    assert [row.split("|")[1] for row in rows] == [" 20 ", " 50 ", " 100 "]


def test_errors_of_an_order():
    figure = loaded("grading_tables")
    grades = np.array([1.0, 4.0, 2.0, 2.0])
    assert not figure.ranking_errors(np.array([1, 3, 2, 0]), grades).any()
    assert figure.ranking_errors(np.array([3, 1, 2, 0]), grades).tolist() == [True, True, False, False]


def test_the_figure_marks_errors(tmp_path):
    figure = loaded("grading_tables")
    pictures = [np.full((40, 60, 3), 50 * number, np.uint8) for number in range(4)]
    grades = np.array([1.0, 2.0, 3.0, 4.0])
    orders = {"right": np.array([3, 2, 1, 0]), "wrong": np.array([0, 2, 1, 3])}
    figure.draw_rankings(pictures, grades, orders, tmp_path / "figure.png")
    drawn = cv2.imread(str(tmp_path / "figure.png")).astype(int)
    red = (np.abs(drawn - [43, 57, 192]).max(axis=2) < 40).sum(axis=1)
    assert red[: len(red) // 2].sum() == 0
    assert red[len(red) // 2 :].sum() > 100
