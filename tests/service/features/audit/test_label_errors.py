"""Wrong labels, against a slow version with plain loops and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from cbir.errors import InvalidInput
from service.features.audit.audited_images import find_independent
from service.features.audit.label_errors import (
    UNKNOWN,
    choose_temperature,
    count_votes,
    deal_folds,
    find_label_errors,
    log_softmax,
    require_classes,
)


def clusters(classes: int, size: int, seed: int = 0, spread: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around a centre for each class, and the classes."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(classes, 16))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    label = np.repeat(np.arange(classes), size)
    points = centres[label] + spread * generator.normal(size=(len(label), 16))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32), label


def flip(label: np.ndarray, classes: int, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels of which `count` are wrong, and which."""
    generator = np.random.default_rng(seed)
    wrong = np.zeros(len(label), bool)
    wrong[generator.choice(len(label), count, replace=False)] = True
    noisy = np.where(wrong, (label + generator.integers(1, classes, len(label))) % classes, label)
    return noisy, wrong


@pytest.mark.parametrize(("size", "auroc"), [(40, 0.98), (10, 0.95)])
def test_flipped_labels_are_the_most_suspicious(size: int, auroc: float) -> None:
    units, label = clusters(6, size)
    noisy, wrong = flip(label, 6, 12 if size == 40 else 3)
    found = find_label_errors(units, np.arange(len(units)), noisy, list("abcdef"))
    assert roc_auc_score(wrong, found.suspicion) > auroc
    assert average_precision_score(wrong, found.suspicion) > 0.85
    assert np.mean(found.suggested[wrong] == label[wrong]) > 0.9
    shown = found.neighbours[wrong]
    assert all(
        noisy[row] == found.suggested[place]
        for place, rows in zip(np.flatnonzero(wrong), shown, strict=True)
        for row in rows
        if row >= 0
    )
    assert ((found.suspicion >= 0) & (found.suspicion <= 1)).all()


def test_votes_are_those_of_a_plain_loop() -> None:
    units, label = clusters(4, 20, spread=0.6)
    block = np.arange(80) // 2
    nearest = find_independent(units, block, 5)
    frequency = np.bincount(label) / 80
    votes = count_votes(nearest, np.arange(80), 5, label, frequency, 0.2)
    for row in range(80):
        others = sorted(
            (1 - float(units[row] @ units[other]), other) for other in range(80) if block[other] != block[row]
        )
        expected = frequency.copy()
        for distance, other in others[:5]:
            expected[label[other]] += np.exp(-distance / 0.2)
        np.testing.assert_allclose(votes[row], expected / expected.sum(), rtol=1e-3)


def test_images_of_a_patient_do_not_vouch_for_each_other() -> None:
    units, label = clusters(3, 30, spread=0.3)
    noisy, block = label.copy(), np.arange(90)
    noisy[:6], block[:6] = 1, 0  # six slices of one patient, all labelled wrongly alike
    units[:6] = units[0]
    judged = find_label_errors(units, block, noisy, list("abc"))
    assert (judged.suspicion[:6] > 0.9).all()
    assert not np.isin(judged.neighbours[:6], np.arange(6)).any()
    trusted = find_label_errors(units, np.arange(90), noisy, list("abc"))
    assert (trusted.suspicion[:6] < judged.suspicion[:6]).all()


def test_folds_keep_blocks_together_and_spread_classes() -> None:
    label = np.repeat([0, 1], 50)
    block = np.arange(100) // 2
    fold = deal_folds(label, block)
    assert (fold[::2] == fold[1::2]).all()
    assert np.bincount(fold[label == 0]).tolist() == [10] * 5


def test_the_temperature_of_overconfident_scores_is_above_one() -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(2000, 3))
    drawn = np.array([generator.choice(3, p=row) for row in np.exp(log_softmax(scores))])
    assert choose_temperature(scores, drawn) == pytest.approx(1.0, rel=0.3)
    assert choose_temperature(10 * scores, drawn) > 5


def test_classes_of_too_few_images_are_neither_judged_nor_suggested() -> None:
    units, label = clusters(3, 20)
    label[:2] = 3
    found = find_label_errors(units, np.arange(60), label, list("abcd"))
    assert found.rare.tolist() == [False, False, False, True]
    assert (found.suspicion[:2] == UNKNOWN).all()
    assert 3 not in found.suggested
    assert not np.isin(found.suspects(), [0, 1]).any()


def test_images_without_the_label_are_left_out() -> None:
    units, label = clusters(2, 20)
    label[5] = -1
    found = find_label_errors(units, np.arange(40), label, ["a", "b"])
    assert 5 not in found.rows
    assert len(found.suspicion) == 39


@pytest.mark.parametrize("label", [[0] * 10, [-1] * 10, list(range(10))])
def test_a_label_without_two_classes_is_refused_and_not_judged(label: list[int]) -> None:
    with pytest.raises(InvalidInput, match="label kind cannot be found: it needs two values or more"):
        require_classes(np.array(label), np.arange(10), "kind")
    found = find_label_errors(clusters(2, 5)[0], np.arange(10), np.array(label), list("abcdefghij"))
    assert (found.suspicion == 0.5).all()
    assert found.rare.all()
    assert len(found.suspicion) == len(found.neighbours) == sum(code >= 0 for code in label)
    assert not len(found.suspects())


def test_images_of_two_patients_are_too_few() -> None:
    label, patient = np.repeat([0, 1], 6), np.tile([0, 1], 6)
    with pytest.raises(InvalidInput, match="different patients"):
        require_classes(label, patient, "kind")
    require_classes(label, np.arange(12), "kind")


def test_equal_images_are_judged_without_error() -> None:
    units = np.tile(np.eye(1, 8, dtype=np.float32), (20, 1))
    found = find_label_errors(units, np.arange(20), np.repeat([0, 1], 10), ["a", "b"])
    assert np.isfinite(found.suspicion).all()
