"""Every measure against its definition, the literature's examples and other programs."""

from collections import Counter

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from sklearn.neighbors import KNeighborsClassifier

from cbir.errors import InvalidInput
from cbir.evaluation.named_metrics import check_metric_gains, compute_metrics, parse_metrics
from cbir.evaluation.qrels import BLOCK, JudgedBlock, RunMatrix, build_qrels
from cbir.evaluation.rank_metrics import (
    accuracy,
    average_precision,
    capped_precision,
    evaluate_vectors,
    knn_error,
    majority_vote,
    nmrr_depth,
    precision_of_retrieved,
)
from cbir.evaluation.relevance import parse_relevance as by
from tests.cbir.evaluation.small import ask, judged, pool


def measure(name, answers, judged_qrels):
    return float(compute_metrics(parse_metrics(name), answers, judged_qrels)[0, 0])


def test_medmnist_average_precision_divides_by_what_was_found():
    # Mahbod et al. 2024: relevant at 1, 2 and 4 of 5 answers
    answers, judged_qrels = judged({1, 2, 4}, total=10, depth=5)
    assert measure("mAP@5", answers, judged_qrels) == pytest.approx(0.9167, abs=5e-5)
    assert measure("AP@5", answers, judged_qrels) == pytest.approx((1 + 1 + 3 / 4) / 10)
    assert measure("mAP@1", answers, judged_qrels) == 1.0
    assert measure("mAP@3", *judged({5}, 1, 5)) == 0.0
    assert measure("mAP@9", answers, judged_qrels) == pytest.approx(0.9167, abs=5e-5)


@pytest.mark.parametrize(
    ("classes", "vote"),
    [
        (["own", "own", "own", "x", "x"], 1),
        (["x", "own", "x", "own", "y"], 1),  # tied, the true one among them
        (["x", "x", "own", "y", "y"], 0),
        (["x", "y", "own", "z", "w"], 1),  # all tied
        (["x", "y", "z", "w", "v"], 0),
        (["own"], 1),
    ],
)
def test_majority_vote(classes, vote):
    assert measure("mMV@5", *judged(set(), 5, len(classes), classes)) == vote


@pytest.mark.parametrize(
    ("relevant_at", "total", "k", "value"),
    [({1, 2}, 2, 5, 1.0), ({1, 3}, 2, 5, 0.5), ({1, 3}, 7, 5, 0.4), ({4}, 2, 3, 0.0), ({1, 2, 3}, 9, 3, 1.0)],
)
def test_capped_precision_reads_as_many_answers_as_there_are_relevant_images(relevant_at, total, k, value):
    # Denner et al. 2024: precision of the first min(k, images of the class)
    assert measure(f"cappedP@{k}", *judged(relevant_at, total, 5)) == pytest.approx(value)


def test_accuracy_is_a_hit_among_the_first():
    answers, judged_qrels = judged({3}, 4, 5)
    assert [measure(f"ACC@{k}", answers, judged_qrels) for k in (1, 2, 3, 5)] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("classes", "k", "error"),
    [
        (["own", "x", "x"], 1, 0),
        (["x", "own", "own"], 1, 1),
        (["x", "own", "own"], 3, 0),
        (["x", "own", "own", "x"], 4, 1),  # tied: the class of the nearest
        (["own", "x", "x", "own"], 4, 0),
        (["x", "y"], 5, 1),
    ],
)
def test_classification_error(classes, k, error):
    assert measure(f"kNNError@{k}", *judged(set(), 5, len(classes), classes)) == error


def test_classification_error_is_that_of_a_nearest_neighbour_classifier():
    random = np.random.default_rng(0)
    known, asked = random.normal(size=(60, 3)), random.normal(size=(25, 3))
    names = random.integers(0, 4, 60)
    truth = random.integers(0, 4, 25)
    order = np.argsort(np.linalg.norm(known[None] - asked[:, None], axis=2), axis=1).astype(np.int32)
    queries = [ask(str(n), {"label": str(label)}) for n, label in enumerate(truth)]
    judged_qrels = build_qrels(pool([{"label": str(label)} for label in names]), queries, by("label"))
    found = compute_metrics(parse_metrics("kNNError@1 kNNError@3"), RunMatrix(order), judged_qrels)
    predicted = KNeighborsClassifier(1).fit(known, names).predict(asked)
    assert found[0].mean() == pytest.approx((predicted != truth).mean())
    three = KNeighborsClassifier(3).fit(known, names)
    clear = np.sort(three.predict_proba(asked), axis=1)[:, -1] > 0.5  # the classifiers break ties differently
    np.testing.assert_array_equal(found[1][clear], (three.predict(asked) != truth)[clear])


