"""EPRF on the list of diffusion."""

import numpy as np
import pytest
from sklearn.svm import SVC

from cbir import rerank
from cbir.gallery.gallery import Gallery, rank
from cbir.rerank.backend import draw_negatives


@pytest.fixture(scope="module")
def gallery() -> Gallery:
    random = np.random.default_rng(3)
    centres = 1.5 * random.standard_normal((6, 16))
    vectors = centres[random.integers(0, 6, 600)] + random.standard_normal((600, 16))
    return Gallery((vectors.astype(np.float32),), np.arange(600))


def scores_of(gallery: Gallery, name: str = "diffusion-eprf", **parameters: float) -> np.ndarray:
    query = gallery.vectors(np.array([5]))[0] + np.float32(0.2)
    return rerank.get(name, **parameters)(query, rank(query, gallery), gallery).scores


def test_without_both_weights_it_is_diffusion(gallery):
    plain = scores_of(gallery, "diffusion")
    np.testing.assert_allclose(scores_of(gallery, lam=0, weight=0), plain, atol=1e-12)


@pytest.mark.parametrize("parameters", [{"lam": 0.0}, {"weight": 0.0}])
def test_each_step_changes_the_order(gallery, parameters):
    order = np.argsort(-scores_of(gallery, **parameters), kind="stable")
    assert not np.array_equal(order, np.argsort(-scores_of(gallery, "diffusion"), kind="stable"))


def test_decisions_count_from_negatives_to_positives(gallery):
    gained = scores_of(gallery, lam=0, weight=2, sure=0) - scores_of(gallery, lam=0, weight=0, sure=0)
    gained = gained - gained.min()
    best = np.argsort(-scores_of(gallery, "diffusion"), kind="stable")
    assert gained[best[:10]].mean() == pytest.approx(2.0, abs=0.3)
    assert np.median(gained[best[300:]]) < 0.5


def reference(query: np.ndarray, vectors: np.ndarray, P: int = 10, sets: int = 3) -> np.ndarray:
    """The steps of the docstring, one LIBSVM model at a time; the draw of negatives is shared with the fast form."""
    gallery = Gallery((vectors,), np.arange(len(vectors)))
    ranking = rank(query, gallery)
    scores = rerank.get("diffusion", sure=0)(query, ranking, gallery).scores.copy()
    points, origin = vectors.astype(float), query.astype(float)
    near = np.argsort(ranking.distances, kind="stable")[:100]
    own = np.linalg.norm(points[near] - origin, axis=1)
    for i in np.argsort(-scores, kind="stable")[:200]:
        other = np.linalg.norm(points[near] - points[i], axis=1)
        scores[i] += 0.3 * (1 + np.corrcoef(own, other)[0, 1])
    order = np.argsort(-scores, kind="stable")
    positives = order[:P]
    similarities = ranking.similarities.copy()
    similarities[positives] = np.inf
    drawn = draw_negatives(query, similarities, P=P, sets=sets, lowest=0.9, seed=0)
    assert not np.isin(drawn, positives).any()
    weights = np.maximum(np.exp(scores[positives] - scores[positives[0]]), 0.01)
    decisions = np.zeros(len(vectors))
    for negatives in drawn:
        q = len(negatives)
        svm = SVC(C=0.1, gamma=3 / np.median(np.linalg.norm(points - origin, axis=1)) ** 2, tol=1e-10)
        examples, labels = points[np.r_[positives, negatives]], [1] * P + [-1] * q
        svm.fit(examples, labels, sample_weight=np.r_[weights, np.ones(q)])
        decisions += svm.decision_function(points)
    low, high = decisions[drawn.ravel()].mean(), np.average(decisions[positives], weights=weights)
    best = order[:1000]
    scores[best] += np.maximum((decisions[best] - low) / (high - low), 0)
    return scores - scores.max()


@pytest.mark.parametrize("n", [16, 40, 100, 400])
def test_scores_are_those_of_the_steps(n):
    """Small collections too, where the lowest 90 % of the plain list hold some of the positives."""
    random = np.random.default_rng(n)
    centres = 1.5 * random.standard_normal((8, 16))
    vectors = (centres[random.integers(0, 8, n)] + random.standard_normal((n, 16))).astype(np.float32)
    query, gallery = vectors[3] + np.float32(0.2), Gallery((vectors,), np.arange(n))
    scores = rerank.get("diffusion-eprf", sure=0)(query, rank(query, gallery), gallery).scores
    np.testing.assert_allclose(scores, reference(query, vectors), atol=1e-3)


def test_images_beyond_the_best_keep_their_order(gallery):
    plain = scores_of(gallery, "diffusion", sure=0)
    order = np.argsort(-plain, kind="stable")
    found = np.argsort(-scores_of(gallery, M=50, K=20, sure=0), kind="stable")
    assert set(found[:50]) == set(order[:50])
    assert found[50:].tolist() == order[50:].tolist()


def test_too_few_images_for_negatives_are_noted(gallery):
    query = np.ones(16, np.float32)
    ranking = rank(query, gallery, np.arange(7))
    result = rerank.get("diffusion-eprf", lam=0)(query, ranking, gallery)
    assert "no negatives" in result.notes[0]
    plain = rerank.get("diffusion")(query, ranking, gallery).scores
    np.testing.assert_allclose(result.scores, plain, atol=1e-12)
