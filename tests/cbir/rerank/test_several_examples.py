"""EPRF and NPRF from several examples and judgements, against one LIBSVM model at a time."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery, RankingList, merge_nearest, rank, top_k
from cbir.rerank import query_list
from cbir.rerank.diffusion import RelevanceFeedback
from cbir.rerank.eprf import SHARPNESS
from cbir.rerank.feedback import Feedback
from cbir.rerank.several_examples import get_learner, learn, learner_names

EPRF = {
    "eprf": (True, True),
    "nsu-eprf": (False, True),
    "svm-eprf": (True, False),
    "fuzzy-eprf": (True, True),
}
METHODS = [*EPRF, "nprf"]


def clusters(n: int, d: int = 8, kinds: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    kind = random.integers(0, kinds, n)
    centres = random.standard_normal((kinds, d)) * 1.2
    return (centres[kind] + random.standard_normal((n, d))).astype(np.float32), kind


def plain(vectors: np.ndarray) -> Gallery:
    return Gallery((np.ascontiguousarray(vectors, np.float32),), np.arange(len(vectors)))


def judged(relevance: dict[int, float]) -> RelevanceFeedback:
    return RelevanceFeedback(
        np.array(list(relevance), np.int64), np.array(list(relevance.values()), np.float64)
    )


def nearest_list(examples: np.ndarray, gallery: Gallery, rows: np.ndarray | None = None) -> RankingList:
    return merge_nearest([rank(example, gallery, rows) for example in examples])


def scores_of(
    method: str, examples: np.ndarray, relevance: dict[int, float], gallery: Gallery, **parameters: Any
) -> np.ndarray:
    learner = get_learner(method, {}, parameters)
    return learn(learner, examples, judged(relevance), nearest_list(examples, gallery), gallery).scores


def order(scores: list[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))


def correlation(one: list[float], other: list[float]) -> float:
    """Equation 2."""
    return float(np.corrcoef(one, other)[0, 1])


def reference(
    method: str, examples: np.ndarray, relevance: dict[int, float], vectors: np.ndarray, p: dict[str, Any],
    sample: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """The sum of decision values of every image; the draw of negatives is shared with the fast form.

    `sample`: rows that are as the whole list is; all by default.
    """
    evenly = np.arange(len(vectors)) if sample is None else sample
    update, fuzzy = EPRF.get(method, (False, False))
    distinct = np.unique(examples, axis=0)
    similarity = [float(s) for s in nearest_list(examples, plain(vectors)).similarities]
    N = p.get("N", 0)
    near = order(similarity)[:N]

    def distances(x: np.ndarray) -> list[float]:
        return [math.dist(x, vectors[j]) for j in near]

    def rho(i: int) -> float:
        return max(correlation(distances(example), distances(vectors[i])) for example in distinct)

    updated = list(similarity)
    if update:
        for i in order(similarity)[: p["K"]]:
            updated[i] += p["lam"] * rho(i)  # equation 3
    relevant = [i for i, r in relevance.items() if r > 0]
    irrelevant = [i for i, r in relevance.items() if r < 0]
    pseudo = [i for i in order(updated) if i not in relevance][: p["P"]]
    others = np.array([i for i in evenly if i not in relevance])
    sure = np.vstack([distinct, vectors[relevant]]).astype(float)
    sure_weights = [1.0] * len(distinct) + [relevance[i] for i in relevant]
    centre = distinct.mean(axis=0, dtype=np.float32)
    sets = query_list.draw_negatives(
        centre, np.float32(updated)[others], P=len(sure) + len(pseudo),
        sets=p["T"] if "T" in p else p["T1"] + p["T2"], lowest=p["lowest"], seed=p["seed"],
    )  # fmt: skip
    typical = np.median(np.linalg.norm(vectors[evenly].astype(float) - centre, axis=1))
    sharpness = p.get("sharpness", SHARPNESS)
    gamma = sharpness / typical**2 if p["gamma"] == "auto" else p["gamma"] / vectors.shape[1]

    def svm(drawn: np.ndarray, memberships: list[float]) -> SVC:
        examples_of_set = np.vstack([sure, vectors[pseudo], vectors[irrelevant], vectors[others[drawn]]])
        positive = len(sure) + len(pseudo)
        labels = [1] * positive + [-1] * (len(examples_of_set) - positive)
        weights = sure_weights + memberships + [-relevance[i] for i in irrelevant] + [1.0] * len(drawn)
        svc = SVC(C=p["C"], gamma=gamma, tol=1e-10)
        return svc.fit(examples_of_set.astype(float), labels, sample_weight=weights)

    memberships = [1.0] * len(pseudo)
    rankers = sets[p.get("T1", 0) :]
    if fuzzy:
        estimators = [svm(drawn, memberships) for drawn in sets[: p["T1"]]]
        for k, i in enumerate(pseudo):
            values = [m.decision_function([vectors[i].astype(float)])[0] for m in estimators]
            probability = np.mean([1 / (1 + math.exp(-value)) for value in values])  # equations 4, 5
            relevant_by = p["alpha"] * probability + (1 - p["alpha"]) * rho(i)  # equation 6
            memberships[k] = min(max(relevant_by, 0.01), 1.0)
        if method == "fuzzy-eprf":
            largest = max(memberships)
            memberships = [max((value / largest) ** p["power"], 0.01) for value in memberships]
    sums = sum(svm(drawn, memberships).decision_function(vectors.astype(float)) for drawn in rankers)
    return sums + len(rankers) * p.get("closeness", 0.0) * np.array(updated)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("relevance", [{}, {3: 1.0, 8: -1.0}, {3: 0.5, 8: -0.25, 11: 1.0, 20: -1.0}])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("C", [0.1, 10.0])  # with 0.1 most multipliers are at their bound, the membership
def test_scores_are_sums_of_decisions(method, relevance, count, C):
    vectors, _ = clusters(120)
    examples = vectors[30 : 30 + count] + np.float32(0.05)
    options = {"N": 40, "K": 12, "T1": 2, "T2": 3, "P": 4} if method in EPRF else {"T": 3}
    options["C"] = C
    result = scores_of(method, examples, relevance, plain(vectors), **options)
    p = get_learner(method, {}, options).parameters
    assert p["P"] == (4 if method in EPRF else 0)
    np.testing.assert_allclose(result, reference(method, examples, relevance, vectors, p), atol=2e-4)


def test_the_previous_score_and_a_sure_first_answer_count_with_several_examples():
    vectors, _ = clusters(120)
    examples = vectors[30:32] + np.float32(0.05)
    options = {"N": 40, "K": 12, "T1": 2, "T2": 3, "P": 4, "closeness": 0.5}
    result = scores_of("eprf", examples, {}, plain(vectors), **options)
    p = get_learner("eprf", {}, options).parameters
    np.testing.assert_allclose(result, reference("eprf", examples, {}, vectors, p), atol=2e-4)
    nearest = int(np.argmin(nearest_list(examples, plain(vectors)).distances))
    worst = {"closeness": 0.0, "lam": 1000.0, "K": 1, "P": 1, "sure": 1.0}
    for relevance, first in (({}, True), ({nearest: -1.0}, False)):
        kept = scores_of("eprf", examples, relevance, plain(vectors), **options | worst)
        assert (int(np.argmax(kept)) == nearest) is first


@pytest.mark.parametrize("method", METHODS)
def test_negatives_and_the_kernel_width_are_of_the_sample_of_a_longer_list(method):
    vectors, _ = clusters(120)
    examples, relevance, sample = vectors[30:32] + np.float32(0.05), {3: 1.0, 8: -1.0}, np.arange(1, 120, 3)
    options = {"N": 40, "K": 12, "T1": 2, "T2": 3, "P": 4} if method in EPRF else {"T": 3}
    gallery, learner = plain(vectors), get_learner(method, {}, options)
    ranking = replace(nearest_list(examples, gallery), sample=sample)
    result = learn(learner, examples, judged(relevance), ranking, gallery).scores
    expected = reference(method, examples, relevance, vectors, learner.parameters, sample)
    np.testing.assert_allclose(result, expected, atol=2e-4)


@pytest.mark.parametrize("method", ["eprf", "fuzzy-eprf"])
def test_judgements_count_by_their_relevance_in_the_estimate_of_relevance_too(method):
    """Equations 4 to 6, where the SVMs alone estimate and most multipliers are at their bounds."""
    vectors, _ = clusters(120)
    examples = vectors[30:32] + np.float32(0.05)
    relevance = {3: 0.1, 8: -0.1, 11: 0.2, 20: -0.3, 40: -0.1, 50: 0.1}
    options = {"N": 40, "K": 12, "T1": 2, "T2": 3, "P": 4, "alpha": 1.0, "C": 1.0}
    result = scores_of(method, examples, relevance, plain(vectors), **options)
    p = get_learner(method, {}, options).parameters
    np.testing.assert_allclose(result, reference(method, examples, relevance, vectors, p), atol=2e-4)


def test_nprf_of_several_examples_takes_pseudo_positives_on_request():
    vectors, _ = clusters(120)
    examples, options = vectors[30:32], {"P": 3, "T": 2, "gamma": 2.0}
    result = scores_of("nprf", examples, {}, plain(vectors), **options)
    p = get_learner("nprf", {}, options).parameters
    np.testing.assert_allclose(result, reference("nprf", examples, {}, vectors, p), atol=2e-4)


@pytest.mark.parametrize("method", [Feedback.name, *METHODS])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 5), judgements=st.integers(0, 6))
def test_order_and_repetition_of_examples_change_nothing(method, seed, count, judgements):
    vectors, _ = clusters(150, seed=seed)
    random = np.random.default_rng(seed)
    rows = random.permutation(150)
    examples = vectors[rows[:count]]
    relevance = {int(row): float(random.choice([-1, -0.5, 0.5, 1])) for row in rows[50 : 50 + judgements]}
    gallery = plain(vectors)
    scores = scores_of(method, examples, relevance, gallery)
    mixed = random.permutation(np.vstack([examples, examples[:1], examples]))
    backwards = dict(reversed(relevance.items()))
    np.testing.assert_allclose(scores_of(method, mixed, backwards, gallery), scores, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_judgements_move_images_and_their_like(method):
    vectors, kind = clusters(600, kinds=6, seed=3)
    gallery = plain(vectors)
    gains, moves = [], []
    for query in range(6):
        first = scores_of(method, vectors[[query]], {}, gallery)
        top = [int(row) for row in top_k(first, 21) if row != query][:20]
        relevance = {row: 1.0 if kind[row] == kind[query] else -1.0 for row in top}
        second = scores_of(method, vectors[[query]], relevance, gallery)
        irrelevant = [row for row, value in relevance.items() if value < 0]
        places = [np.argsort(np.argsort(-scores))[irrelevant] for scores in (first, second)]
        moves.extend((places[1] - places[0]).tolist())
        rest = np.setdiff1d(np.arange(600), [query, *top])
        hit = kind[rest] == kind[query]
        gains.append(hit[top_k(second[rest], 40)].mean() - hit[top_k(first[rest], 40)].mean())
    assert moves
    assert min(moves) > 0  # each image judged not relevant falls
    assert np.mean(gains) > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 12, 60])
def test_few_images_and_images_all_alike(method, n):
    examples = clusters(3)[0]
    for vectors in (clusters(n)[0], np.ones((n, 8), np.float32)):
        gallery = plain(vectors)
        for relevance in ({}, {0: 1.0}, {n - 1: -1.0}, dict.fromkeys(range(n), -1.0)):
            if n or not relevance:
                scores = scores_of(method, examples, relevance, gallery)
                assert scores.shape == (n,)
                assert np.isfinite(scores).all()


def test_without_negatives_the_list_stands_and_a_note_says_so():
    vectors, _ = clusters(5)
    gallery, learner = plain(vectors), get_learner("eprf", {}, {"P": 5})
    result = learn(learner, vectors[:2], judged({}), nearest_list(vectors[:2], gallery), gallery)
    assert result.notes == ("only 5 images: no negatives to train on; SVM re-ranking skipped",)
    taught = learn(learner, vectors[:2], judged({4: -1.0}), nearest_list(vectors[:2], gallery), gallery)
    assert taught.notes == ()
    assert not np.array_equal(taught.scores, result.scores)


@pytest.mark.parametrize("method", ["eprf", "nprf"])
def test_negatives_are_drawn_from_all_but_the_best(method):
    """11 images, 2 examples and 4 pseudo-positives: 5 are left to draw from."""
    vectors, _ = clusters(11)
    gallery, learner = plain(vectors), get_learner(method, {}, {"P": 4})
    examples = clusters(2, seed=9)[0]
    result = learn(learner, examples, judged({}), nearest_list(examples, gallery), gallery)
    assert result.notes == ("5 negatives for each SVM instead of 6: there are no more images",)


@pytest.mark.parametrize("method", ["eprf", "nprf"])
def test_no_more_than_a_hundred_negatives_are_drawn(method):
    vectors, _ = clusters(150)
    gallery, learner = plain(vectors), get_learner(method, {}, {"P": 99})
    examples = clusters(3, seed=9)[0]
    result = learn(learner, examples, judged({}), nearest_list(examples, gallery), gallery)
    assert result.notes == ("50 negatives for each SVM instead of 100: there are no more images",)


def test_an_image_judged_both_ways_by_its_copy_still_has_a_finite_score():
    vectors, _ = clusters(60)
    vectors[7] = vectors[3]
    scores = scores_of("eprf", vectors[[3]], {3: 1.0, 7: -1.0}, plain(vectors))
    assert np.isfinite(scores).all()


def test_judged_images_outside_the_list_are_learnt_from():
    vectors, kind = clusters(300, seed=5)
    gallery, rows = plain(vectors), np.arange(200)
    ranking = nearest_list(vectors[:1], gallery, rows)
    outside = judged({200 + int(i): -1.0 for i in np.flatnonzero(kind[200:] != kind[0])[:10]})
    learner = get_learner("eprf", {}, {})
    scores = [learn(learner, vectors[:1], said, ranking, gallery).scores for said in (judged({}), outside)]
    assert not np.allclose(*scores)


def test_parameters_are_those_of_the_request_then_of_the_profile():
    tuned = {"C": 3.0, "gamma": 4.0, "k1": 7}
    learner = get_learner("eprf", tuned, {"C": 2})
    assert (learner.parameters["C"], learner.parameters["gamma"]) == (2.0, 4.0)
    assert isinstance(get_learner("auto", tuned, {}), Feedback)
    assert get_learner("feedback", tuned, {"flow": 2}).parameters["flow"] == 2.0


@pytest.mark.parametrize(
    "name", [*(name for name in rerank.names() if name not in learner_names()), "nonsense"]
)
def test_methods_for_one_example_are_refused(name):
    with pytest.raises(InvalidInput, match=r"feedback, none, eprf|there is no re-ranker"):
        get_learner(name, {}, {})


@pytest.mark.parametrize("name", [*learner_names(), "auto"])
def test_unknown_parameters_are_refused(name):
    with pytest.raises(InvalidInput, match="has no parameter 'nonsense'"):
        get_learner(name, {}, {"nonsense": 1})
