"""Selection of pairs on whose order the weight samples disagree; our own, after Houlsby et al. 2011 (BALD)."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from cbir.learn.severity.judged_pairs import SeverityEstimate
from service.features.annotate.active.candidate_pool import CandidatePool, Rows, pair_up
from service.features.annotate.active.strategies.strategy_base import Strategy, required_severity

CANDIDATES = 50  # random partners per image
MAX_PAIRS_PER_IMAGE = 2  # per round, since pairs of the same image are redundant
PASSES = 30  # sampled if the estimate has no scores of its passes
CHUNK = 100_000  # pairs scored at a time, to bound memory


class Disagreement(Strategy):
    """Selects the pairs whose label has the most information about the weights.

    The information is the entropy of the mean of sigmoid(f(i) - f(j)) over the passes minus the mean of their
    entropies: high if passes are certain but contradict each other, low if two images are simply equal.
    """

    name = "disagreement"

    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        rows, severity = pool.rows, required_severity(pool)
        if len(rows) < 2:
            return np.empty((0, 2), np.int64)
        others = rng.integers(0, len(rows) - 1, (len(rows), CANDIDATES))
        others += others >= np.arange(len(rows))[:, None]  # no image is its own partner
        index_pairs = np.stack([np.repeat(np.arange(len(rows)), CANDIDATES), others.ravel()], axis=1)
        candidates = rows[np.unique(np.sort(index_pairs, axis=1), axis=0)]
        gains = information(_passes(severity, rng), candidates)
        candidates = candidates[np.lexsort((rng.random(len(gains)), -gains))]
        best = _first_unused(pool, candidates, min(count, len(rows)), rng)
        if len(best):
            return best
        # Nearly all pairs are used, and none of the few others was among the candidates.
        return pair_up(pool, rng.choice(rows, min(count, len(rows)), replace=False), count, rng)


def information(scores: NDArray[np.float32], pairs: Rows) -> NDArray[np.float64]:
    """Return the information in nats that the label of each of `pairs` (m, 2) has, from pass `scores` (T, n)."""
    gains = np.empty(len(pairs))
    for start in range(0, len(pairs), CHUNK):
        chunk = slice(start, start + CHUNK)
        i, j = pairs[chunk].T
        first_wins = expit(scores[:, i].astype(np.float64) - scores[:, j])
        outcomes = np.stack([first_wins, 1 - first_wins])
        gains[chunk] = entr(outcomes.mean(axis=1)).sum(axis=0) - entr(outcomes).sum(axis=0).mean(axis=0)
    return gains


def _passes(severity: SeverityEstimate, rng: np.random.Generator) -> NDArray[np.float32]:
    if severity.scores is not None:
        return severity.scores
    noise = rng.standard_normal((PASSES, len(severity)), np.float32)
    return severity.mean + noise * np.sqrt(severity.variance)


def _first_unused(pool: CandidatePool, ordered: Rows, count: int, rng: np.random.Generator) -> Rows:
    """Return the first `count` unused pairs, with each image in at most MAX_PAIRS_PER_IMAGE of them."""
    selected: list[tuple[int, int]] = []
    used: dict[int, int] = {}
    for first, second in ordered.tolist():
        if len(selected) == count:
            break
        full = max(used.get(first, 0), used.get(second, 0)) >= MAX_PAIRS_PER_IMAGE
        if full or second in pool.partners.get(first, ()):
            continue
        pool.take(first, second)
        used[first], used[second] = used.get(first, 0) + 1, used.get(second, 0) + 1
        selected.append((first, second) if rng.random() < 0.5 else (second, first))
    return np.array(selected, np.int64).reshape(-1, 2)
