"""Figures of reader studies against independent references and slow forms."""

import numpy as np
import pytest
from scipy import stats

from service.features.annotate.active.annotator_agreement import krippendorff_alpha
from service.features.annotate.reader_study.reader_results import (
    alpha_with_interval,
    answer_tables,
    kappas,
    mean_of_readers,
    query_preference,
    reader_study_results,
    relevance_units,
)
from service.features.annotate.reader_study.routes import reader_schedule
from service.features.annotate.reader_study.tables import ReaderAnswer, ReaderStudy, StudyItem

NAN = np.nan


def answer(reader, item, preference, *, a=3, b=3, a_left=True, relevant=None, seconds=10.0):
    return ReaderAnswer(reader, item, a, b, preference, a_left, relevant or {}, "", seconds)


STUDY = ReaderStudy("s", "col", "none", "eprf", 3, 4, 2, True, 5, b"key")
ITEMS = [StudyItem(1, "q1", ("x", "y"), ("y", "z")), StudyItem(2, "q2", ("x",), ("x",))]


def test_the_mean_and_its_interval_are_those_of_drawn_readers_and_queries():
    generator = np.random.default_rng(0)
    table = generator.integers(-1, 2, (4, 15)).astype(float)
    table[0, :3] = NAN
    facts = mean_of_readers(table)
    means = []
    for _ in range(4000):
        rows, columns = generator.integers(0, 4, 4), generator.integers(0, 15, 15)
        means.append(np.nanmean(table[np.ix_(rows, columns)]))
    assert facts.mean == pytest.approx(np.nanmean(table))
    assert (facts.low, facts.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.04)


def test_of_one_reader_only_queries_are_drawn():
    values = np.random.default_rng(1).normal(0.3, 1, 30)
    facts = mean_of_readers(values[None, :])
    reference = stats.bootstrap((values,), np.mean, method="percentile", rng=np.random.default_rng(2))
    assert (facts.low, facts.high) == pytest.approx(tuple(reference.confidence_interval), abs=0.03)


def test_readers_who_differ_widen_the_interval():
    same = np.tile(np.where(np.arange(20) % 2, 1.0, -1.0), (4, 1))
    differ = np.repeat([[1.0], [1.0], [-1.0], [-1.0]], 20, axis=1)
    widths = [facts.high - facts.low for facts in map(mean_of_readers, (same, differ))]
    assert widths[1] > 1.3 * widths[0]


def test_p_does_not_shrink_when_readers_repeat_each_other():
    once = np.random.default_rng(3).normal(0.4, 1, (1, 20))
    assert mean_of_readers(np.repeat(once, 6, axis=0)).p == mean_of_readers(once).p


