"""Kernel expansions sum_v a_v exp(-gamma |x - v|^2) + b: an ensemble of RBF SVMs as one function."""

from dataclasses import dataclass

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import CHUNK, Doubles, Floats, Rows, Scores
from cbir.system.cancellation import checkpoint
from cbir.system.threads import cores, for_each

REFINED = 1000  # best images, whose values are recomputed in float64
PRODUCTS_PER_THREAD = 40_000_000  # for fewer, about a millisecond, a thread costs more than it saves
BLOCK = 512  # images whose kernel is computed at a time: it stays in the cache
ROUNDING = 8 * float(
    np.finfo(np.float32).eps
)  # of a sum in float32; errors up to a quarter of this were seen
SAFE = (
    30.0  # the factors exp(-gamma |x|^2), exp(-gamma |v|^2), exp(2 gamma x.v) are within float32 up to here
)


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
        contents = np.ascontiguousarray(self.vectors).view(f"V{bytes_each}")
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
                np.dot(values, weights, out=scores[where])

        products = len(rows) * self.vectors.size
        for_each(gallery.chunks(rows), add, min(cores(), -(-products // PRODUCTS_PER_THREAD)))
        if folded:
            scores *= np.exp(pull, out=pull)
        scores += np.float32(self.bias)
        return scores
