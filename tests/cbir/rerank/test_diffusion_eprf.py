"""EPRF on the list of diffusion."""

import numpy as np
import pytest

from cbir import rerank
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import rank


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


def test_images_beyond_the_best_keep_their_order(gallery):
    plain = scores_of(gallery, "diffusion", sure=0)
    order = np.argsort(-plain, kind="stable")
    found = np.argsort(-scores_of(gallery, M=50, K=20, sure=0), kind="stable")
    assert set(found[:50]) == set(order[:50])
    assert found[50:].tolist() == order[50:].tolist()


def test_too_few_images_for_negatives_are_noted(gallery):
    query = np.ones(16, np.float32)
    ranking = rank(query, gallery, np.arange(7))
    result = rerank.get("diffusion-eprf")(query, ranking, gallery)
    assert "no negatives" in result.notes[0]
    assert np.array_equal(result.scores, rerank.get("diffusion")(query, ranking, gallery).scores)