def test_p_is_that_of_a_permutation_test_of_the_queries():
    table = np.random.default_rng(4).normal(0.4, 1, (3, 12))
    means = table.mean(axis=0)
    reference = stats.permutation_test(
        (means,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=10_000, vectorized=True,
        rng=np.random.default_rng(5),
    )  # fmt: skip
    assert mean_of_readers(table).p == pytest.approx(reference.pvalue, abs=0.02)


def test_queries_are_decided_by_the_majority():
    table = np.array([[1, 1, -1, 0, NAN], [1, -1, -1, 0, 1], [0, NAN, 1, 0, NAN]])
    counts = query_preference(table)  # sums 2, 0, -1, 0, 1
    assert (counts["a"], counts["equal"], counts["b"]) == (1, 2, 2)
    z, p, n = stats.norm.ppf(0.975), 2 / 3, 3
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert (counts["low"], counts["high"]) == pytest.approx((centre - half, centre + half))


def test_the_sign_test_and_wilson_interval_are_those_of_statsmodels():
    from statsmodels.stats.descriptivestats import sign_test
    from statsmodels.stats.proportion import proportion_confint

    table = np.array([[1.0] * 14 + [-1.0] * 5 + [0.0] * 6])
    counts = query_preference(table)
    assert counts["p"] == pytest.approx(sign_test(table[0])[1])
    assert (counts["low"], counts["high"]) == pytest.approx(proportion_confint(14, 19, method="wilson"))


def test_only_ties_leave_no_share():
    counts = query_preference(np.zeros((2, 3)))
    assert (counts["equal"], counts["share_b"], counts["p"]) == (3, None, None)


def test_alpha_is_that_of_krippendorffs_example():
    """Krippendorff (2011), section C: four observers, twelve units, nominal alpha .743, ordinal .815."""
    table = np.array(
        [[1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN], [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
         [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN], [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN]]
    )  # fmt: skip
    units = [table[:, [unit]] for unit in range(12)]
    for level, alpha in (("nominal", 0.743), ("ordinal", 0.815)):
        facts = alpha_with_interval(units, level)
        assert facts["alpha"] == pytest.approx(alpha, abs=5e-4)
        assert facts["low"] < alpha < facts["high"] <= 1


def test_alpha_approaches_the_kappa_of_fleiss():
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    generator = np.random.default_rng(6)
    truth = generator.integers(-1, 2, 300)
    table = np.where(generator.random((3, 300)) < 0.6, truth, generator.integers(-1, 2, (3, 300))).astype(
        float
    )
    kappa = fleiss_kappa(aggregate_raters(table.T.astype(int))[0])
    alpha = alpha_with_interval([table[:, [q]] for q in range(300)], "nominal")["alpha"]
    assert alpha == pytest.approx(kappa, abs=0.002)


def test_alpha_of_one_reader_or_equal_answers_is_undefined():
    for table in (np.array([[1.0, 2.0]]), np.ones((2, 4))):
        facts = alpha_with_interval([table], "ordinal")
        assert facts == {"alpha": None, "low": None, "high": None}
    assert alpha_with_interval([], "ordinal")["alpha"] is None


def test_kappas_are_those_of_scikit_learn_on_shared_items():
    from sklearn.metrics import cohen_kappa_score

    table = np.random.default_rng(7).integers(-1, 2, (2, 40)).astype(float)
    table[0, :4], table[1, 30] = NAN, NAN
    (pair,) = kappas([1, 3], table)
    both = [q for q in range(4, 40) if q != 30]
    assert (pair["one"], pair["other"], pair["items"]) == (1, 3, 35)
    assert pair["kappa"] == pytest.approx(cohen_kappa_score(table[0, both], table[1, both]))
    assert pair["equal"] == np.mean(table[0, both] == table[1, both])


def test_tables_have_nan_for_missing_answers():
    people, items, tables = answer_tables([answer(1, 4, 1, a=2, b=5), answer(3, 2, -1)])
    assert (people, items) == ([1, 3], [2, 4])
    np.testing.assert_array_equal(tables["preference"], [[NAN, 1], [-1, NAN]])
    np.testing.assert_array_equal(tables["useful_b"], [[NAN, 5], [3, NAN]])


def test_relevance_of_an_item_is_a_table_of_its_judged_images():
    answers = [answer(1, 1, 0, relevant={"x": True, "y": False}), answer(2, 1, 0, relevant={"y": True})]
    (unit,) = relevance_units([*answers, answer(1, 2, 0)], [1, 2])
    np.testing.assert_array_equal(unit, [[1, 0], [NAN, 1]])


# Order and sides


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_a_schedule_has_every_item_once_and_each_side_half_of_the_time(count):
    schedule = reader_schedule(3, 2, count)
    assert sorted(item for item, _ in schedule) == list(range(count))
    left = sum(a_left for _, a_left in schedule)
    assert abs(2 * left - count) <= 1
    assert schedule == reader_schedule(3, 2, count)


def test_schedules_differ_between_readers_and_seeds():
    schedules = {str(reader_schedule(seed, reader, 40)) for seed in (0, 1) for reader in (1, 2, 3)}
    assert len(schedules) == 6


def test_the_side_tells_nothing_of_the_item():
    lefts = np.zeros(10)
    for reader in range(400):
        for item, a_left in reader_schedule(0, reader, 10):
            lefts[item] += a_left
    assert (np.abs(lefts / 400 - 0.5) < 0.1).all()


# Results


def test_results_by_hand():
    answers = [
        answer(1, 1, 1, a=2, b=4, a_left=True, relevant={"x": True, "y": True, "z": False}),
        answer(2, 1, 1, a=1, b=2, a_left=False, relevant={"x": False, "z": True}),
        answer(1, 2, -1, a=5, b=4, a_left=True),
    ]
    results = reader_study_results(STUDY, ITEMS, answers)
    preference = results["preference"]
    assert (preference["a"], preference["equal"], preference["b"]) == (1, 0, 2)
    assert preference["net"]["mean"] == pytest.approx(1 / 3)
    assert results["usefulness"]["a"] == pytest.approx(8 / 3)
    assert results["usefulness"]["difference"]["mean"] == pytest.approx((2 + 1 - 1) / 3)
    assert results["same_answers"] == 1
    relevant = results["relevant"]
    assert (relevant["a"], relevant["judged_a"]) == (pytest.approx(2 / 3), 3)  # x yes, y yes, x no
    assert (relevant["b"], relevant["judged_b"]) == (pytest.approx(2 / 3), 3)  # y yes, z no, z yes
    # Right (b), left (b), left (a).
    assert (results["side"]["left"], results["side"]["right"]) == (2, 1)
    assert [row["answers"] for row in results["by_reader"]] == [2, 1]


def test_results_without_answers():
    results = reader_study_results(STUDY, ITEMS, [])
    assert results["answers"] == 0
    assert results["preference"]["net"]["mean"] is None
    assert results["usefulness"]["a"] is None
    assert results["by_reader"] == []


def test_a_clear_preference_is_found_and_none_is_not_made_up():
    generator = np.random.default_rng(8)
    clear = np.where(generator.random((3, 40)) < 0.8, 1.0, -1.0)
    assert mean_of_readers(clear).low > 0
    excluded = 0
    for _ in range(20):
        readers = generator.choice([-1.0, 0.0, 1.0], (3, 25))
        facts = mean_of_readers(readers)
        excluded += not facts.low <= 0 <= facts.high
    assert excluded <= 2


@pytest.mark.parametrize("level", ["nominal", "ordinal"])
def test_the_interval_of_alpha_is_that_of_drawn_queries(level):
    generator = np.random.default_rng(4)
    units = [generator.integers(1, 5, (3, 2)).astype(float) for _ in range(6)]
    units[0][1] = NAN
    facts = alpha_with_interval(units, level, seed=7)
    drawn = np.random.default_rng(7).integers(0, 6, (1000, 6))
    alphas = [
        krippendorff_alpha(np.concatenate([units[row] for row in rows], axis=1), level) for rows in drawn
    ]
    assert facts["alpha"] == pytest.approx(krippendorff_alpha(np.concatenate(units, axis=1), level))
    assert (facts["low"], facts["high"]) == pytest.approx(tuple(np.quantile(alphas, [0.025, 0.975])))
