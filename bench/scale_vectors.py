"""Vectors for large benchmarks, drawn from a mixture that is fitted to those of a real collection."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats

MEMBERS = 20  # vectors of a component, on average
DIRECTIONS = 16  # principal directions of a component, at most
DRAWN = 100_000  # vectors drawn at a time
NEIGHBOURS = 100  # that distances and dimensions are compared by
CHECKED = 2000  # vectors whose neighbours are looked up
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Normal distributions, each wide in a few directions of its own and narrow in all others.

    weights: (c,). centres: (c, d). axes: (c, r, d), each direction times its standard deviation. rest: (c,) standard
    deviation in every other direction.
    """

    weights: NDArray[np.float64]
    centres: Floats
    axes: Floats
    rest: Floats

    def draw(self, count: int, random: np.random.Generator) -> Floats:
        """Draw vectors (count, d)."""
        drawn = np.empty((count, self.centres.shape[1]), np.float32)
        for start in range(0, count, DRAWN):
            part = drawn[start : start + DRAWN]
            component = np.sort(random.choice(len(self.weights), len(part), p=self.weights))
            part[:] = random.standard_normal(part.shape, np.float32) * self.rest[component, None]
            begins = np.searchsorted(component, np.arange(len(self.weights) + 1))
            for number, (begin, end) in enumerate(pairwise(begins)):
                along = random.standard_normal((end - begin, self.axes.shape[1]), np.float32)
                part[begin:end] += self.centres[number] + along @ self.axes[number]
            random.shuffle(part)
        return drawn


def fit_mixture(vectors: Floats, members: int = MEMBERS) -> Mixture:
    """Fit a mixture to vectors (n, d): k-means, then the principal directions of each cluster."""
    count, dimensions = vectors.shape
    clusters = max(1, count // members)
    kmeans = faiss.Kmeans(dimensions, clusters, niter=20, seed=0, min_points_per_centroid=1)
    kmeans.train(vectors)
    nearest = kmeans.index.search(vectors, 1)[1][:, 0]
    sizes = np.bincount(nearest, minlength=clusters)
    centres = np.zeros((clusters, dimensions), np.float32)
    axes = np.zeros((clusters, DIRECTIONS, dimensions), np.float32)
    rest = np.zeros(clusters, np.float32)
    for number in np.flatnonzero(sizes):
        own = vectors[nearest == number]
        centres[number] = own.mean(axis=0)
        _, deviations, directions = np.linalg.svd(own - centres[number], full_matrices=False)
        variances = deviations**2 / max(1, len(own) - 1)
        kept = min(DIRECTIONS, len(variances))
        axes[number, :kept] = directions[:kept] * np.sqrt(variances[:kept, None])
        rest[number] = np.sqrt(variances[kept:].sum() / max(1, dimensions - kept))
    return Mixture(sizes / sizes.sum(), centres, axes, rest)


def describe_neighbours(vectors: Floats) -> dict[str, Any]:
    """Return quantiles of distances to the 1st and 100th neighbour, and the intrinsic dimension.

    The dimension is the median over vectors of the maximum likelihood estimate (Levina and Bickel 2004).
    """
    flat = faiss.IndexFlatL2(vectors.shape[1])
    flat.add(vectors)
    queries = vectors[
        np.random.default_rng(0).choice(len(vectors), min(CHECKED, len(vectors)), replace=False)
    ]
    squared = flat.search(queries, NEIGHBOURS + 1)[0][:, 1:]
    distances = np.sqrt(np.maximum(squared, 1e-12))
    logs = np.log(distances[:, -1:] / distances[:, :-1])
    return {
        "first": np.quantile(distances[:, 0], QUANTILES).round(2).tolist(),
        "hundredth": np.quantile(distances[:, -1], QUANTILES).round(2).tolist(),
        "dimension": round(float(np.median(1 / np.maximum(logs.mean(axis=1), 1e-9))), 1),
    }
