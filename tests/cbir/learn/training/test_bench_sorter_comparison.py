"""bench/sorter_comparison.py on made-up values, and intervals of means."""

import numpy as np
import pytest
from scipy import stats

from tests.benches import loaded


@pytest.fixture(scope="module")
def bench():
    return loaded("sorter_comparison")


@pytest.fixture(scope="module")
def task():
    """Values whose first direction grows with the grade."""
    random = np.random.default_rng(0)
    grades = np.arange(400) % 5
    values = random.normal(size=(400, 6)).astype(np.float32)
    values[:, 0] += grades
    rows = random.permutation(400)
    return values, grades, {"training": rows[:200], "validation": rows[200:300], "test": rows[300:]}


def test_every_loss_learns_the_grade(bench, task):
    names = ["eq. 4, handcrafted", "eq. 4, pairwise", "L1", "squared error"]
    losses = bench.losses()
    assert set(names) | {"eq. 4, lstm", "eq. 4, cnn"} == set(losses)
    for name in names:
        assert bench.learn(losses[name], *task, epochs=8, seed=0) > 0.6


def test_networks_of_one_seed_are_alike_and_start_untrained(bench, task):
    loss = bench.losses()["L1"]
    assert bench.learn(loss, *task, epochs=1, seed=0) == bench.learn(loss, *task, epochs=1, seed=0)
    assert bench.learn(loss, *task, epochs=1, seed=0) != bench.learn(loss, *task, epochs=1, seed=1)


def test_the_measure_is_of_the_test_images(bench, task):
    values, grades, parts = task
    turned = values.copy()
    turned[parts["test"]] *= -1
    assert bench.learn(bench.losses()["L1"], turned, grades, parts, epochs=4, seed=0) < -0.3


def test_table_has_the_difference_to_l1(bench, capsys):
    bench.table({"eq. 4, lstm": [0.5, 0.7], "L1": [0.4, 0.4]})
    best, rival = capsys.readouterr().out.splitlines()[1:]
    assert best.split()[:6] == ["eq.", "4,", "lstm", "0.600", "0.500", "0.700"]
    assert "+0.200 (" in best
    assert rival.split() == ["L1", "0.400", "0.400", "0.400"]


def test_interval_is_that_of_scipy():
    values = [0.1, 0.4, 0.35, 0.2]
    mean, low, high = loaded("intervals").mean_interval(values)
    expected = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (mean, low, high) == pytest.approx((np.mean(values), *expected))
