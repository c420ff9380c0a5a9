"""Fusion of runs: reciprocal ranks (Cormack, Clarke & Buettcher 2009) and weighted sums of scores.

Weighted sums are CombSUM (Fox & Shaw 1994) of normalised scores; an image that a run lacks gets that run's lowest
normalised score, as it would be ranked below.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.run_files import QueryAnswers

RANK_CONSTANT = 60  # k of the paper

Scores = NDArray[np.float64]


class FusionMethod(StrEnum):
    """Ways to fuse."""

    rrf = "rrf"
    weighted = "weighted"


class ScoreScale(StrEnum):
    """Normalisations of the scores of a query before they are added."""

    min_max = "min-max"
    z_score = "z-score"


def fuse_answers(
    runs: Sequence[QueryAnswers], weights: Sequence[float], score: Callable[[Scores], Scores], missing: bool
) -> QueryAnswers:
    """Fuse the answers of several runs to one query.

    Parameters
    ----------
    runs : sequence of QueryAnswers
        Answers of each run, best first; a run without answers adds nothing.
    weights : sequence of float
        Factor of each run.
    score : callable
        Maps the falling scores (k,) of a run to the scores (k,) that are added, for instance `reciprocal_ranks`.
    missing : bool
        Add the lowest of these scores to images that a run lacks; else 0.

    Returns
    -------
    QueryAnswers
        Equal sums in the order of the first run that has the image.
    """
    rows: dict[str, int] = {}
    for run in runs:
        for image in run.images:
            rows.setdefault(image, len(rows))
    total = np.zeros(len(rows))
    for run, weight in zip(runs, weights, strict=True):
        if run.images:
            scores = score(run.scores)
            added = np.full(len(rows), scores.min() if missing else 0.0)
            added[[rows[image] for image in run.images]] = scores
            total += weight * added
    order = np.argsort(-total, kind="stable")
    images = list(rows)
    return QueryAnswers([images[row] for row in order.tolist()], total[order])


def reciprocal_ranks(scores: Scores, k: float = RANK_CONSTANT) -> Scores:
    """Return 1 / (k + rank) of falling scores (n,), ranks from 1."""
    return np.asarray(1.0 / (k + np.arange(1, len(scores) + 1)))


def min_max(scores: Scores) -> Scores:
    """Return scores (n,) mapped to 0 to 1; all 1 if they are equal."""
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)


def z_scores(scores: Scores) -> Scores:
    """Return scores (n,) less their mean, in standard deviations; all 0 if they are equal."""
    deviation = scores.std()
    return (scores - scores.mean()) / deviation if deviation > 0 else np.zeros_like(scores)


def parse_run_weights(text: str | None, runs: int) -> list[float]:
    """Return one weight per run, from numbers separated by commas or spaces; None: equal weights.

    Raises InvalidInput for another number of weights, or one that is not positive and finite.
    """
    if text is None:
        return [1.0] * runs
    try:
        weights = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise InvalidInput(f"--weights {text} is not a list of numbers, such as 2,1") from None
    if len(weights) != runs:
        raise InvalidInput(f"--weights {text} has {len(weights)} weights for {runs} runs")
    if not all(0 < weight < float("inf") for weight in weights):
        raise InvalidInput(f"--weights {text}: weights must be positive, finite numbers")
    return weights