def test_anmrr_of_hand_computed_queries():
    # NG = 4, one query: GTM = 4, K = min(16, 8) = 8
    assert measure("ANMRR", *judged({1, 2, 3, 4}, 4, 20)) == 0.0
    assert measure("ANMRR", *judged({9, 10, 11, 12}, 4, 20)) == 1.0
    # ranks 1, 3, 8 and one beyond K, which counts 1.25 * 8 = 10: AVR = 22/4 = 5.5
    assert measure("ANMRR", *judged({1, 3, 8, 9}, 4, 20)) == pytest.approx((5.5 - 2.5) / (10 - 2.5))
    # a run of three answers: what is not found counts as beyond K
    assert measure("ANMRR", *judged({1, 3}, 4, 3)) == pytest.approx(((1 + 3 + 10 + 10) / 4 - 2.5) / 7.5)


def test_anmrr_takes_k_from_the_largest_class():
    labels = [{"label": "big"}] * 10 + [{"label": "small"}] * 2
    queries = [ask("big", {"label": "big"}), ask("small", {"label": "small"})]
    judged_qrels = build_qrels(pool(labels), queries, by("label"))
    order = [*range(2, 10), 10, 0, 1, 11]  # big: 8 first ones, then places 10 and 11; small: 9 and 12
    found = compute_metrics(
        parse_metrics("ANMRR"), RunMatrix(np.array([order, order], np.int32)), judged_qrels
    )[0]
    big = (np.mean([1, 2, 3, 4, 5, 6, 7, 8, 10, 11]) - 5.5) / (1.25 * 20 - 5.5)  # K = min(40, 20)
    small = (1.25 * 8 - 1.5) / (1.25 * 8 - 1.5)  # K = min(8, 20) = 8: both lie beyond
    np.testing.assert_allclose(found, [big, small])


def test_average_precision_is_of_all_relevant_images_where_they_are_counted():
    hits = np.array([[True, False, True], [False, False, False], [True, True, True]])
    np.testing.assert_allclose(average_precision(hits), [(1 + 2 / 3) / 2, 0, 1])
    np.testing.assert_allclose(average_precision(hits, np.array([4, 2, 3])), [(1 + 2 / 3) / 4, 0, 1])


def test_interpolated_precision_by_hand():
    # Relevant at 1, 3, 10 of 4 there are: precisions 1, 2/3, 3/10 at recalls 0.25, 0.5, 0.75
    answers, judged_qrels = judged({1, 3, 10}, 4, 10)
    found = [
        measure(f"IPrec@{recall}", answers, judged_qrels) for recall in (0, 0.25, 0.3, 0.5, 0.75, 0.8, 1.0)
    ]
    np.testing.assert_allclose(found, [1, 1, 2 / 3, 2 / 3, 0.3, 0, 0])
    # 7 of 25 are a recall of 0.28, though 0.28 * 25 > 7 in floating point
    assert measure("IPrec@0.28", *judged(set(range(1, 8)), 25, 10)) == 1.0
    # A later precision may be higher: relevant at 2 and 3
    assert measure("IPrec@0.1", *judged({2, 3}, 2, 5)) == pytest.approx(2 / 3)


@st.composite
def runs(draw):
    """Candidates of a few classes and grades, queries and complete or cut-off answers in any order."""
    count = draw(st.integers(2, 30))
    labels = [
        {"label": draw(st.sampled_from("abc")), "grade": str(draw(st.integers(0, 3)))} for _ in range(count)
    ]
    many = draw(st.integers(1, 6))
    queries = [ask(str(n), labels[draw(st.integers(0, count - 1))]) for n in range(many)]
    depth = draw(st.integers(1, count))
    orders = [draw(st.permutations(range(count)))[:depth] for _ in queries]
    return pool(labels), queries, np.array(orders, np.int32)


