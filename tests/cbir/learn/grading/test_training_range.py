"""Images that are unlike the graded ones get no grade."""

import cv2
import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors
from typer.testing import CliRunner

from cbir import settings
from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.evaluation.significance import group_folds
from cbir.images import Image
from cbir.learn.grading import make_ranker
from cbir.learn.grading.graded_cases import read_graded_cases
from cbir.learn.grading.grader import Grader, fit_grader
from cbir.learn.grading.grader_evaluation import evaluate_grader
from cbir.learn.grading.grading_state import fit_training_range
from cbir.store import Collection
from service.app import create_app
from tests.cbir.learn.grading.cases import collection_of, drawn


def standardised(count=160):
    X, _, patients = drawn(count)
    return ((X - X.mean(0)) / X.std(0)).astype(np.float32), patients.astype(str)


def test_limit():
    values, patients = standardised()
    known = fit_training_range(values, patients)
    nearest = [
        NearestNeighbors(n_neighbors=1).fit(values[patients != patient]).kneighbors(value[None])[0].item()
        for value, patient in zip(values, patients, strict=True)
    ]
    assert known.limit == pytest.approx(np.quantile(nearest, 0.99), rel=1e-3)


def test_check():
    values, patients = standardised()
    known, everyone = fit_training_range(values, patients), np.ones(len(values), bool)
    known.check(values[0] + 0.01, everyone)
    with pytest.raises(InvalidInput, match="unlike the graded ones"):
        known.check(values[0] + 20, everyone)
    outlier = values.copy()
    outlier[0] += 20
    known = fit_training_range(outlier, patients)
    known.check(outlier[0], everyone)
    with pytest.raises(InvalidInput, match="no grade"):  # its own image does not vouch for it
        known.check(outlier[0], patients != patients[0])
    known.check(outlier[0], np.zeros(len(values), bool))


def test_too_few_to_know():
    values, patients = standardised(98)
    assert fit_training_range(values, patients) is None
    values, patients = standardised(120)
    assert fit_training_range(values, np.zeros(120, str)) is None


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A collection whose grader refuses unlike images."""
    folder = tmp_path_factory.mktemp("fitted") / "collection"
    with collection_of(folder, range(120)) as collection:
        fit_grader(collection, "grade", make_ranker("ranking-svm", kernel="auto"), smoothing="thresholds")
    return folder


def unlike():
    """A picture of stripes above and below."""
    pixels = np.zeros((32, 32), np.uint8)
    pixels[:, ::2] = 255
    pixels[:16] = 0
    return pixels


def test_a_grader_refuses_what_it_was_not_fitted_to(fitted):
    with Collection(fitted) as collection:
        grader = Grader(collection, "grade")
        like = np.kron(
            np.clip(np.random.default_rng(999).normal(110, 12, (4, 4)), 0, 255).astype(np.uint8),
            np.ones((8, 8), np.uint8),
        )
        assert abs(grader.by_image(Image(like)).grade - 1) <= 1
        with pytest.raises(InvalidInput, match="unlike the graded ones"):
            grader.by_image(Image(unlike()))


@pytest.mark.features
@pytest.mark.slow
def test_command_and_api_give_the_reason(fitted, tmp_path):
    path = tmp_path / "unlike.png"
    cv2.imwrite(str(path), unlike())
    refused = CliRunner().invoke(app, ["grade", "predict", str(path), "--collection", str(fitted)])
    assert "no grade: the image is unlike the graded ones" in str(refused.exception)
    client = create_app(fitted, settings.load()).test_client()
    answer = client.post("/v1/grade", data=path.read_bytes(), content_type="image/png")
    assert answer.status_code == 422
    assert str(refused.exception) == answer.json["detail"]


def test_a_collection_of_the_same_files_gives_the_same_figures(tmp_path):
    results = []
    for name, order in (("one", range(120)), ("other", reversed(range(120)))):
        with collection_of(tmp_path / name, order) as collection:
            cases = read_graded_cases(collection, "grade")
        splits = group_folds(cases.grades, cases.groups(), 3)
        method = evaluate_grader(
            "s-ndcg",
            cases.vectors.astype(float),
            cases.grades,
            splits,
            cases.groups(),
            smoothing="thresholds",
        )
        results.append((cases.image_ids, cases.groups().tolist(), method.overall))
    assert results[0] == results[1]
