"""Kernel expansions sum_v a_v exp(-gamma |x - v|^2) + b: an ensemble of RBF SVMs as one function."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery, top_k
from cbir.gallery.vector_blocks import CHUNK, Doubles, Floats, Rows, Scores, spread_rows
from cbir.system.threads import checkpoint, cores, for_each

REFINED = 1000  # best images, whose values are recomputed in float64
PRODUCTS_PER_THREAD = 40_000_000  # for fewer, about a millisecond, a thread costs more than it saves
BLOCK = 512  # images whose kernel is computed at a time: it stays in the cache
ROUNDING = 8 * float(
    np.finfo(np.float32).eps
)  # of a sum in float32; errors up to a quarter of this were seen
SAFE = (
    30.0  # the factors exp(-gamma |x|^2), exp(-gamma |v|^2), exp(2 gamma x.v) are within float32 up to here
)

WIDTH_SAMPLE = 500  # images whose distances to the query are taken
LEAST, LARGEST = 1e-30, 1e30  # within float32

MOST_SHARE = 0.5  # of the images: where more than this can be among the best, all sums are computed
SAMPLE = 1000  # images, but at most one of SAMPLED_EACH, that tell how many these are
SAMPLED_EACH = 32


def kernel(left: Scores, right: Scores, gamma: float, centre: Scores) -> Doubles:
    """Compute the RBF kernel exp(-gamma |x - v|^2).

    Parameters
    ----------
    left, right : (m, d) and (k, d) floating
        Vectors x and v.
    gamma : float
        Above 0.
    centre : (d,) floating
        A point near the vectors: distances are computed as |x|^2 - 2 x.v + |v|^2 about it.

    Returns
    -------
    (m, k) float64
    """
    left, right = left.astype(np.float64), right.astype(np.float64)  # copies
    left -= centre
    right -= centre
    squared = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)
    products = left @ right.T
    products *= 2.0
    squared -= products
    np.maximum(squared, 0.0, out=squared)
    squared *= -gamma
    return np.asarray(np.exp(squared, out=squared))


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """A kernel expansion with vectors (k, d) float32, coefficients (k,) float64, bias b and gamma above 0."""

    vectors: Floats
    coefficients: Doubles
    bias: float
    gamma: float

    def merged(self) -> "KernelExpansion":
        """Return the same function with equal vectors merged and those of weight 0 dropped."""
        bytes_each = self.vectors.itemsize * self.vectors.shape[1]
        contents = (self.vectors + np.float32(0.0)).view(f"V{bytes_each}")  # -0 has other bytes than 0
        _, first, inverse = np.unique(contents[:, 0], return_index=True, return_inverse=True)
        coefficients = np.bincount(inverse, self.coefficients, minlength=len(first))
        used = np.abs(coefficients) > 1e-12 * np.abs(self.coefficients).max(initial=0.0)
        return KernelExpansion(self.vectors[first[used]], coefficients[used], self.bias, self.gamma)

    def values(self, gallery: Gallery, rows: Rows, added: Floats | None = None) -> Floats:
        """Compute the values at rows of a gallery: one product in float32, on all cores.

        The REFINED values that are the largest with `added` are recomputed in float64, so that the head of a ranking
        does not depend on how a product was split, and equal vectors tie; all values, if they differ by no more than
        rounding.

        Parameters
        ----------
        gallery : Gallery
            Vectors of the collection.
        rows : (m,) int64
            Gallery rows, ascending.
        added : (m,) float32, optional
            Scores that the caller adds to the values.

        Returns
        -------
        (m,) float32
            Values of the expansion, without `added`.
        """
        scores = self.approximate(gallery, rows)
        refined = top_k(scores if added is None else scores + added, REFINED)
        if len(refined) and scores.max() - scores.min() <= self.rounding(gallery, rows):
            refined = np.arange(len(rows))
        for start in range(0, len(refined), CHUNK):
            checkpoint()
            part = refined[start : start + CHUNK]
            scores[part] = self.exact_values(gallery.vectors(rows[part]))
        return scores

    def rounding(self, gallery: Gallery, rows: Rows) -> float:
        """Return a bound of the errors of the values at `rows` of `gallery` (at least one) in float32."""
        vectors = self.vectors.astype(np.float64)
        lengths = np.sqrt(
            [gallery.squared_norms[rows].max(), np.square(vectors).sum(axis=1).max(initial=0.0)]
        )
        exponents = 1.0 + self.gamma * lengths.sum() ** 2  # an error of an exponent is one of its power
        share = min(1.0, ROUNDING * exponents)
        return float(share * np.abs(self.coefficients).sum() + ROUNDING * abs(self.bias))

    def exact_values(self, images: Floats) -> Doubles:
        """Return the values (m,) float64 at `images` (m, d)."""
        centre = self.vectors.mean(axis=0) if len(self.vectors) else np.zeros(images.shape[1])
        return kernel(images, self.vectors, self.gamma, centre) @ self.coefficients + self.bias

    def approximate(self, gallery: Gallery, rows: Rows) -> Floats:
        """Return the values (m,) at `rows` (ascending) of `gallery`, off by `rounding` at most."""
        scores = np.empty(len(rows), np.float32)
        # -gamma |x - v|^2 = 2 gamma x.v - gamma |v|^2 - gamma |x|^2
        gamma = np.float32(self.gamma)
        pull = gallery.squared_norms[rows]
        pull *= -gamma
        doubled = np.ascontiguousarray((2 * gamma * self.vectors).T)
        offsets = -gamma * np.einsum("ij,ij->i", self.vectors, self.vectors)
        weights = self.coefficients.astype(np.float32)
        folded = min(pull.min(initial=0), offsets.min(initial=0)) > -SAFE
        if folded:
            weights *= np.exp(offsets)

        def add(part: slice, vectors: Floats) -> None:
            exponents = np.empty((min(BLOCK, len(vectors)), len(weights)), np.float32)
            for start in range(0, len(vectors), BLOCK):
                block = vectors[start : start + BLOCK]
                where = slice(part.start + start, part.start + start + len(block))
                values = np.matmul(block, doubled, out=exponents[: len(block)])
                if not folded:
                    values += offsets
                    values += pull[where, None]
                    np.minimum(values, 0, out=values)
                np.exp(values, out=values)
                # All are finite, but BLAS may compute on what lies behind a row.
                with np.errstate(invalid="ignore"):
                    np.dot(values, weights, out=scores[where])

        products = len(rows) * self.vectors.size
        for_each(gallery.chunks(rows), add, min(cores(), -(-products // PRODUCTS_PER_THREAD)))
        if folded:
            scores *= np.exp(pull, out=pull)
        scores += np.float32(self.bias)
        return scores


def kernel_gamma(gamma: float | str, query: Floats, gallery: Gallery, rows: Rows, sharpness: float) -> float:
    """Return g of the kernel exp(-g |x - v|^2).

    Parameters
    ----------
    gamma : float or "auto"
        g times the number of dimensions, or "auto".
    query : (d,) float32
        Query vector.
    gallery : Gallery
        Vectors of the collection.
    rows : (m,) int64
        Rows to rank, or a sample of them.
    sharpness : float
        For "auto": g times the median squared distance between the query and an image.
    """
    if not isinstance(gamma, str):
        return gamma / gallery.dimensions
    distances = gallery.distances(query, rows[spread_rows(len(rows), WIDTH_SAMPLE)]).astype(np.float64)
    median = float(np.median(distances)) if len(distances) else 0.0
    typical = median or float(distances.max(initial=0.0)) or 1.0  # a median of 0: most are alike
    return float(np.clip(sharpness / typical**2, LEAST, LARGEST))


def find_best_sums(
    expansion: KernelExpansion, gallery: Gallery, rows: Rows, k: int, previous: Floats, weight: float
) -> tuple[NDArray[np.int64], Doubles]:
    """Find the largest sums expansion(x) + weight * previous.

    Only images whose upper bound reaches the k-th largest sum are computed. Where more than REFINED are as good as
    that but for rounding, all are, so that the answer does not depend on k.

    Parameters
    ----------
    expansion : KernelExpansion
        Function of the vectors.
    gallery : Gallery
        Vectors of the collection.
    rows : (m,) int64
        Gallery rows, ascending.
    k : int
        Number of largest sums to find.
    previous : (m,) float32
        Finite scores of the rows.
    weight : float
        Weight of `previous`, at least 0.

    Returns
    -------
    positions : (r,) int64
        Ascending places in `rows`, those of the k largest sums among them.
    sums : (r,) float64
        Their sums, as `all_sums` returns them.
    """
    if not len(rows) or not k:
        return np.empty(0, np.int64), np.empty(0)
    added, bound = np.float32(weight) * previous, upper_bound(expansion)
    margin = 2.0 * (expansion.rounding(gallery, rows) + ROUNDING * float(np.abs(added).max()))
    if 2 * k > len(rows) or not _leaves_few(bound, expansion, gallery, rows, k, added, margin):
        return np.arange(len(rows)), all_sums(expansion, gallery, rows, previous, weight)
    bounds = bound.approximate(gallery, rows)
    bounds += added
    highest = np.sort(top_k(bounds, k))
    least = (expansion.approximate(gallery, rows[highest]) + added[highest]).min()
    positions = np.flatnonzero(bounds >= least - margin)
    if len(positions) <= MOST_SHARE * len(rows):
        sums = expansion.approximate(gallery, rows[positions]) + added[positions]
        last = sums[top_k(sums, k)].min()
        positions, sums = positions[sums >= last - margin], sums[sums >= last - margin]
        if np.count_nonzero(sums <= last + margin) <= REFINED:
            values = expansion.exact_values(gallery.vectors(rows[positions])).astype(np.float32)
            return positions, values + np.float64(weight) * previous[positions]
    return np.arange(len(rows)), all_sums(expansion, gallery, rows, previous, weight)


def all_sums(
    expansion: KernelExpansion, gallery: Gallery, rows: Rows, previous: Floats, weight: float
) -> Doubles:
    """Return the sums (m,) expansion(x) + weight * previous of all rows.

    Parameters
    ----------
    expansion, gallery, rows, previous, weight
        As in `find_best_sums`.
    """
    values = expansion.values(gallery, rows, np.float32(weight) * previous)
    return values + np.float64(weight) * previous


def _leaves_few(
    bound: KernelExpansion, expansion: KernelExpansion, gallery: Gallery, rows: Rows, k: int, added: Floats,
    margin: float,
) -> bool:  # fmt: skip
    """Estimate on a sample whether at most MOST_SHARE of the images can be among the k best."""
    sample = spread_rows(len(rows), min(SAMPLE, len(rows) // SAMPLED_EACH))
    expected = round(k * len(sample) / len(rows))
    if not expected:
        return True
    sums = expansion.approximate(gallery, rows[sample]) + added[sample]
    bounds = bound.approximate(gallery, rows[sample]) + added[sample]
    reached = np.count_nonzero(bounds >= np.sort(sums)[-expected] - margin)
    return bool(reached <= MOST_SHARE * len(sample))


def upper_bound(expansion: KernelExpansion) -> KernelExpansion:
    """Return an expansion with fewer vectors that is nowhere lower.

    Of the N vectors n with coefficients -b only their weighted mean is left. exp is convex, so by Jensen's inequality
    sum b exp(-gamma |x - n|^2) >= B exp(-gamma (|x - mean|^2 + V)), where B = sum b and V is the weighted mean of
    |n - mean|^2. The wider the kernel, the closer the bound.
    """
    falling = expansion.coefficients < 0.0
    if np.count_nonzero(falling) <= 1:
        return expansion
    weights, vectors = -expansion.coefficients[falling], expansion.vectors[falling].astype(np.float64)
    total = weights.sum()
    mean = weights @ vectors / total
    spread = weights @ np.square(vectors - mean).sum(axis=1) / total
    lowered = -total * np.exp(-expansion.gamma * spread)
    return KernelExpansion(
        np.vstack([expansion.vectors[~falling], mean.astype(np.float32)]),
        np.append(expansion.coefficients[~falling], lowered),
        expansion.bias,
        expansion.gamma,
    )