TREC_EVAL = {
    "AP": "map", "AP@5": "map_cut_5", "P@1": "P_1", "P@10": "P_10", "R@5": "recall_5", "RR": "recip_rank",
    "Rprec": "Rprec", "nDCG": "ndcg", "nDCG@5": "ndcg_cut_5", "Success@5": "success_5",
} | {f"IPrec@{recall / 10}": f"iprec_at_recall_{recall / 10:.2f}" for recall in range(11)}  # fmt: skip


@given(runs(), st.sampled_from(["label", "label+grade"]))
def test_measures_of_trec_eval_by_their_names(drawn, text):
    among, queries, orders = drawn
    try:
        judged_qrels = build_qrels(among, queries, by(text))
    except InvalidInput:  # grades all alike
        return
    kept = [n for n, query in enumerate(queries) if query in judged_qrels.queries]
    found = compute_metrics(parse_metrics(" ".join(TREC_EVAL)), RunMatrix(orders[kept]), judged_qrels)
    qrels = {
        query.name: dict(zip(map(str, places.tolist()), gains.tolist(), strict=True))
        for query, places, gains in zip(
            judged_qrels.queries, judged_qrels.positions, judged_qrels.gains, strict=True
        )
    }
    run = {
        queries[n].name: {str(place): -float(at) for at, place in enumerate(orders[n].tolist())} for n in kept
    }
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, set(TREC_EVAL.values()), relevance_level=judged_qrels.level
    )
    theirs = evaluator.evaluate(run)
    expected = [[theirs[query.name][name] for query in judged_qrels.queries] for name in TREC_EVAL.values()]
    for name, ours, other in zip(TREC_EVAL, found, np.array(expected), strict=True):
        if name.startswith("IPrec"):  # trec_eval loses a relevant image to rounding: 0.7 * 3 + 0.9 < 3
            recall = round(10 * float(name.partition("@")[2]))
            right = [
                int(recall / 10 * n + 0.9) == -(-recall * n // 10) for n in judged_qrels.relevant.tolist()
            ]
            ours, other = ours[right], other[right]
        np.testing.assert_allclose(ours, other, atol=1e-6, err_msg=name)


@given(runs())
def test_votes_against_the_obvious_loops(drawn):
    among, queries, orders = drawn
    judged_qrels = build_qrels(among, queries, by("label"))
    found = compute_metrics(parse_metrics("mMV@5 kNNError@5 mAP@5 ACC@5"), RunMatrix(orders), judged_qrels)
    for number, query in enumerate(queries):
        votes = [among.records[place].labels["label"] for place in orders[number][:5]]
        own = query.labels["label"]
        counts = Counter(votes)
        winners = {label for label, count in counts.items() if count == max(counts.values())}
        assert found[0, number] == (own in winners)
        assert found[1, number] == (next(vote for vote in votes if vote in winners) != own)
        hits = [vote == own for vote in votes]
        expected = average_precision_score(hits, -np.arange(len(hits))) if any(hits) else 0.0
        assert found[2, number] == pytest.approx(expected)
        assert found[3, number] == any(hits)


def test_unjudged_answers_neither_vote_nor_count():
    among = pool([{}, {}, {"label": "a"}, {"label": "b"}])
    judged_qrels = build_qrels(among, [ask("q", {"label": "a"})], by("label"))
    answers = RunMatrix(np.array([[0, 1, 2, 3]], np.int32))
    assert measure("kNNError@3", answers, judged_qrels) == 0
    assert measure("mMV@3", answers, judged_qrels) == 1
    assert measure("P@2", answers, judged_qrels) == 0


def test_missing_answers_are_missing():
    among = pool([{"label": "a"}] * 3)
    judged_qrels = build_qrels(among, [ask("q", {"label": "a"}), ask("r", {"label": "a"})], by("label"))
    answers = RunMatrix(np.array([[-1, -1, -1], [2, -1, -1]], np.int32))
    names = "AP P@1 mAP@2 mMV@2 ACC@2 kNNError@2 ANMRR IPrec@0"
    none, one = compute_metrics(parse_metrics(names), answers, judged_qrels).T
    np.testing.assert_allclose(none, [0, 0, 0, 0, 0, 1, 1, 0])
    np.testing.assert_allclose(one[:6], [1 / 3, 1, 1, 1, 1, 0])


def test_many_queries_are_evaluated_in_pieces():
    among = pool([{"label": "a"}, {"label": "b"}])
    queries = [ask(str(n), {"label": "ab"[n % 2]}) for n in range(2 * BLOCK + 3)]
    judged_qrels = build_qrels(among, queries, by("label"))
    answers = RunMatrix(np.tile(np.array([0, 1], np.int32), (len(queries), 1)))
    found = compute_metrics(parse_metrics("P@1 ACC@1 AP"), answers, judged_qrels)
    expected = [1.0 - n % 2 for n in range(len(queries))]
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], expected)
    np.testing.assert_allclose(found[2], [1 / (1 + n % 2) for n in range(len(queries))])


