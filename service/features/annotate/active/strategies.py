"""Acquisition strategies by name: they select the next pairs. A new one is a class and a name in `MEMBERS`."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.severity.judged_pairs import SeverityEstimate
from service.features.annotate.active.candidate_pool import (
    CandidatePool,
    Rows,
    pair_up,
    severity_bins,
    take_turns,
)
from service.features.annotate.active.diverse_selection import PairGradients, spread_pairs, typical_images

__all__ = ["ImageStrategy", "Strategy", "check_strategy", "names", "strategy"]
CANDIDATES = 50  # random partners per image
MAX_PAIRS_PER_IMAGE = 2  # per round, since pairs of the same image are redundant
PASSES = 30  # sampled if the estimate has no scores of its passes
CHUNK = 100_000  # pairs scored at a time, to bound memory


class Strategy(ABC):
    """Selects the next pairs; with `needs_severity`, it needs a trained ranker.

    With `selects_first_pairs` it selects those of the first round too, instead of Kadota et al., section 3.1. With
    `needs_encoder` it needs the `encoder_features` of the severity, so the ranker has to learn from an encoder.
    """

    name: ClassVar[str]
    needs_severity: ClassVar[bool] = True
    selects_first_pairs: ClassVar[bool] = False
    needs_encoder: ClassVar[bool] = False

    @abstractmethod
    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        """Select new pairs.

        Parameters
        ----------
        pool : CandidatePool
            The selected pairs are marked as used in it.
        count : int
            Number of images to select, and about that of the pairs.
        rng : numpy.random.Generator

        Returns
        -------
        (m, 2) int64
            Fewer than `count` if no more are left.
        """


class ImageStrategy(Strategy):
    """Selects images, which are then paired at random (Kadota et al., section 3.3)."""

    @abstractmethod
    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        """Select images.

        Parameters
        ----------
        pool : CandidatePool
        count : int
            Number of images.
        rng : numpy.random.Generator

        Returns
        -------
        (m,) int64
            Distinct rows of `pool.rows`; all of them if there are at most `count`.
        """

    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        return pair_up(pool, self.images(pool, count, rng), count, rng)


def required_severity(pool: CandidatePool) -> SeverityEstimate:
    """Return the severity of `pool`, which `select_pairs` has checked to be present."""
    assert pool.severity is not None
    return pool.severity


class Random(ImageStrategy):
    """Selects all images with the same probability."""

    name = "random"
    needs_severity = False

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        return rng.choice(pool.rows, min(count, len(pool.rows)), replace=False)


class NewImages(Strategy):
    """Pairs images that are in no pair yet, each once; when none is left, those in the fewest pairs.

    A pair shows two new images, where the other strategies select as many images as pairs. The first round, too:
    what a second pair tells of an image is worth less than what the first tells of another one.
    """

    name = "new-images"
    needs_severity = False
    selects_first_pairs = True

    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        compared = np.array([len(pool.partners.get(row, ())) for row in pool.rows.tolist()])
        least = pool.rows[np.lexsort((rng.random(len(pool.rows)), compared))]
        return pair_up(pool, least[: 2 * count], count, rng)[:count]


class Variance(ImageStrategy):
    """Selects the images whose score varies most between weight samples (eq. 3); breaks ties at random."""

    name = "variance"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        uncertain = required_severity(pool).variance[pool.rows]
        return pool.rows[np.lexsort((rng.random(len(uncertain)), -uncertain))[:count]]


class Stratified(ImageStrategy):
    """Takes a random image of each severity bin in turn, first those that are in no pair yet.

    Severe cases are rare, and random images rarely show them. Uncertain images and those far from all others are more
    often severe, but also more often unlike the rest, so that less is learned about these. This strategy takes
    severe cases as often as others, and typical ones.
    """

    name = "stratified"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        mean = required_severity(pool).mean[pool.rows]
        if not len(mean):
            return pool.rows
        is_used = np.isin(pool.rows, pool.asked)
        return pool.rows[take_turns(severity_bins(mean), is_used.astype(np.float64), count, rng)]


class Balanced(ImageStrategy):
    """Takes the most uncertain image of each severity bin in turn.

    If severe cases are rare, uncertainty alone selects more of them only as far as it correlates with severity;
    taking turns does so by construction, without neglecting the others.
    """

    name = "balanced"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        severity = required_severity(pool)
        mean, uncertain = severity.mean[pool.rows], severity.variance[pool.rows]
        if not len(mean):
            return pool.rows
        return pool.rows[take_turns(severity_bins(mean), -uncertain, count, rng)]


class CoreSet(ImageStrategy):
    """Repeatedly selects the image whose features are farthest from all images used or selected before.

    The features are those of the ranker, and change from round to round.
    """

    name = "core-set"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        return _cover(pool, required_severity(pool).features, count, rng)


class EncoderCoreSet(ImageStrategy):
    """Selects like `CoreSet`, by the features of the pretrained encoder (Kadota et al., section 5.1.4)."""

    name = "core-set-encoder"
    needs_encoder = True

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        features = required_severity(pool).encoder_features
        assert features is not None  # checked by select_pairs
        return _cover(pool, features, count, rng)


def _cover(pool: CandidatePool, features: NDArray[np.float32], count: int, rng: np.random.Generator) -> Rows:
    wide = features.astype(np.float64)
    return pool.rows[farthest(wide[pool.rows], wide[pool.asked], count, rng)]


def farthest(
    features: NDArray[np.float64], centres: NDArray[np.float64], count: int, rng: np.random.Generator
) -> Rows:
    """Select rows one by one, each the farthest from the centres and the rows selected before.

    Parameters
    ----------
    features : (n, d) float64
    centres : (k, d) float64
        Without centres, the first row is drawn at random.
    count : int
        Number of rows.
    rng : numpy.random.Generator
        Breaks ties.

    Returns
    -------
    (m,) int64
        Rows, by Euclidean distance, in n d (m + k) multiplications.
    """
    order = rng.permutation(len(features))
    shuffled, norms = features[order], (features[order] ** 2).sum(axis=1)
    nearest = np.full(len(shuffled), np.inf)
    for centre in centres:
        nearest = np.minimum(nearest, norms - 2 * shuffled @ centre + centre @ centre)
    selected: list[int] = []
    for _ in range(min(count, len(shuffled))):
        farthest_row = int(np.argmax(nearest))
        selected.append(farthest_row)
        nearest = np.minimum(nearest, norms - 2 * shuffled @ shuffled[farthest_row] + norms[farthest_row])
        nearest[selected] = -np.inf
    return order[np.array(selected, np.int64)]


class TypiClust(ImageStrategy):
    """Selects typical images: the one in the densest place of each cluster of the encoder's features.

    Clusters without used images come first, large ones before small ones (Hacohen et al. 2022).
    """

    name = "typiclust"
    needs_encoder = True

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        features = required_severity(pool).encoder_features
        assert features is not None  # checked by select_pairs
        is_used = np.isin(pool.rows, pool.asked)
        return pool.rows[typical_images(features[pool.rows], is_used, count, rng)]


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
        candidates = _random_pairs(rows, rng)
        gains = information(_passes(severity, rng), candidates)
        candidates = candidates[np.lexsort((rng.random(len(gains)), -gains))]
        best = _first_unused(pool, candidates, min(count, len(rows)), rng)
        if len(best):
            return best
        # Nearly all pairs are used, and none of the few others was among the candidates.
        return pair_up(pool, rng.choice(rows, min(count, len(rows)), replace=False), count, rng)


class Badge(Strategy):
    """Selects diverse pairs whose answer would change the ranker much: k-means++ over gradients (Ash et al. 2020).

    The gradient is that of the loss of a pair by the last layer, for the answer that the ranker expects.
    """

    name = "badge"

    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        rows, severity = pool.rows, required_severity(pool)
        if len(rows) < 2:
            return np.empty((0, 2), np.int64)
        candidates = [
            pair for pair in _random_pairs(rows, rng).tolist() if pair[1] not in pool.partners[pair[0]]
        ]
        if not candidates:  # nearly all pairs are used
            return pair_up(pool, rng.choice(rows, min(count, len(rows)), replace=False), count, rng)
        gradients = PairGradients(np.array(candidates, np.int64), severity.mean, severity.features)
        selected = gradients.pairs[spread_pairs(gradients, min(count, len(rows)), rng)]
        for first, second in selected.tolist():
            pool.take(first, second)
        return np.where(rng.random((len(selected), 1)) < 0.5, selected, selected[:, ::-1])


def _random_pairs(rows: Rows, rng: np.random.Generator) -> Rows:
    """Return distinct pairs (m, 2) of `rows`, CANDIDATES random partners for each, the lower row first."""
    others = rng.integers(0, len(rows) - 1, (len(rows), CANDIDATES))
    others += others >= np.arange(len(rows))[:, None]  # no image is its own partner
    index_pairs = np.stack([np.repeat(np.arange(len(rows)), CANDIDATES), others.ravel()], axis=1)
    return rows[np.unique(np.sort(index_pairs, axis=1), axis=0)]


def information(scores: NDArray[np.float32], pairs: Rows) -> NDArray[np.float64]:
    """Return the information in nats that the label of each of `pairs` (m, 2) has, from pass `scores` (T, n)."""
    from scipy.special import entr, expit  # only now: a service starts without it

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


MEMBERS: tuple[type[Strategy], ...] = (
    Variance,
    Random,
    CoreSet,
    EncoderCoreSet,
    TypiClust,
    Disagreement,
    Badge,
    Balanced,
    Stratified,
    NewImages,
)

DEFAULT = NewImages.name  # the best of bench/results/active.md


def names() -> tuple[str, ...]:
    """Return the names of all strategies."""
    return tuple(member.name for member in MEMBERS)


def strategy(name: str) -> Strategy:
    """Return the strategy called `name`; raise InvalidInput for an unknown name."""
    for member in MEMBERS:
        if member.name == name:
            return member()
    raise InvalidInput(f"unknown strategy {name!r}; available: {', '.join(names())}")


def check_strategy(name: str, encoder: str | None) -> None:
    """Raise InvalidInput if no strategy is called `name`, or it needs an `encoder` and that is None."""
    if strategy(name).needs_encoder and encoder is None:
        raise InvalidInput(
            f"the strategy {name} needs an encoder to learn from; give --encoder, or use core-set"
        )
