"""The largest sums of a kernel expansion and a weighted score, without computing the expansion at all images."""

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Doubles, Floats, Rows, spread_rows
from cbir.rerank.kernel_expansion import REFINED, ROUNDING, KernelExpansion

MOST_SHARE = 0.5  # of the images: where more than this can be among the best, all sums are computed
SAMPLE = 1000  # images, but at most one of SAMPLED_EACH, that tell how many these are
SAMPLED_EACH = 32


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