def test_graded_measures_use_the_level():
    labels = [{"grade": grade} for grade in ("2", "1", "0")]
    answers = RunMatrix(np.array([[1, 0, 2]], np.int32))
    query = [ask("q", {"grade": "2"})]
    strict, lenient = (
        build_qrels(pool(labels), query, by("grade")),
        build_qrels(pool(labels), query, by("grade"), level=1),
    )
    assert (measure("P@1", answers, strict), measure("P@1", answers, lenient)) == (0, 1)
    assert measure("P(rel=1)@1", answers, strict) == 1
    assert measure("ACC@1", answers, strict) == 0
    ideal = 2 / np.log2(2) + 1 / np.log2(3)
    assert measure("nDCG", answers, strict) == pytest.approx((1 / np.log2(2) + 2 / np.log2(3)) / ideal)


@pytest.mark.parametrize(
    "name",
    ["", "magic", "P", "P@0", "ACC", "ACC@0", "mAP@x", "ANMRR@5", "IPrec@2", "Bpref", "infAP", "NumRet", "Judged@10",
     "AP(judged_only=True)", "alpha_nDCG@10", "AP@", "mMV@-1", "kNNError@1.5"],
)  # fmt: skip
def test_unknown_measures_are_named(name):
    with pytest.raises(InvalidInput, match=r"measure|ANMRR"):
        parse_metrics(name)


def test_gains_that_a_measure_does_not_know_are_refused():
    for name in ("ERR@10", "nDCG(dcg='exp-log2')@10"):
        check_metric_gains(parse_metrics(name), 4)
        with pytest.raises(InvalidInput, match="gains up to 4"):
            check_metric_gains(parse_metrics(name), 5)
    check_metric_gains(parse_metrics("nDCG@10 AP ANMRR"), 100)


def test_err_up_to_the_largest_gain_it_knows():
    labels = [{"grade": grade} for grade in "43210"]
    judged_qrels = build_qrels(pool(labels), [ask("q", {"grade": "4"})], by("grade"))
    answers = RunMatrix(np.array([[1, 0, 2, 3, 4]], np.int32))
    stops = (2.0 ** np.array([3, 4, 2, 1, 0]) - 1) / 16
    going_on = np.cumprod(np.append(1, 1 - stops[:-1]))
    assert measure("ERR@5", answers, judged_qrels) == pytest.approx(
        (going_on * stops / np.arange(1, 6)).sum(), abs=1e-4
    )


def test_which_measures_are_better_low():
    assert [m.lower_is_better for m in parse_metrics("AP ANMRR kNNError@1 ACC@1")] == [
        False,
        True,
        True,
        False,
    ]
    assert [m.name for m in parse_metrics("AP P@1 AP")] == ["AP", "P@1"]
    assert [m.name for m in parse_metrics("AP, P@1,nDCG(dcg='log2', gains={1:3})@5")][:2] == ["AP", "P@1"]


@pytest.mark.parametrize("grouped", [False, True])
def test_vectors_are_evaluated_as_by_plain_loops(grouped):
    """300 queries, so more than a block; classes 7 and 8 have no image to be found."""
    random = np.random.default_rng(0)
    gallery, queries = (random.standard_normal((count, 3)).astype(np.float32) for count in (60, 300))
    gallery *= random.uniform(0.2, 3, (60, 1)).astype(np.float32)  # lengths matter to Euclidean distances
    labels, query_labels = random.integers(0, 7, 60), random.integers(0, 9, 300)
    groups, query_groups = random.integers(0, 25, 60), random.integers(0, 25, 300)
    given = (query_groups, groups) if grouped else ()
    found = evaluate_vectors(queries, query_labels, gallery, labels, *given)
    measures = []
    for query, label, group in zip(queries, query_labels, query_groups, strict=True):
        order = np.argsort(np.linalg.norm(gallery - query, axis=1))
        order = order[groups[order] != group] if grouped else order
        hits = labels[order] == label
        if hits.any():
            precision = average_precision_score(hits, -np.arange(len(hits)))
            measures.append((precision, hits[0], hits[:10].mean()))
        else:
            measures.append((np.nan, np.nan, np.nan))
    np.testing.assert_allclose(found.ap, [each[0] for each in measures])
    np.testing.assert_allclose((found.map, found.p_at_1, found.p_at_10), np.nanmean(measures, axis=0))
    assert 0 < np.isnan(found.ap).sum() < 300


