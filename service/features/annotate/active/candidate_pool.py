"""Images that a strategy may select: their pairs not used yet, and their bins of estimated severity."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.severity.judged_pairs import SeverityEstimate

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Pair = tuple[int, int]
BINS = 8  # equally wide
QUANTILES = (0.01, 0.99)  # ends of the bins, robust against outliers


class CandidatePool:
    """Candidates of a strategy.

    `rows` (k,) are the ascending rows of the allowed images that still have an unused partner, `severity` is that of
    all n images (None before the first training), and `asked` are the rows of the images in used pairs.
    """

    def __init__(
        self, count: int, severity: SeverityEstimate | None, used: Iterable[Pair], allowed: Mask | None
    ) -> None:
        self.severity = severity
        self.partners: dict[int, set[int]] = defaultdict(set)
        for first, second in used:
            if not (0 <= first < count and 0 <= second < count):
                raise InvalidInput(f"a used pair refers to images {first} and {second} of {count}")
            self.take(int(first), int(second))
        self.asked: Rows = np.array(sorted(self.partners), np.int64)
        allowed_rows = np.arange(count) if allowed is None else np.flatnonzero(allowed)
        most = len(allowed_rows) - 1
        # Only an image with many partners can have run out of them, so only those are checked.
        exhausted = [
            row
            for row in allowed_rows.tolist()
            if len(self.partners.get(row, ())) >= most and not len(self.free(row, allowed_rows))
        ]
        self.rows: Rows = np.setdiff1d(allowed_rows, np.array(exhausted, np.int64))

    def take(self, first: int, second: int) -> None:
        """Mark the pair of `first` and `second` as used."""
        self.partners[first].add(second)
        self.partners[second].add(first)

    def free(self, row: int, among: Rows) -> Rows:
        """Return those rows of `among` that are not used with `row` yet."""
        partners = self.partners.get(row, set())
        return among[~np.isin(among, np.fromiter((*partners, row), np.int64, len(partners) + 1))]


def pair_up(pool: CandidatePool, rows: Rows, count: int, rng: np.random.Generator) -> Rows:
    """Draw random new pairs of images, in which each image occurs at least once.

    Parameters
    ----------
    pool : CandidatePool
        The new pairs are marked as used in it.
    rows : (k,) int64
        Images to pair. An image with no unused partner among them gets one from the rest of the pool; without any
        unused partner it is left out.
    count : int
        Number of pairs; exceeded if the images need more.
    rng : numpy.random.Generator

    Returns
    -------
    (m, 2) int64
        Pairs in random order within each pair.
    """
    pairs: list[Pair] = []

    def pair(row: int, among: Rows) -> bool:
        free = pool.free(row, among)
        if not len(free):
            return False
        other = int(rng.choice(free))
        pool.take(row, other)
        pairs.append((row, other) if rng.random() < 0.5 else (other, row))
        unpaired.difference_update((row, other))
        return True

    unpaired = set(rows.tolist())
    for row in rng.permutation(rows).tolist():
        if row in unpaired:
            rest = np.array(sorted(unpaired), np.int64)
            pair(row, rest) or pair(row, rows) or pair(row, pool.rows)
    while len(pairs) < count:
        before = len(pairs)
        for row in rng.permutation(rows).tolist():
            if len(pairs) >= count:
                break
            pair(row, rows)
        if len(pairs) == before:  # all pairs of these images are used
            break
    return np.array(pairs, np.int64).reshape(-1, 2)


def severity_bins(mean: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the bin (n,), 0 to BINS - 1, of each severity (n,), n at least 1."""
    low, high = np.quantile(mean, QUANTILES).tolist()
    return np.searchsorted(np.linspace(low, high, BINS + 1)[1:-1], mean, "right")


def take_turns(
    bin_of: NDArray[np.int64], order: NDArray[np.floating], count: int, rng: np.random.Generator
) -> Rows:
    """Select from each bin in turn, until there are enough.

    Parameters
    ----------
    bin_of : (n,) int64
        Bin of each candidate.
    order : (n,) float
        The lowest of a bin comes first.
    count : int
        Number to select.
    rng : numpy.random.Generator
        Breaks ties.

    Returns
    -------
    (m,) int64
        Distinct positions, m = min(count, n).
    """
    sequence = np.lexsort((rng.random(len(bin_of)), order, bin_of))
    starts = np.searchsorted(bin_of[sequence], np.arange(BINS))
    turn = np.arange(len(bin_of)) - starts[bin_of[sequence]]  # rank within the bin
    return sequence[np.lexsort((rng.random(len(bin_of)), turn))[:count]]
