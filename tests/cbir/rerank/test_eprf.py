"""EPRF against a slow form of it, line by line after the paper, with one LIBSVM model at a time."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from cbir import rerank
from cbir.gallery.gallery import Gallery, RankingList, rank
from cbir.rerank import query_list
from cbir.rerank.ranked import rerank_top
from cbir.rerank.svm_ensemble import TrainingSets
from cbir.store.base.profile import PROJECTED_EPRF

METHODS = {
    "eprf": (True, True),
    "nsu-eprf": (False, True),
    "svm-eprf": (True, False),
    "fuzzy-eprf": (True, True),
}


def clustered(seed: int, n: int, d: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = random.standard_normal((6, d)) * 1.5
    return (centres[random.integers(0, 6, n)] + random.standard_normal((n, d))).astype(np.float32)


def gallery_of(vectors: np.ndarray) -> Gallery:
    cut = len(vectors) * 2 // 3
    return Gallery((vectors[:cut], vectors[cut:]), np.arange(len(vectors)))


def distance(x: np.ndarray, y: np.ndarray) -> float:
    return math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True)))


def correlation(one: list[float], other: list[float]) -> float:
    """Equation 2."""
    mean_1, mean_2 = sum(one) / len(one), sum(other) / len(other)
    covariance = sum((a - mean_1) * (b - mean_2) for a, b in zip(one, other, strict=True))
    length_1 = math.sqrt(sum((a - mean_1) ** 2 for a in one))
    length_2 = math.sqrt(sum((b - mean_2) ** 2 for b in other))
    return covariance / (length_1 * length_2)


def logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def order(scores: list[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))


def median_squared_distance(query: np.ndarray, images: list[np.ndarray]) -> float:
    distances = sorted(distance(query, image) for image in images)
    return ((distances[len(images) // 2] + distances[(len(images) - 1) // 2]) / 2) ** 2


def neighbour_likeness(query: np.ndarray, images: list[np.ndarray]) -> list[float]:
    """The share of the 100 nearest images whose nearest other, of 200, is at least as far as an image is."""
    distances = [distance(query, image) for image in images]
    near = sorted(range(len(images)), key=distances.__getitem__)[:200]
    points = np.array([images[i] for i in near], float)
    between = np.linalg.norm(points[:, None] - points, axis=2)
    rounding = 1e-5 * between[:100].max()
    np.fill_diagonal(between, np.inf)
    own = between[:100].min(axis=1)
    return [(1 + sum(own >= each - rounding)) / (1 + len(own)) for each in distances]


def reference(
    query: np.ndarray, ranking: RankingList, vectors: np.ndarray, p: dict[str, Any], update: bool, fuzzy: bool
) -> list[float]:
    """The sum of decision values of every image; the draw of negatives is shared with the fast form."""
    images = [vectors[row] for row in ranking.rows]
    automatic = p["sharpness"] / median_squared_distance(query, images)
    gamma = p["gamma"] / len(query) if p["gamma"] != "auto" else automatic
    similarity = [float(s) for s in ranking.similarities]
    nearest = order(similarity)[: p["N"]]
    of_query = [-distance(query, images[j]) for j in nearest]

    def rho(i: int) -> float:
        return correlation(of_query, [-distance(images[i], images[j]) for j in nearest])

    likeness = neighbour_likeness(query, images) if p["evidence"] else [1.0] * len(images)
    updated = list(similarity)
    if update:
        for i in order(similarity)[: p["K"]]:
            evident = likeness[i] ** p["evidence"] * (1 + rho(i))
            updated[i] = similarity[i] + p["lam"] * (evident if p["evidence"] else rho(i))  # equation 3
    positives = order(updated)[: p["P"]]
    sets = query_list.draw_negatives(
        query,
        np.float32(updated),
        P=p["P"],
        sets=p["T1"] + p["T2"],
        lowest=p["lowest"],
        seed=p["seed"],
    )

    def svm(negative_sets: np.ndarray, membership: list[float]) -> SVC:
        examples = [images[i] for i in [*positives, *negative_sets]]
        labels = [1] * len(positives) + [-1] * len(negative_sets)
        svm = SVC(C=p["C"], gamma=gamma, tol=1e-10)
        return svm.fit(
            np.array(examples, float), labels, sample_weight=membership + [1.0] * len(negative_sets)
        )

    membership = [1.0] * len(positives)
    if fuzzy:
        first = [svm(negative_sets, membership) for negative_sets in sets[: p["T1"]]]
        for k, i in enumerate(positives):
            values = [m.decision_function([np.array(images[i], float)])[0] for m in first]
            probability = sum(logistic(value) for value in values) / len(values)  # equations 4, 5
            relevance = p["alpha"] * probability + (1 - p["alpha"]) * rho(i)  # equation 6
            membership[k] = min(max(relevance, 0.01), 1.0)
        if "power" in p:
            membership = [max((each / max(membership)) ** p["power"], 0.01) for each in membership]
        for k, i in enumerate(positives):
            membership[k] = max(membership[k] * likeness[i] ** p["evidence"], 0.01)
    last = [svm(negative_sets, membership) for negative_sets in sets[p["T1"] :]]
    sums = sum(m.decision_function(np.array(images, float)) for m in last)  # equation 7
    return list(sums + p["T2"] * p["closeness"] * np.array(updated))


def assume_no_ties(method: str, query: np.ndarray, vectors: np.ndarray) -> None:
    """Rounding changes places among near ties, and with them who is drawn."""
    gallery = gallery_of(vectors)
    ranking = rank(query, gallery)
    K, N = rerank.get(method).parameters["K"], rerank.get(method).parameters["N"]
    updated = rerank.get("pearson", K=K, N=N)(query, ranking, gallery).scores
    for scores in (ranking.similarities, updated):
        assume(np.diff(np.sort(scores)).min(initial=1.0) > 2e-6)


def assert_same_ranking(result: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)
    in_found_order = expected[np.argsort(-result, kind="stable")]
    assert np.all(np.diff(in_found_order) <= 2 * tolerance)  # only scores this close change places


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("n", "options"),
    [
        (250, {}),
        (250, {"P": 3}),
        (250, {"C": 1.0, "gamma": 2.0}),
        (250, {"P": 15, "C": 10.0, "gamma": 0.5}),
        (250, {"K": 4, "P": 9, "N": 30}),  # positives from outside the top K
        (250, {"K": 9, "P": 6, "N": 5, "lam": 3.0}),  # and from outside the N references
        (250, {"K": 6, "P": 9, "N": 8}),
        (250, {"alpha": 0.0, "lam": 3.0, "lowest": 0.5, "seed": 4}),
        (250, {"T1": 1, "T2": 3, "alpha": 1.0, "gamma": 4.0}),
        (250, {"closeness": 0.5, "P": 12}),
        (250, {"sharpness": 4.0}),
        (250, {"evidence": 1.0, "closeness": 0.5, "C": 0.1}),
        (250, {"evidence": 0.5, "lam": 0.3}),
        (40, {"P": 6}),
        (11, {"P": 6}),  # five negatives
        (7, {"P": 6}),  # one negative
    ],
)
@pytest.mark.parametrize("subset", [False, True])
def test_the_paper_line_by_line(method, n, options, subset):
    vectors = clustered(n, 2 * n if subset else n, 10)
    query = vectors[0] + np.float32(0.2)
    rows = np.arange(0, 2 * n, 2) if subset else None
    gallery = gallery_of(vectors)
    ranking = rank(query, gallery, rows)
    reranker = rerank.get(method, **options)
    result = reranker(query, ranking, gallery)
    expected = reference(query, ranking, vectors, reranker.parameters, *METHODS[method])
    assert_same_ranking(result.scores, np.array(expected), 1e-5 * max(reranker.parameters["C"], 1.0))
    np.testing.assert_allclose(
        result.reported(result.scores), 1 / (1 + np.exp(-np.array(expected))), atol=1e-4
    )


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 400))
def test_the_order_of_the_gallery_does_not_matter(method, seed, n):
    vectors = clustered(seed, n, 8)
    query = vectors[0] + np.float32(0.2)
    assume_no_ties(method, query, vectors)
    moved = np.random.default_rng(seed).permutation(n)
    scores = []
    for arranged in (vectors, vectors[moved]):
        gallery = gallery_of(arranged)
        scores.append(rerank.get(method)(query, rank(query, gallery), gallery).scores)
    np.testing.assert_allclose(scores[1], scores[0][moved], atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100))
def test_scale_is_made_up_for_by_gamma(method, seed, scale):
    vectors = clustered(seed, 150, 8)
    assume_no_ties(method, vectors[0] + np.float32(0.2), vectors)
    scores = []
    for factor in (1.0, scale):
        scaled = (vectors * factor).astype(np.float32)
        gallery, query = gallery_of(scaled), scaled[0] + np.float32(0.2 * factor)
        # lowest=0: the pool is no larger than the draw, which follows the query's own bytes
        reranker = rerank.get(method, lowest=0, gamma=1.0 / factor**2)
        scores.append(reranker(query, rank(query, gallery), gallery).scores)
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-3)


def test_shown_scores_are_probabilities_that_keep_the_order():
    vectors = clustered(3, 200, 8)
    gallery = gallery_of(vectors)
    result = rerank.get("eprf")(vectors[0], rank(vectors[0], gallery), gallery)
    shown = result.reported(np.sort(result.scores))
    assert np.all((shown > 0) & (shown < 1))
    assert np.all(np.diff(shown) >= 0)
    assert result.reported(np.array([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(("n", "learnt"), [(5, False), (6, False), (7, True)])
def test_without_negatives_the_updated_similarities_stand(n, learnt):
    vectors = clustered(1, n, 8)
    query = vectors[0] + np.float32(0.2)
    gallery = gallery_of(vectors)
    ranking = rank(query, gallery)
    result = rerank.get("eprf")(query, ranking, gallery)
    assert len(result.notes) == 1
    updated = rerank.get("pearson")(query, ranking, gallery).scores
    assert np.array_equal(result.scores, updated) is not learnt


def test_positives_with_negative_correlation_still_count():
    # A query at the far end of a line: its neighbours' lists run against its own.
    vectors = np.linspace(0, 10, 50, dtype=np.float32)[:, None] * np.ones(2, np.float32)
    query = np.float32([-5.0, 5.0])
    gallery = gallery_of(vectors)
    result = rerank.get("eprf", alpha=0.0, K=1, N=3)(query, rank(query, gallery), gallery)
    assert np.isfinite(result.scores).all()
    assert np.ptp(result.scores) > 0


def test_positives_on_every_margin_keep_the_order_they_had():
    vectors = clustered(3, 400, 20)
    query = vectors[0] + 0.1
    gallery = gallery_of(vectors)
    ranking = rank(query, gallery)
    reranked = rerank.get("nsu-eprf", C=1000.0, gamma=4.0, P=5)(query, ranking, gallery)
    positives = np.argsort(-ranking.similarities, kind="stable")[:5]
    # Hard margins and a narrow kernel: every positive is a support vector with f = 1 in each of ten SVMs.
    np.testing.assert_allclose(reranked.scores[positives], 10.0, atol=1e-5)
    assert (np.diff(reranked.scores[positives]) < 0).all()


@pytest.mark.parametrize("closeness", [0.0, 0.5])
def test_the_best_of_a_short_answer_are_those_of_the_whole_list(closeness):
    vectors = clustered(4, 3000, 10)
    gallery = gallery_of(vectors)
    reranker = rerank.get("eprf", closeness=closeness, sure=0.85)
    moved = 0
    for query in vectors[:20] + np.float32(0.4):
        ranking = rank(query, gallery)
        short = rerank_top(reranker, query, ranking, gallery, 5)
        whole = rerank_top(reranker, query, ranking, gallery, 3000)
        assert short.numbers.tolist() == whole.numbers[:5].tolist()
        plain = rerank.get("eprf", closeness=closeness)(query, ranking, gallery).scores
        moved += int(np.argmax(plain) != whole.numbers[0])
    assert moved > 0


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 40))
def test_short_answers_by_stored_settings_are_the_head_of_the_paper_s_order(method, seed, k):
    """With a wide kernel and `closeness` only images that can be among the k best are scored."""
    vectors = clustered(seed, 500, 16)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    gallery, query = gallery_of(vectors), vectors[0] + vectors[1]
    query /= np.linalg.norm(query)
    ranking = rank(query, gallery)
    stored = PROJECTED_EPRF["fuzzy-eprf" if method == "fuzzy-eprf" else "eprf"] | {"sure": 0.0, "N": 30}
    reranker = rerank.get(method, **stored)
    hits = rerank_top(reranker, query, ranking, gallery, k)
    expected = np.array(reference(query, ranking, vectors, reranker.parameters, *METHODS[method]))
    tolerance = 1e-5 * max(reranker.parameters["C"], 1.0)
    best = -np.sort(-expected)[:k]
    np.testing.assert_allclose(hits.scores, best, rtol=0, atol=tolerance)
    np.testing.assert_allclose(expected[hits.numbers], best, rtol=0, atol=2 * tolerance)


def reranked(query: np.ndarray, gallery: Gallery, **parameters: float) -> np.ndarray:
    return rerank.get("fuzzy-eprf", **parameters)(query, rank(query, gallery), gallery).scores


def test_power_zero_is_the_ensemble_without_memberships():
    vectors = clustered(5, 400, 12)
    query, gallery = vectors[0] + np.float32(0.3), gallery_of(vectors)
    names = [name for name in rerank.get("svm-eprf").parameter_names() if name != "gamma"]
    fuzzy = rerank.get("fuzzy-eprf", gamma=2.0)
    same = {name: fuzzy.parameters[name] for name in names} | {"gamma": 2.0}
    plain = rerank.get("svm-eprf", **same)(query, rank(query, gallery), gallery).scores
    np.testing.assert_allclose(reranked(query, gallery, gamma=2.0, power=0.0), plain, atol=1e-6)


def test_memberships_are_spread_and_within_their_bounds():
    vectors = clustered(5, 40, 12)
    sets = TrainingSets.around_query(
        vectors[0], gallery_of(vectors), np.arange(1, 5), np.arange(5, 29).reshape(6, 4), 0.1
    )
    rho = np.array([0.9, 0.6, 0.09, -0.2])
    memberships = rerank.get("fuzzy-eprf", power=2.0).memberships(sets, rho)
    np.testing.assert_allclose(memberships, [1.0, 4 / 9, 0.01, 0.01])
    estimated = rerank.get("fuzzy-eprf", alpha=0.5).memberships(sets, rho)
    assert estimated.max() == 1.0
    assert (np.diff(estimated[:3]) < 0.0).all()
    assert rerank.get("fuzzy-eprf", power=0.0).memberships(sets, rho).tolist() == [1.0] * 4


def test_a_profile_tuned_for_the_published_form_does_not_reach_the_fuzzy_one():
    tuned = {"P": 9, "C": 10.0, "gamma": 2.0}
    assert rerank.get_tuned("fuzzy-eprf", tuned, {"N": 50}) == rerank.get("fuzzy-eprf", N=50)
    assert rerank.get_tuned("eprf", tuned, {}) == rerank.get("eprf", **tuned)


def test_settings_stored_for_eprf_reach_its_ablations_and_no_other_method():
    stored = {"N": 200, "eprf": {"N": 100, "P": 12, "sure": 0.85}}
    for name in ("eprf", "nsu-eprf", "svm-eprf"):
        assert rerank.get_tuned(name, stored, {"P": 3}) == rerank.get(name, N=100, P=3, sure=0.85)
    assert rerank.get_tuned("pearson", stored, {}) == rerank.get("pearson", N=200)
    for name in ("fuzzy-eprf", "diffusion", "nprf", "aqe"):
        assert rerank.get_tuned(name, stored, {}) == rerank.get(name)
