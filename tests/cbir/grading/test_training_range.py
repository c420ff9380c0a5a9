"""Images that are unlike the graded ones get no grade."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from cbir.descriptors import get as descriptor
from cbir.errors import InvalidInput
from cbir.grading import make_ranker
from cbir.grading.graded_cases import read_graded_cases
from cbir.grading.grader import Grader, fit_grader
from cbir.grading.grader_evaluation import evaluate_grader
from cbir.grading.training_range import fit_training_range
from cbir.images import Image
from cbir.models.linear.grouped_folds import group_folds
from cbir.store import Collection
from cbir.store import profile as profiles
from cbir.store.records import add_labels, describe_record
from tests.cbir.grading.cases import drawn


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


def collection_of(folder, order):
    """A collection of 120 pictures with grades, in this order."""
    made = Collection.create(folder, profiles.get("color_layout"))
    entries = []
    for number in order:
        random = np.random.default_rng(number)
        grade = number % 3
        pixels = np.clip(random.normal(60 + 50 * grade, 12, (32, 32)), 0, 255).astype(np.uint8)
        pixels = np.kron(pixels[::8, ::8], np.ones((8, 8), np.uint8))
        image = Image(pixels)
        record = describe_record(image, source=f"{number}.png", source_stamp="1", secret=made.secret)
        labels = {"grade": str(grade), "patient": f"Doe^{number // 2}"}
        entries.append((add_labels(record, labels, made.secret), descriptor("color_layout")(image)))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    return made


@pytest.mark.slow
def test_a_grader_refuses_what_it_was_not_fitted_to(tmp_path):
    with collection_of(tmp_path / "collection", range(120)) as collection:
        fit_grader(collection, "grade", make_ranker("ranking-svm", kernel="auto"), smoothing="thresholds")
        grader = Grader(collection, "grade")
        like = np.kron(
            np.clip(np.random.default_rng(999).normal(110, 12, (4, 4)), 0, 255).astype(np.uint8),
            np.ones((8, 8), np.uint8),
        )
        assert abs(grader.by_image(Image(like)).grade - 1) <= 1
        unlike = np.zeros((32, 32), np.uint8)
        unlike[:, ::2] = 255
        unlike[:16] = 0
        with pytest.raises(InvalidInput, match="unlike the graded ones"):
            grader.by_image(Image(unlike))


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
