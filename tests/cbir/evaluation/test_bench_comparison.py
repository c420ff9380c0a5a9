"""Scores and comparison of bench/rerank_quality.py."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir import rerank
from cbir.evaluation import named_metrics
from cbir.evaluation.runs import Method
from cbir.rerank.reranker import POSITIVES
from tests.benches import loaded
from tests.cbir.evaluation.small import judged

bench = loaded("comparison")


@given(st.sets(st.integers(1, 15), min_size=1), st.integers(0, 5))
def test_values_are_those_of_the_named_measures(relevant_at, missed):
    answers, qrels = judged(relevant_at, len(relevant_at) + missed, 15)
    named = named_metrics.parse_metrics("AP P@1 P@10 IPrec@0.2 IPrec@0.4 IPrec@0.6 IPrec@0.8")
    expected = named_metrics.compute_metrics(named, answers, qrels)
    np.testing.assert_allclose(bench.score_matrix(answers, qrels), expected, atol=1e-12)


def test_every_re_ranker_has_valid_points_with_its_defaults_among_them():
    for name in rerank.names():
        tried = rerank.reranker_class(name).tuning_points()
        assert any(rerank.get(name, **point) == rerank.get(name) for point in tried)
        assert len({str(rerank.get(name, **point).parameters) for point in tried}) == len(tried)
        if "P" in rerank.reranker_class(name).parameter_names() and name != "auto":
            assert {point["P"] for point in tried} >= {*POSITIVES}


def trial(name, precision):
    """A trial whose measures all are `precision` (q,)."""
    return bench.MethodScores(
        Method(name, name), np.tile(precision, (len(bench.MEASURES), 1)), np.ones(len(precision))
    )


def test_the_best_by_mean_average_precision_is_chosen_and_the_first_of_equals():
    worse, first, second = (
        trial(name, [value, value]) for name, value in (("a", 0.3), ("b", 0.5), ("c", 0.5))
    )
    assert bench.best_by_map([worse, first, second]) is first


def contest():
    """60 queries in classes of 5 and of 300 images; "new" gains 0.1 in the small ones alone."""
    sizes = np.repeat([5, 300], 30)
    none = np.linspace(0.2, 0.6, 60)
    noise = 0.01 * np.cos(np.arange(60))
    runs = {"none": none, "old": none + 0.02 + noise, "new": none + 0.1 * (sizes < 10), "kin": none + 0.3}
    return bench.Comparison({name: trial(name, run) for name, run in runs.items()}, {}, sizes, 0)


def test_the_margin_is_that_over_the_best_rival():
    found = bench.lead_over_rival(contest(), "new", ["new", "kin"])
    assert found["rival"] == "old"
    margin = found["minus_rival"]["map"]
    assert margin["low"] < margin["mean"] < margin["high"]
    np.testing.assert_allclose(margin["mean"], 0.03, atol=1e-3)
    np.testing.assert_allclose(found["minus_none"]["map"]["mean"], 0.05)
    assert bench.lead_over_rival(contest(), "auto", ["auto"]) is None


def test_queries_are_split_by_the_size_of_their_class():
    small, large = contest().within(2, 10), contest().within(201, None)
    assert [len(part.sizes) for part in (small, large, contest().within(11, 50))] == [30, 30, 0]
    np.testing.assert_allclose(bench.lead_over_rival(small, "new", ["new"])["minus_none"]["map"]["mean"], 0.1)
    np.testing.assert_allclose(bench.lead_over_rival(large, "new", ["new"])["minus_none"]["map"]["mean"], 0.0)


@pytest.mark.slow
def test_facts_compare_with_the_first():
    found = bench.summarise_scores(contest().members, 0)
    assert "against_none" not in found["none"]
    assert found["old"]["against_none"]["map"]["p_holm"] < 0.01
    assert found["old"]["ip"].keys() == {"0.2", "0.4", "0.6", "0.8"}
    assert found["kin"]["map"] == found["kin"]["p_at_1"] == found["kin"]["ip"]["0.4"]
    low, high = found["none"]["intervals"]["map"]
    assert low < found["none"]["map"] < high
