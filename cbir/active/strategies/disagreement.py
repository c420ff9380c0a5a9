"""Pairs on whose order samples of the weights disagree: ours, after Houlsby et al. 2011 (BALD)."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from cbir.active.candidate_pool import CandidatePool, Rows, pair_up
from cbir.active.strategies.strategy_base import Strategy, required_severity
from cbir.severity.severity_estimate import SeverityEstimate

CANDIDATES = 50  # random partners that are looked at for each image
MOST = 2  # pairs of one image in a round: many of one say much the same
PASSES = 30  # drawn where the ranker kept no scores of its passes
PART = 100_000  # candidates whose passes are in memory at once


class Disagreement(Strategy):
    """The pairs whose label would tell most about the weights.

    That is the entropy of the mean of sigmoid(f(i) - f(j)) over the passes, less the mean of their entropies: high
    where each pass is sure and they contradict each other, low where two images are simply alike.
    """

    name = "disagreement"

    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        rows, severity = pool.rows, required_severity(pool)
        if len(rows) < 2:
            return np.empty((0, 2), np.int64)
        others = rng.integers(0, len(rows) - 1, (len(rows), CANDIDATES))
        others += others >= np.arange(len(rows))[:, None]  # nobody is their own partner
        places = np.stack([np.repeat(np.arange(len(rows)), CANDIDATES), others.ravel()], axis=1)
        found = rows[np.unique(np.sort(places, axis=1), axis=0)]
        worth = information(_passes(severity, rng), found)
        found = found[np.lexsort((rng.random(len(worth)), -worth))]
        best = _best(pool, found, min(count, len(rows)), rng)
        if len(best):
            return best
        # Nearly all pairs are asked, and none of the few others was among those looked at.
        return pair_up(pool, rng.choice(rows, min(count, len(rows)), replace=False), count, rng)


def information(scores: NDArray[np.float32], pairs: Rows) -> NDArray[np.float64]:
    """What the label of each pair (m, 2) tells of the weights, in nats, from scores (T, n) of the passes."""
    worth = np.empty(len(pairs))
    for start in range(0, len(pairs), PART):
        i, j = pairs[start : start + PART].T
        above = expit(scores[:, i].astype(np.float64) - scores[:, j])
        both = np.stack([above, 1 - above])
        worth[start : start + PART] = entr(both.mean(axis=1)).sum(axis=0) - entr(both).sum(axis=0).mean(
            axis=0
        )
    return worth


def _passes(severity: SeverityEstimate, rng: np.random.Generator) -> NDArray[np.float32]:
    if severity.scores is not None:
        return severity.scores
    drawn = rng.standard_normal((PASSES, len(severity)), np.float32)
    return severity.mean + drawn * np.sqrt(severity.variance)


def _best(pool: CandidatePool, ordered: Rows, count: int, rng: np.random.Generator) -> Rows:
    """The first `count` of ordered pairs that are free, no image in more than MOST of them."""
    made: list[tuple[int, int]] = []
    used: dict[int, int] = {}
    for first, second in ordered.tolist():
        if len(made) == count:
            break
        full = used.get(first, 0) >= MOST or used.get(second, 0) >= MOST
        if full or second in pool.partners.get(first, ()):
            continue
        pool.take(first, second)
        used[first], used[second] = used.get(first, 0) + 1, used.get(second, 0) + 1
        made.append((first, second) if rng.random() < 0.5 else (second, first))
    return np.array(made, np.int64).reshape(-1, 2)
