"""Negative feedback against one LIBSVM model at a time."""

import numpy as np
import pytest
from sklearn.svm import SVC

from cbir import rerank
from cbir.gallery.gallery import Gallery, rank, top_k
from cbir.rerank import query_list


def clustered(n: int, d: int = 10, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = 1.5 * random.standard_normal((6, d))
    return (centres[random.integers(0, 6, n)] + random.standard_normal((n, d))).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("n", "options"),
    [
        (300, {}), (300, {"P": 0}), (300, {"P": 15, "C": 10.0, "gamma": 0.5}), (300, {"T": 1, "lowest": 0.5}),
        (9, {"P": 6}), (300, {"seed": 7, "P": 3}),
    ],
)  # fmt: skip
def test_scores_are_sums_of_decisions(n, options, seed):
    vectors = clustered(n, seed=seed)
    query = vectors[1] + np.float32(0.2)
    gallery = Gallery((vectors,), np.arange(n))
    ranking = rank(query, gallery)
    reranker = rerank.get("nprf", **options)
    p = reranker.parameters
    result = reranker(query, ranking, gallery)
    order = sorted(range(n), key=lambda i: (-ranking.similarities[i], i))
    gamma = p["gamma"] / 10 if p["gamma"] != "auto" else 15 / np.median(ranking.distances) ** 2
    positives = [query, *(vectors[i] for i in order[: p["P"]])]
    expected = np.zeros(n)
    draws = query_list.draw_negatives(
        query, ranking.similarities, P=p["P"] + 1, sets=p["T"], lowest=p["lowest"], seed=p["seed"]
    )
    assert len(draws) == p["T"]
    for positions in draws:
        assert set(positions) <= set(order[len(positives) :])
        labels = [1] * len(positives) + [-1] * len(positions)
        svm = SVC(C=p["C"], gamma=gamma, tol=1e-10)
        svm.fit(np.array([*positives, *vectors[positions]], float), labels)
        expected += svm.decision_function(vectors.astype(float))
    np.testing.assert_allclose(result.scores, expected, atol=2e-4)
    assert np.all((result.reported(result.scores) >= 0.0) & (result.reported(result.scores) <= 1.0))


def test_the_query_alone_is_enough_to_learn_from():
    vectors = clustered(400)
    query = vectors[0]
    gallery = Gallery((vectors,), np.arange(400))
    ranking = rank(query, gallery)
    alone = rerank.get("nprf", P=0)(query, ranking, gallery).scores
    assert top_k(alone, 1)[0] == 0
    assert not np.array_equal(top_k(alone, 400), top_k(ranking.similarities, 400))


def test_too_few_images_are_said_to_be():
    vectors = clustered(8)
    gallery = Gallery((vectors,), np.arange(8))
    few = rerank.get("nprf", P=6)(vectors[0], rank(vectors[0], gallery), gallery)
    assert few.notes == ("1 negatives for each SVM instead of 7: there are no more images",)
    none = rerank.get("nprf", P=7)(vectors[0], rank(vectors[0], gallery), gallery)
    assert "no negatives to train on" in none.notes[0]
    assert np.array_equal(none.scores, rank(vectors[0], gallery).similarities)
