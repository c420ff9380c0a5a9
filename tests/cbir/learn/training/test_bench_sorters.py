"""bench/sorter_figures.py: the structured hinge loss, and the figures on a few steps."""

import itertools
import sys

import numpy as np
import pytest
import torch

from tests.benches import loaded


@pytest.fixture(scope="module")
def bench():
    return loaded("sorter_figures")


def slow_hinge(scores, relevant):
    """Try every ranking that keeps the order by score within relevant and within other images."""
    s = sorted((x for x, is_relevant in zip(scores, relevant, strict=True) if is_relevant), reverse=True)
    t = sorted((x for x, is_relevant in zip(scores, relevant, strict=True) if not is_relevant), reverse=True)
    m, n = len(s), len(t)

    def value(places):
        precision = np.mean([(number + 1) / (place + 1) for number, place in enumerate(places)])
        others = [place for place in range(m + n) if place not in places]
        pairs = [
            (1 if a < b else -1) * (x - y)
            for a, x in zip(places, s, strict=True)
            for b, y in zip(others, t, strict=True)
        ]
        return 1 - precision + np.mean(pairs)

    best = value(tuple(range(m)))
    return max(value(places) for places in itertools.combinations(range(m + n), m)) - best


@pytest.mark.parametrize("seed", range(8))
def test_hinge_is_the_maximum_over_rankings(bench, seed):
    scores = torch.randn(8, generator=torch.Generator().manual_seed(seed))
    relevant = torch.arange(8) % 8 < 2 + seed % 4
    expected = slow_hinge(scores.tolist(), relevant.tolist())
    assert float(bench.HingeApLoss()(scores, relevant)) == pytest.approx(expected, abs=1e-5)


def test_average_precision_by_hand(bench):
    scores, relevant = torch.tensor([3.0, 2, 1, 0]), torch.tensor([1, 0, 1, 0])
    assert bench.average_precision(scores, relevant) == pytest.approx((1 + 2 / 3) / 2)


@pytest.mark.slow
def test_draws_and_prints(bench, tmp_path, monkeypatch, capsys):
    arguments = [
        "--out",
        str(tmp_path),
        "--depths",
        "2",
        "8",
        "--epochs",
        "0.01",
        "--seeds",
        "0",
        "--steps",
        "8",
    ]
    monkeypatch.setattr(bench, "MEASURED_EVERY", 4)
    monkeypatch.setattr(sys, "argv", ["sorter_figures.py", *arguments])
    bench.main()
    printed = capsys.readouterr().out
    for name in (*bench.losses(), "exact", "figure 4, blocks"):
        assert name in printed
    for name in ("sorter_depth.svg", "sorter_ranks.svg", "sorter_map.svg"):
        assert (tmp_path / name).read_text().startswith("<svg")


@pytest.mark.slow
def test_a_deep_sorter_learns_from_random_weights(bench, monkeypatch):
    monkeypatch.setattr(bench, "LENGTH", 12)
    errors, held_out = bench.depth_curve(8, epochs=0.1)
    assert len(errors) == 7  # of 156 steps
    assert errors[-1] < 0.7 * errors[0]
    assert held_out < 0.7 * errors[0]
