"""Search of many vectors by FAISS in codes of four bits for each value, an eighth of the bytes.

Vectors are rotated at random, so that all values count alike, and each value is rounded to one of 16 levels. FAISS
adds up squared distances from tables that stay in registers (F. André, A.-M. Kermarrec, N. Le Scouarnec: Cache
locality is not enough, VLDB 2015). Every search measures how far off these are, and returns so many more rows, to be
compared themselves: one of the nearest is missed where its error is above SURE standard deviations.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import faiss
import numpy as np

from cbir.gallery.flat_index import FlatIndex, one_search_thread, select_rows
from cbir.gallery.vector_blocks import Floats, Rows, spread_rows, table_of
from cbir.system.device_failure import rows_within
from cbir.system.threads import checkpoint

TRAINED = 5000  # vectors that the 16 levels are fitted to; fewer are repeated
STEPS = 25  # of fitting them
# Shares of normal values below the positive ones of J. Max's 16 levels (Quantizing for minimum distortion, 1960).
BELOW = (0.5511, 0.651, 0.7443, 0.827, 0.8955, 0.9472, 0.9807, 0.9969)
ADDED = 32 << 20  # bytes of vectors coded at a time
BESIDE = 100  # rows that are to be among the nearest besides: so the first ones are found even more surely
SURE = 4.0  # standard deviations of the error: one of 30,000 rows is off by more
FETCHED = 3  # times as many rows are fetched as are to be found
LEAST = 4000  # rows fetched besides
MORE = 4  # times as many, where these were too few
MOST_SHARE = 0.25  # of the rows: where more would be fetched, the vectors are compared
FETCHED_INSIDE = 2.5  # times as many of the rows of a filter, where others are fetched too
ONE_LOOK = 0.08  # of the rows: where more would be fetched, those of a filter are searched for apart
COMPARED = 200  # of the fetched rows, to measure the error
FEWEST = 50  # distinct ones that measure it: copies of a vector have one error, however many they are


@dataclass(frozen=True, eq=False)
class CodeIndex(FlatIndex):
    """Index that compares codes, and vectors only where codes do not tell which are the nearest.

    vectors: (n, d) float32. codes: FAISS index of their codes, as `build_codes` returns it.
    """

    vectors: Floats
    codes: Any
    name: ClassVar[str] = "flat, by codes of 4 bits"

    def nearest(self, query: Floats, count: int, allowed: Rows | None = None) -> Rows:
        total = len(self) if allowed is None else len(allowed)
        fetched, selector = FETCHED * count + LEAST, None
        while fetched <= MOST_SHARE * total:
            selector = selector or select_rows(allowed, len(self))
            estimates, rows = self._fetch(query, fetched, selector)
            farthest = self._farthest(query, count, estimates, rows)
            if np.isinf(farthest):
                break
            if farthest < estimates[-1]:
                return np.sort(rows[estimates <= farthest])
            fetched *= MORE
        return super().nearest(query, count, allowed)

    def nearest_both(
        self, query: Floats, count: int, allowed: Rows | None, around: int, visible: Rows | None
    ) -> tuple[Rows, Rows]:
        """Return what `FlatIndex.nearest_both` does, by one look at the codes where the filter is wide.

        query, count, allowed, around, visible: as there.
        """
        total = len(self) if visible is None else len(visible)
        times = 1.0 if allowed is None else total / max(len(allowed), 1)  # as many are visible
        fetched = LEAST + max(FETCHED * around, int(FETCHED_INSIDE * count * times))
        if fetched > ONE_LOOK * total:
            return super().nearest_both(query, count, allowed, around, visible)
        estimates, rows = self._fetch(query, fetched, select_rows(visible, len(self)))
        inside = np.ones(len(rows), bool) if allowed is None else table_of(allowed, len(self))[rows]
        nearest = []
        for number, scope, selection in ((count, allowed, inside), (around, visible, slice(None))):
            distances, numbers = estimates[selection], rows[selection]
            farthest = self._farthest(query, number, distances, numbers)
            if farthest < estimates[-1]:
                nearest.append(np.sort(numbers[distances <= farthest]))
            else:
                nearest.append(self.nearest(query, number, scope))
        return nearest[0], nearest[1]

    def _fetch(self, query: Floats, count: int, selector: faiss.IDSelector | None) -> tuple[Floats, Rows]:
        """Return the estimated squared distances (count,) of the nearest selected rows, ascending, and these rows."""
        checkpoint()
        options = faiss.SearchParametersPreTransform(index_params=faiss.SearchParametersIVF(sel=selector))
        with one_search_thread():
            estimates, rows = self.codes.search(query[None, :], count, params=options)
        return estimates[0], rows[0]

    def _farthest(self, query: Floats, count: int, estimates: Floats, rows: Rows) -> float:
        """Return the estimate up to which the `count` nearest are among fetched rows; infinite if that is unknown."""
        reach = count + BESIDE
        if reach >= len(rows):
            return np.inf
        return float(estimates[reach] + SURE * self._error(query, estimates[: 2 * reach], rows))

    def _error(self, query: Floats, estimates: Floats, rows: Rows) -> float:
        """Return the standard deviation of the errors of estimated squared distances (m,) to the first rows.

        It is infinite where too few of them are distinct to tell.
        """
        compared = spread_rows(len(estimates), COMPARED)
        squared = np.square(self.vectors[rows[compared]] - query).sum(axis=1)
        distinct = np.unique(squared, return_index=True)[1]
        return float(np.std((estimates[compared] - squared)[distinct])) if len(distinct) >= FEWEST else np.inf


def build_codes(vectors: Floats) -> faiss.Index:
    """Return the FAISS index of the codes of vectors (n, d): its ids are rows, and its one list takes filters."""
    count, dimensions = vectors.shape
    codes = faiss.index_factory(dimensions, f"RR{dimensions},IVF1,PQ{dimensions}x4fs")
    product = faiss.downcast_index(codes.index).pq
    product.cp.niter = 0  # FAISS needs seconds for what `fit_levels` does
    sample = np.resize(vectors[spread_rows(count, TRAINED)], (TRAINED, dimensions))
    with one_search_thread():  # a process forked after FAISS has used several would wait for them forever
        codes.train(sample)
        levels = fit_levels(codes.chain.at(0).apply(sample))
        faiss.copy_array_to_vector(levels.ravel(), product.centroids)
        step = rows_within(ADDED, dimensions * 4)
        for start in range(0, count, step):
            checkpoint()
            codes.add(np.ascontiguousarray(vectors[start : start + step]))
    return codes


def fit_levels(values: Floats) -> Floats:
    """Return the levels (d, 16) that values (n, d) are rounded to, column by column, with the least squared error.

    By the iterations of S. Lloyd (Least squares quantization in PCM, 1982). They begin where the levels of a normal
    distribution would be, which values of vectors that were rotated at random nearly have.
    """
    ordered = np.sort(values.T.astype(np.float64), axis=1)
    sums = np.pad(np.cumsum(ordered, axis=1), ((0, 0), (1, 0)))
    shares = [*(1 - share for share in reversed(BELOW)), *BELOW]
    levels = np.quantile(ordered, shares, axis=1).T.copy()
    for _ in range(STEPS):
        checkpoint()
        between = (levels[:, 1:] + levels[:, :-1]) / 2
        ends = np.array([np.searchsorted(*each) for each in zip(ordered, between, strict=True)])
        ends = np.pad(ends, ((0, 0), (1, 1)), constant_values=((0, 0), (0, len(values))))
        counts, totals = np.diff(ends, axis=1), np.diff(np.take_along_axis(sums, ends, axis=1), axis=1)
        levels = np.divide(totals, counts, out=levels, where=counts > 0)
    return levels.astype(np.float32)
