"""Kernel expansions sum_v a_v exp(-gamma |x - v|^2) + b: an ensemble of RBF SVMs as one function."""

from dataclasses import dataclass

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import CHUNK, Doubles, Floats, Rows, Scores
from cbir.threads import cores, for_each

REFINED = 1000  # best images, whose values are recomputed in float64


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

    def values(self, gallery: Gallery, rows: Rows) -> Floats:
        """Return the values (m,) float32 at `rows` (ascending) of `gallery`: one product in float32, on all cores.

        The largest REFINED values are recomputed in float64, so that the head of a ranking does not depend on how a
        product was split, and equal vectors tie.
        """
        scores = self._approximate(gallery, rows)
        head = top_k(scores, REFINED)
        scores[head] = self.exact_values(gallery.vectors(rows[head]))
        return scores

    def exact_values(self, images: Floats) -> Doubles:
        """Return the values (m,) float64 at `images` (m, d)."""
        centre = self.vectors.mean(axis=0) if len(self.vectors) else np.zeros(images.shape[1])
        return kernel(images, self.vectors, self.gamma, centre) @ self.coefficients + self.bias

    def _approximate(self, gallery: Gallery, rows: Rows) -> Floats:
        scores = np.empty(len(rows), np.float32)
        coefficients = self.coefficients.astype(np.float32)
        # -gamma |x - v|^2 = 2 gamma x.v - gamma |v|^2 - gamma |x|^2
        gamma = np.float32(self.gamma)
        pull = -gamma * gallery.squared_norms[rows]
        doubled = 2 * gamma * self.vectors
        offsets = -gamma * np.einsum("ij,ij->i", self.vectors, self.vectors)[:, None]

        def add(part: slice, vectors: Floats) -> None:
            exponents = doubled @ vectors.T
            exponents += offsets
            exponents += pull[part]
            np.minimum(exponents, 0, out=exponents)
            np.exp(exponents, out=exponents)
            np.dot(coefficients, exponents, out=scores[part])

        for_each(gallery.chunks(rows), add, min(cores(), -(-len(rows) // CHUNK)))
        scores += np.float32(self.bias)
        return scores
