import numpy as np
import pytest
from scipy.stats import pearsonr

from cbir import rerank
from cbir.gallery.gallery import Gallery, rank
from cbir.rerank.pearson import References, update_similarities


def clustered(n: int, d: int = 12, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (
        random.standard_normal((8, d))[random.integers(0, 8, n)] * 2 + random.standard_normal((n, d))
    ).astype(np.float32)


@pytest.mark.parametrize(("n", "K", "N"), [(300, 60, 100), (300, 7, 300), (40, 60, 1000), (2, 5, 2)])
def test_the_update_adds_rho_to_the_top(n, K, N):
    vectors = clustered(n)
    query = vectors[0] + np.float32(0.1)
    gallery = Gallery((vectors,), np.arange(n))
    ranking = rank(query, gallery)
    result = rerank.get("pearson", K=K, N=N, lam=0.5)(query, ranking, gallery).scores
    order = sorted(range(n), key=lambda i: -ranking.similarities[i])
    references = vectors[order[:N]].astype(float)
    own = -np.linalg.norm(references - query, axis=1)
    for place, i in enumerate(order):
        expected = ranking.similarities[i]
        if place < K:
            expected += 0.5 * pearsonr(own, -np.linalg.norm(references - vectors[i], axis=1)).statistic
        assert result[i] == pytest.approx(expected, abs=1e-6)


def test_evidence_weighs_what_rho_adds_above_its_least():
    """0.5 (1 + rho) times the evidence: nothing falls, and what no evidence speaks for stays."""
    vectors = clustered(60)
    query = vectors[0] + np.float32(0.1)
    gallery = Gallery((vectors,), np.arange(60))
    ranking = rank(query, gallery)
    evidence = np.random.default_rng(0).choice([0.0, 0.25, 1.0], 60)
    references = References(query, ranking, gallery, 40)
    found = update_similarities(ranking, references, gallery, 60, 0.5, lambda rows: evidence[rows])
    nearest = vectors[np.argsort(-ranking.similarities, kind="stable")[:40]].astype(float)
    own = np.linalg.norm(nearest - query, axis=1)
    rho = [pearsonr(own, np.linalg.norm(nearest - each, axis=1)).statistic for each in vectors]
    expected = ranking.similarities + 0.5 * evidence * (1 + np.array(rho))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (found[evidence == 0] == ranking.similarities[evidence == 0]).all()


def test_constant_lists_correlate_with_nothing():
    vectors = np.tile(np.float32([1.0, 0.1, -3.3]), (20, 1))
    gallery = Gallery((vectors,), np.arange(20))
    for query in (vectors[0], vectors[0] * 2, vectors[0] + 1e4):
        references = References(query, rank(query, gallery), gallery, 1000)
        assert np.all(references.correlations(vectors) == 0.0)


def test_an_image_like_the_query_has_rho_one():
    vectors = clustered(100)
    gallery = Gallery((vectors,), np.arange(100))
    references = References(vectors[4], rank(vectors[4], gallery), gallery, 50)
    assert references.correlations(vectors[4:5])[0] == pytest.approx(1.0)


def test_far_from_the_origin_nothing_is_lost():
    vectors = clustered(200).astype(np.float64)
    near, far = ((vectors + offset).astype(np.float32) for offset in (0.0, 512.0))
    rho = []
    for shifted in (near, far):
        gallery = Gallery((shifted,), np.arange(200))
        ranking = rank(near[0], Gallery((near,), np.arange(200)))  # the same order for both
        rho.append(References(shifted[0], ranking, gallery, 100).correlations(shifted[:20]))
    np.testing.assert_allclose(rho[1], rho[0], atol=1e-4)  # what rounding the inputs costs


@pytest.mark.parametrize("distance", [1e2, 1e4, 1e6])
def test_an_image_far_from_all_has_the_exact_coefficient(distance):
    """Its distances differ by a small share of themselves."""
    vectors = clustered(60)
    gallery = Gallery((vectors,), np.arange(60))
    references = References(vectors[0], rank(vectors[0], gallery), gallery, 60)
    far = np.float32(distance) * np.eye(12, dtype=np.float32)[:5] + 1
    points = vectors.astype(np.longdouble)
    own, lists = (
        np.linalg.norm(points - image[:, None], axis=2) for image in (points[:1], far.astype(np.longdouble))
    )
    expected = [
        pearsonr(own[0].astype(float), (each - each.mean()).astype(float)).statistic for each in lists
    ]
    np.testing.assert_allclose(references.correlations(far), expected, atol=1e-7)


def test_rounding_makes_no_coefficient_larger_than_one():
    """That of the query itself would often be, by some 1e-16."""
    for seed in range(60):
        random = np.random.default_rng(seed)
        vectors = random.standard_normal((random.integers(3, 60), 6)).astype(np.float32)
        gallery = Gallery((vectors,), np.arange(len(vectors)))
        references = References(vectors[0], rank(vectors[0], gallery), gallery, 60)
        found = references.correlations(vectors)
        assert found[0] == pytest.approx(1.0)
        assert np.abs(found).max() <= 1.0


def test_depth_is_all_that_is_read():
    """The images that are updated, and those that lists are compared over."""
    assert rerank.get("pearson", N=30, K=50).depth == 50
    assert rerank.get("pearson", N=50, K=30).depth == 50
    assert rerank.get("pearson").depth == 1000
