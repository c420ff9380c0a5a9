"""The images that may be asked about, and the pairs of them that were not asked yet."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.severity.severity_estimate import SeverityEstimate

Rows = NDArray[np.int64]
Pair = tuple[int, int]


class CandidatePool:
    """What a strategy chooses from.

    rows: (k,) ascending rows of the allowed images that still have a free partner. severity: of all n images, None
    where nothing was learnt yet. asked: rows of the images in some pair that was asked.
    """

    def __init__(
        self,
        count: int,
        severity: SeverityEstimate | None,
        asked: Iterable[Pair],
        allowed: NDArray[np.bool_] | None,
    ) -> None:
        self.severity = severity
        self.partners: dict[int, set[int]] = defaultdict(set)
        self._may = np.ones(count, bool) if allowed is None else np.asarray(allowed, bool).copy()
        for first, second in asked:
            if not (0 <= first < count and 0 <= second < count):
                raise InvalidInput(f"a pair that was asked names images {first} and {second} of {count}")
            self.take(int(first), int(second))
        self.asked: Rows = np.array(sorted(self.partners), np.int64)
        allowed_rows = np.flatnonzero(self._may)
        used = [len(self.partners.get(int(row), ())) for row in allowed_rows]
        # Only an image with many partners can have run out of them; look closely at those alone.
        out = [
            row
            for row, known in zip(allowed_rows.tolist(), used, strict=True)
            if known >= len(allowed_rows) - 1 and not len(self.free(row, allowed_rows))
        ]
        self.rows: Rows = np.setdiff1d(allowed_rows, np.array(out, np.int64))

    def take(self, first: int, second: int) -> None:
        """Remember that this pair is asked, in whichever order."""
        self.partners[first].add(second)
        self.partners[second].add(first)

    def free(self, row: int, among: Rows) -> Rows:
        """Those of `among` that `row` was not asked with yet."""
        known = self.partners.get(row, set())
        return among[~np.isin(among, np.fromiter((*known, row), np.int64, len(known) + 1))]


def pair_up(pool: CandidatePool, rows: Rows, count: int, rng: np.random.Generator) -> Rows:
    """Up to `count` new pairs (m, 2) of images `rows`, at random; each image is in at least one of them.

    More than `count` where so many are needed for that; an image whose partners among `rows` are used up gets one
    from the rest of the pool; one without any partner left is in none. Who comes first in a pair is by chance.
    """
    made: list[Pair] = []

    def pair(row: int, among: Rows) -> bool:
        free = pool.free(row, among)
        if not len(free):
            return False
        other = int(rng.choice(free))
        pool.take(row, other)
        made.append((row, other) if rng.random() < 0.5 else (other, row))
        alone.difference_update((row, other))
        return True

    alone = set(rows.tolist())
    for row in rng.permutation(rows).tolist():
        if row in alone:
            rest = np.array(sorted(alone), np.int64)
            pair(row, rest) or pair(row, rows) or pair(row, pool.rows)
    while len(made) < count:
        before = len(made)
        for row in rng.permutation(rows).tolist():
            if len(made) >= count:
                break
            pair(row, rows)
        if len(made) == before:  # all pairs of these images are asked
            break
    return np.array(made, np.int64).reshape(-1, 2)
