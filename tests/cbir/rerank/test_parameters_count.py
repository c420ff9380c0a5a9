"""Every parameter of every re-ranker changes what it does, but those that its docstring says have no effect."""

from typing import Any

import numpy as np
import pytest

from cbir import rerank
from cbir.gallery.gallery import Gallery, merge_nearest, rank
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import Neighbourhood
from cbir.rerank.diffusion import RelevanceFeedback
from cbir.rerank.feedback import Feedback

IMAGES = 300
OTHER: dict[str, Any] = {
    "K": 5, "N": 40, "lam": 0.1, "P": 4, "T": 5, "T1": 4, "T2": 4, "alpha": 0.9, "lowest": 0.5, "C": 0.02,
    "gamma": 3.0, "sharpness": 6.0, "closeness": 0.4, "sure": 1.0, "evidence": 3.0, "seed": 1, "M": 40,
    "clusters": 5, "weight": 0.7, "k1": 9, "k2": 3, "damping": 0.6, "steps": 3, "tail": 0.5, "nodes": 60,
    "mutual": 2.0, "local": 80, "power": 1.0, "trust": 0.9, "distrust": 0.9, "flow": 1.5,
}  # fmt: skip
# Memberships act through the bounds C R of multipliers, which few reach with C = 10.
WITH = {
    "eprf": {"C": 0.1},
    "nsu-eprf": {"C": 0.1},
    "fuzzy-eprf": {"alpha": 0.4},
    "diffusion-eprf": {"C": 2.0, "sure": 0.0},
}
WITHOUT_EFFECT = {("nsu-eprf", "K"), ("nsu-eprf", "lam"), ("svm-eprf", "alpha")}
COUNTED = [
    (name, parameter)
    for name in rerank.names()
    for parameter in rerank.reranker_class(name).parameter_names()
]


def vectors_of(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = 1.2 * random.standard_normal((6, 10))
    return (centres[random.integers(0, 6, IMAGES)] + random.standard_normal((IMAGES, 10))).astype(np.float32)


def gallery_of(vectors: np.ndarray) -> Gallery:
    plain = Gallery((vectors,), np.arange(len(vectors)))
    return Gallery(plain.blocks, plain.ids, (), Neighbourhood(find_neighbours(vectors, plain.space)))


def lists(name: str, parameters: dict[str, Any]) -> np.ndarray:
    """Scores of seven queries; diffusion by the graph of the collection, but where `local` counts."""
    scores = []
    for seed in range(7):
        vectors = vectors_of(seed)
        gallery = Gallery((vectors,), np.arange(IMAGES)) if "local" in parameters else gallery_of(vectors)
        query = (vectors[seed] + 1.5 * np.random.default_rng(seed).standard_normal(10)).astype(np.float32)
        scores.append(rerank.get(name, **parameters)(query, rank(query, gallery), gallery).scores)
    return np.stack(scores)


@pytest.mark.parametrize(("name", "parameter"), COUNTED)
def test_another_value_gives_other_scores(name: str, parameter: str) -> None:
    assert parameter in OTHER, "add another value than its default"
    base = {"local": IMAGES} if parameter == "local" else WITH.get(name, {})
    before, after = lists(name, base), lists(name, {**base, parameter: OTHER[parameter]})
    assert np.array_equal(before, after) == ((name, parameter) in WITHOUT_EFFECT)


@pytest.mark.parametrize("parameter", Feedback.parameter_names())
def test_another_value_gives_other_scores_of_feedback(parameter: str) -> None:
    vectors = vectors_of(0)
    gallery, examples = gallery_of(vectors), vectors[:2] + np.float32(0.3)
    judged = RelevanceFeedback(np.array([5, 9]), np.array([1.0, -0.5]))
    ranking = merge_nearest([rank(each, gallery) for each in examples])
    before, after = (
        Feedback(**given)(examples, judged, ranking, gallery).scores
        for given in ({"C": 0.3}, {"C": 0.3, parameter: OTHER[parameter]})
    )
    assert not np.allclose(before, after, rtol=0, atol=1e-6)


def test_the_least_membership_is_a_hundredth() -> None:
    """The relevance of eq. 6 can be negative, a penalty cannot; it is never above 1."""
    decisions, rho = np.array([[-40.0, 0.0, 40.0], [-40.0, 4.0, 40.0]]), np.array([-1.0, 0.5, 1.0])
    middle = 0.4 * (0.5 + 1 / (1 + np.exp(-4.0))) / 2 + 0.6 * 0.5
    np.testing.assert_allclose(rerank.get("eprf").relevance(decisions, rho), [0.01, middle, 1.0])