def test_vectors_far_from_the_origin_are_evaluated_alike():
    random = np.random.default_rng(0)
    labels, rows = random.integers(0, 5, 200), np.arange(200)
    vectors = np.rint(random.normal(size=(200, 8)) * 64 + 32 * np.eye(8)[labels]).astype(np.float32) / 64
    near, far = (
        evaluate_vectors(each, labels, each, labels, rows, rows)
        for each in (vectors, vectors + np.float32(1000))
    )
    np.testing.assert_allclose(far.ap, near.ap)


def test_the_precision_of_few_vectors_is_of_ten_answers():
    vectors = np.arange(4.0, dtype=np.float32)[:, None]
    found = evaluate_vectors(vectors[:1], np.zeros(1, int), vectors, np.array([0, 1, 0, 1]))
    assert (found.p_at_1, found.p_at_10) == (1.0, 0.2)
    assert np.isnan(evaluate_vectors(vectors, np.zeros(4, int), vectors[:0], np.zeros(0, int)).map)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({0: np.ones(3)}, r"queries are vectors \(n, d\), not the shape \(3,\)"),
        ({0: np.ones((2, 2))}, "queries have 2 columns and the gallery 3"),
        ({1: np.zeros(3, int)}, "queries: 2 vectors need as many labels"),
        ({3: np.zeros(2, int)}, "gallery: 4 vectors need as many labels"),
        ({4: np.zeros(2, int)}, "give those of queries and gallery"),
        ({4: np.zeros(3, int), 5: np.zeros(4, int)}, "queries: 2 vectors need as many labels and groups"),
        ({0: np.full((2, 3), np.nan)}, "queries: 2 of 2 vectors are not finite"),
        ({2: np.full((4, 3), np.inf)}, "gallery: 4 of 4 vectors are not finite"),
    ],
)
def test_vectors_that_cannot_be_evaluated_are_refused(changed, message):
    given = [np.ones((2, 3)), np.zeros(2, int), np.ones((4, 3)), np.zeros(4, int), None, None]
    with pytest.raises(InvalidInput, match=message):
        evaluate_vectors(*(changed.get(place, each) for place, each in enumerate(given)))


@pytest.mark.parametrize("k", [0, -1, 2.5])
@pytest.mark.parametrize(
    "metric", [capped_precision, precision_of_retrieved, majority_vote, accuracy, knn_error]
)
def test_a_cutoff_that_is_no_number_of_answers_is_refused(metric, k):
    hits = np.ones((1, 3), bool)
    block = JudgedBlock(hits.astype(int), hits, hits.astype(int), np.ones(1, int), np.array([3]), 3)
    with pytest.raises(InvalidInput, match="k: a whole number, at least 1"):
        metric(block, k)
    assert metric(block, np.int64(2)).shape == (1,)


def test_without_an_answer_a_class_is_missed():
    _, judged_qrels = judged({1}, 2, 3)
    nothing = RunMatrix(np.empty((1, 0), np.int32))
    assert measure("kNNError@3", nothing, judged_qrels) == 1.0
    assert [measure(name, nothing, judged_qrels) for name in ("mMV@3", "ACC@3", "AP", "cappedP@2")] == [
        0,
        0,
        0,
        0,
    ]


def test_the_depth_of_nmrr_is_four_times_the_relevant_or_twice_the_most():
    """min(4 NG, 2 GTM), of ISO/IEC 15938-8."""
    assert nmrr_depth(np.array([1, 3, 5, 10])).tolist() == [4, 12, 20, 20]
    assert nmrr_depth(np.array([1, 3]), most_relevant=10).tolist() == [4, 12]
