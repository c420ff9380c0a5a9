"""Feedback: the SVMs against LIBSVM, the flow against a dense solution, and the person's word above both."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import SVC

from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery, merge_nearest, rank, top_k
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import Neighbourhood
from cbir.rerank import query_list
from cbir.rerank.diffusion import RelevanceFeedback, SeededDiffusion
from cbir.rerank.feedback import Feedback, apply_judgements


def clusters(n: int, d: int = 6, kinds: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    kind = random.integers(0, kinds, n)
    centres = random.standard_normal((kinds, d)) * 1.2
    return (centres[kind] + random.standard_normal((n, d))).astype(np.float32), kind


def plain(vectors: np.ndarray) -> Gallery:
    return Gallery((np.ascontiguousarray(vectors, np.float32),), np.arange(len(vectors)))


def joined(vectors: np.ndarray) -> Gallery:
    """With a graph, as a collection with a snapshot has it."""
    created = plain(vectors)
    return Gallery(created.blocks, created.ids, (), Neighbourhood(find_neighbours(vectors, created.space)))


def judged(said: dict[int, float]) -> RelevanceFeedback:
    return RelevanceFeedback(np.array(list(said), np.int64), np.array(list(said.values()), np.float64))


def reference(
    examples: np.ndarray, said: dict[int, float], vectors: np.ndarray, learner: Feedback, sample: np.ndarray
) -> np.ndarray:
    """Without a flow: one LIBSVM model at a time, example by example; `sample` is as the whole list is."""
    gallery = plain(vectors)
    similarity = merge_nearest([rank(one, gallery) for one in examples]).similarities.astype(np.float64)
    in_order = sorted(range(len(vectors)), key=lambda i: (-similarity[i], i))
    relevant = [i for i, r in said.items() if r > 0]
    irrelevant = [i for i, r in said.items() if r < 0]
    filled = [i for i in in_order if i not in said][: max(learner.P - len(relevant), 0)]
    others = np.array([i for i in sample if i not in said and i not in filled])
    centre = examples.mean(axis=0, dtype=np.float32)
    negative_sets = query_list.draw_negatives(
        centre, similarity[others], P=learner.M, sets=learner.T, lowest=learner.lowest, seed=learner.seed
    )
    total = np.zeros(len(vectors))
    for svm in negative_sets:
        rows = [*relevant, *filled, *irrelevant, *others[svm]]
        training = np.vstack([examples, vectors[rows]]).astype(np.float64)
        count = len(examples) + len(relevant) + len(filled)
        labels = np.where(np.arange(len(training)) < count, 1, -1)
        weights = (
            [1.0] * len(examples)
            + [abs(said[i]) for i in relevant]
            + [learner.trust] * len(filled)
            + [abs(said[i]) for i in irrelevant]
            + [learner.distrust] * negative_sets.shape[1]
        )
        gamma = 5 / np.median(np.linalg.norm(vectors[sample] - centre, axis=1)) ** 2
        svc = SVC(C=learner.C, gamma=gamma, tol=1e-8)
        svc.fit(training, labels, sample_weight=weights)
        total += svc.decision_function(vectors.astype(np.float64))
    return total / learner.T


@pytest.mark.parametrize("said", [{}, {3: 1.0}, {3: 1.0, 8: -1.0}, {3: 0.5, 8: -0.25, 11: 1.0, 20: -1.0}])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("sample", [None, np.arange(1, 120, 4)])
@pytest.mark.parametrize("C", [10.0, 0.2])
def test_svms_are_those_of_libsvm(said, count, sample, C):
    """Negatives and the width of the kernel are of the sample where the list is the head of a longer one.

    With the smaller penalty most multipliers reach their bounds, where memberships act.
    """
    vectors, _ = clusters(120)
    examples = vectors[:count] + np.float32(0.05)
    learner = Feedback(flow=0.0, M=10, C=C)
    gallery = plain(vectors)
    ranking = replace(merge_nearest([rank(one, gallery) for one in examples]), sample=sample)
    scores = learner(examples, judged(said), ranking, gallery).scores
    evenly = np.arange(120) if sample is None else sample
    np.testing.assert_allclose(scores, reference(examples, said, vectors, learner, evenly), atol=2e-3)


def test_flow_is_the_solution_of_its_equation():
    vectors, _ = clusters(80)
    gallery = joined(vectors)
    graph, _ = gallery.neighbourhood.covering(gallery)
    start = np.zeros(len(graph), np.float32)
    start[[2, 5]] = 1.0, 0.5
    arrived = SeededDiffusion(steps=400).flow_from(graph, start, np.ones(len(graph), bool))
    root = np.sqrt(graph.degrees)
    transition = graph.weights.toarray() / root[:, None] / root
    exact = np.linalg.solve(np.eye(80) - 0.9 * transition, 0.1 * start)
    np.testing.assert_allclose(arrived, exact, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("make", [plain, joined])
def test_judgements_improve_the_rest_of_the_list(make):
    vectors, kind = clusters(600, kinds=6, seed=3)
    gallery = make(vectors)
    before, after = [], []
    for query in range(20):
        ranking = rank(vectors[query], gallery, np.delete(np.arange(600), query))
        first = Feedback()(vectors[[query]], judged({}), ranking, gallery).scores
        top = ranking.rows[top_k(first, 20)]
        said = judged({int(row): 1.0 if kind[row] == kind[query] else -1.0 for row in top})
        second = Feedback()(vectors[[query]], said, ranking, gallery).scores
        free = ~np.isin(ranking.rows, top)
        hit = kind[ranking.rows[free]] == kind[query]
        before.append(hit[top_k(first[free], 40)].mean())
        after.append(hit[top_k(second[free], 40)].mean())
    assert np.mean(after) > np.mean(before)


def test_the_person_decides_whatever_was_learnt():
    rows = np.arange(0, 20, 2)
    scores = np.linspace(-3.0, 5.0, 10)
    said = judged({0: 1.0, 2: 0.4, 18: -1.0, 16: -0.2, 5: 1.0})  # 5 is not in the list
    order = rows[top_k(apply_judgements(scores, said, rows), 10)].tolist()
    assert order == [0, 2, 14, 12, 10, 8, 6, 4, 16, 18]
    assert apply_judgements(scores, judged({}), rows) is scores
    close = judged({0: 0.50005, 18: 0.5, 2: -0.5, 16: -0.50005})  # the later, the higher the learned score
    assert rows[top_k(apply_judgements(np.arange(10.0), close, rows), 10)].tolist()[:2] == [0, 18]
    assert rows[top_k(apply_judgements(np.arange(10.0), close, rows), 10)].tolist()[-2:] == [2, 16]
    assert len(apply_judgements(np.empty(0), said, np.empty(0, np.int64))) == 0


@pytest.mark.parametrize("make", [plain, joined])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 12, 60])
def test_few_images_and_images_all_alike(make, n):
    for vectors in (clusters(n)[0], np.ones((n, 6), np.float32)):
        gallery = make(vectors)
        ranking = rank(vectors[0], gallery)
        for said in ({}, {0: 1.0}, {n - 1: -1.0}, dict.fromkeys(range(n), -1.0)):
            scores = Feedback()(vectors[:1], judged(said), ranking, gallery).scores
            assert scores.shape == (n,)
            assert np.isfinite(scores).all()


def test_judged_images_outside_the_list_are_learnt_from():
    vectors, kind = clusters(300, seed=5)
    gallery, rows = joined(vectors), np.arange(200)
    ranking = rank(vectors[0], gallery, rows)
    outside = judged({200 + int(i): -1.0 for i in np.flatnonzero(kind[200:] != kind[0])[:10]})
    told = Feedback()(vectors[:1], outside, ranking, gallery).scores
    assert not np.allclose(told, Feedback()(vectors[:1], judged({}), ranking, gallery).scores)


def test_same_question_same_answer():
    vectors, _ = clusters(500)
    gallery = joined(vectors)
    ranking, said = rank(vectors[0], gallery), judged({4: 1.0, 9: -0.5})
    one, other = (Feedback()(vectors[:1], said, ranking, gallery).scores for _ in range(2))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("wrong", [{"P": -1}, {"M": 0}, {"trust": 0}, {"C": 0}, {"gamma": "x"}, {"T": 21}])
def test_parameters_out_of_range(wrong):
    with pytest.raises(InvalidInput, match="must be"):
        Feedback(**wrong)


def test_flow_counts_by_its_share_in_the_flow_from_all_judged_images():
    vectors, _ = clusters(80)
    gallery = joined(vectors)
    graph, _ = gallery.neighbourhood.covering(gallery)
    ranking, diffusion = rank(vectors[0], gallery), SeededDiffusion()
    relevant = diffusion.log_flow(vectors[:1], judged({3: 1.0}), ranking, gallery)
    both = diffusion.log_flow(vectors[:1], judged({3: 1.0, 8: -0.5}), ranking, gallery)
    start = np.where(np.arange(len(graph)) == 8, np.float32(0.5), np.float32(0))
    against = diffusion.flow_from(graph, start, np.ones(len(graph), bool))[:80]
    assert (both <= relevant).all()
    assert int(np.argmin(both - relevant)) == 8
    share = np.exp(both - relevant)  # f / (f + against), f the flow from relevant images
    reached = against > 1e-4
    flow = (share / (1 - share) * against)[reached]
    assert np.ptp(np.log(flow) - relevant[reached]) < 0.05, "which is the first part of the score"


def test_flow_needs_a_graph_and_half_of_its_images():
    vectors, _ = clusters(80)
    linked = joined(vectors)
    cases = (linked, 40, True), (linked, 39, False), (linked, 0, False), (plain(vectors), 80, False)
    for gallery, listed, flows in cases:
        ranking = rank(vectors[0], gallery, np.arange(listed))
        logs = SeededDiffusion().log_flow(vectors[:1], judged({}), ranking, gallery)
        assert (logs is not None) is flows


def test_among_equal_judgements_the_learned_score_decides():
    rows, scores = np.arange(6), np.array([0.1, 0.9, 0.5, 0.3, -2.0, 5.0])
    said = judged({0: 1.0, 1: 1.0, 2: 0.9, 3: -1.0, 5: -1.0})
    assert top_k(apply_judgements(scores, said, rows), 6).tolist() == [1, 0, 2, 4, 5, 3]


def test_flow_from_several_examples_and_judged_images_is_that_of_dense_steps():
    """Each example counts as one, judged images as their relevance; only listed and judged images pass it on."""
    vectors, _ = clusters(90)
    gallery, examples = joined(vectors), clusters(2, seed=9)[0] * np.float32([[0.2], [2.0]])
    listed, said = np.arange(70), {3: 1.0, 75: 0.8, 8: -0.5, 80: -1.0}
    graph, _ = gallery.neighbourhood.covering(gallery)
    allowed = np.isin(np.arange(90), [*listed, *said])
    units, _ = gallery.space.transform(vectors)
    start = np.zeros(90)
    for unit in gallery.space.transform(examples)[0]:
        squared = np.where(allowed, ((units - unit) ** 2).sum(axis=1), np.inf).astype(np.float32)
        edges = graph.edges(squared)
        joins = np.divide(edges, np.sqrt(graph.degrees + edges), where=edges > 0, out=np.zeros(90))
        start += joins / joins.sum()
    against = np.zeros(90)
    for row, relevance in said.items():
        (start if relevance > 0 else against)[row] += abs(relevance)
    root = np.sqrt(graph.degrees)
    transition = allowed[:, None] * graph.weights.toarray() * allowed / np.outer(root, root)

    def arrived(source: np.ndarray) -> np.ndarray:
        flow = 0.1 * source
        for _ in range(20):
            flow = 0.9 * transition @ flow + 0.1 * source
        return flow[listed]

    relevant, irrelevant = arrived(start), arrived(against)
    expected = np.log(relevant / relevant.max() + 1e-6)
    expected += np.log((relevant + 1e-6) / (relevant + irrelevant + 1e-6))
    ranking = merge_nearest([rank(example, gallery, listed) for example in examples])
    found = SeededDiffusion().log_flow(examples, judged(said), ranking, gallery)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
