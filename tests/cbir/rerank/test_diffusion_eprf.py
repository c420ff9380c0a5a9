"""EPRF on the list of diffusion."""

import numpy as np
import pytest
from sklearn.svm import SVC

from cbir import rerank
from cbir.gallery.gallery import Gallery, rank
from cbir.rerank.query_list import draw_negatives


@pytest.fixture(scope="module")
def gallery() -> Gallery:
    random = np.random.default_rng(3)
    centres = 1.5 * random.standard_normal((6, 16))
    vectors = centres[random.integers(0, 6, 600)] + random.standard_normal((600, 16))
    return Gallery((vectors.astype(np.float32),), np.arange(600))


def scores_of(gallery: Gallery, name: str = "diffusion-eprf", **parameters: float) -> np.ndarray:
    query = gallery.vectors(np.array([5]))[0] + np.float32(0.2)
    return rerank.get(name, **parameters)(query, rank(query, gallery), gallery).scores


FLOW = {"damping": 0.97, "tail": 1.0, "mutual": 4.0, "sure": 1.0}


def test_without_both_weights_it_is_diffusion(gallery):
    plain = scores_of(gallery, "diffusion", **FLOW)
    np.testing.assert_allclose(scores_of(gallery, lam=0, weight=0), plain, atol=1e-12)


@pytest.mark.parametrize("parameters", [{"lam": 0.0}, {"weight": 0.0}])
def test_each_step_changes_the_order(gallery, parameters):
    both = np.argsort(-scores_of(gallery), kind="stable")
    order = np.argsort(-scores_of(gallery, **parameters), kind="stable")
    assert not np.array_equal(order, np.argsort(-scores_of(gallery, "diffusion", **FLOW), kind="stable"))
    assert not np.array_equal(order, both)


def test_memberships_change_the_order(gallery):
    both = np.argsort(-scores_of(gallery), kind="stable")
    assert not np.array_equal(np.argsort(-scores_of(gallery, evidence=0), kind="stable"), both)


def test_decisions_count_from_negatives_to_the_query(gallery):
    gained = scores_of(gallery, lam=0, weight=2, sure=0) - scores_of(gallery, lam=0, weight=0, sure=0)
    gained = gained - gained.min()
    best = np.argsort(-scores_of(gallery, "diffusion"), kind="stable")
    assert gained.max() == pytest.approx(2.0, abs=0.7)
    assert gained[best[:10]].mean() > 1.0
    assert np.median(gained[best[300:]]) < 0.5


def slow_likeness(points: np.ndarray, own: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Of the images at positions `chosen`, with the distances `own` of all to the query."""
    near = np.argsort(own, kind="stable")[:200]
    nearest_others = []
    for i in near[:100]:
        others = [np.linalg.norm(points[i] - points[j]) for j in near if j != i]
        nearest_others.append(min(others))
    return np.array(
        [
            (1 + sum(other >= own[i] - 1e-5 for other in nearest_others)) / (1 + len(nearest_others))
            for i in chosen
        ]
    )


def reference(
    query: np.ndarray, vectors: np.ndarray, P: int = 5, sets: int = 2, count: int = 10
) -> np.ndarray:
    """The steps of the docstring, one LIBSVM model at a time; the draw of negatives is shared with the fast form."""
    gallery = Gallery((vectors,), np.arange(len(vectors)))
    ranking = rank(query, gallery)
    scores = rerank.get("diffusion", **(FLOW | {"sure": 0}))(query, ranking, gallery).scores.copy()
    points, origin = vectors.astype(float), query.astype(float)
    distances = np.linalg.norm(points - origin, axis=1)
    near = np.argsort(distances, kind="stable")[:100]
    for i in np.argsort(-scores, kind="stable")[:100]:
        other = np.linalg.norm(points[near] - points[i], axis=1)
        scores[i] += 0.3 * (1 + np.corrcoef(distances[near], other)[0, 1])
    order = np.argsort(-scores, kind="stable")
    positives = order[: min(P, len(vectors) // 3)]
    similarities = ranking.similarities.copy()
    similarities[positives] = np.inf
    lowest = min(0.9, 1 - len(positives) / len(vectors))
    drawn = draw_negatives(query, similarities, P=count, sets=sets, lowest=lowest, seed=0)
    assert not np.isin(drawn, positives).any()
    weights = np.exp(scores[positives] - scores[positives[0]])
    weights = np.append(np.maximum(weights * slow_likeness(points, distances, positives), 0.01), 1.0)
    gamma = 3 / np.median(distances) ** 2
    decisions, of_query = np.zeros(len(vectors)), 0.0
    for negatives in drawn:
        svm = SVC(C=0.1, gamma=gamma, tol=1e-10)
        examples = np.vstack([points[positives], origin, points[negatives]])
        labels = [1] * len(weights) + [-1] * len(negatives)
        svm.fit(examples, labels, sample_weight=np.r_[weights, np.ones(len(negatives))])
        decisions += svm.decision_function(points)
        of_query += svm.decision_function(origin[None])[0]
    low = decisions[drawn.ravel()].mean()
    best = order[:500]
    scores[best] += 3 * np.maximum((decisions[best] - low) / (of_query - low), 0)
    return scores - scores.max()


@pytest.mark.parametrize("n", [16, 40, 100, 400])
def test_scores_are_those_of_the_steps(n):
    """Small collections too, where the lowest 90 % of the plain list hold some of the positives."""
    random = np.random.default_rng(n)
    centres = 1.5 * random.standard_normal((8, 16))
    vectors = (centres[random.integers(0, 8, n)] + random.standard_normal((n, 16))).astype(np.float32)
    query, gallery = vectors[3] + np.float32(0.2), Gallery((vectors,), np.arange(n))
    ranking = rank(query, gallery)
    for values in ({}, {"P": 15}):
        scores = rerank.get("diffusion-eprf", sure=0, **values)(query, ranking, gallery).scores
        np.testing.assert_allclose(scores, reference(query, vectors, **values), atol=3e-3)


def test_images_beyond_the_best_keep_their_order(gallery):
    plain = scores_of(gallery, "diffusion", **(FLOW | {"sure": 0}))
    order = np.argsort(-plain, kind="stable")
    found = np.argsort(-scores_of(gallery, M=50, K=20, sure=0), kind="stable")
    assert set(found[:50]) == set(order[:50])
    assert found[50:].tolist() == order[50:].tolist()


def test_too_few_images_for_negatives_are_noted(gallery):
    query = np.ones(16, np.float32)
    ranking = rank(query, gallery, np.arange(7))
    result = rerank.get("diffusion-eprf", lam=0)(query, ranking, gallery)
    assert "no negatives" in result.notes[0]
    plain = rerank.get("diffusion", **FLOW)(query, ranking, gallery).scores
    np.testing.assert_allclose(result.scores, plain, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_very_few_images(gallery, n):
    query = np.ones(16, np.float32)
    scores = rerank.get("diffusion-eprf")(query, rank(query, gallery, np.arange(n)), gallery).scores
    assert len(scores) == n
    assert np.isfinite(scores).all()
