"""Diverse selections from features: k-means++ over gradients of pairs, and typical images of clusters."""

import numpy as np
from numpy.typing import NDArray

from service.features.annotate.active.candidate_pool import Rows

MOST_CLUSTERS = 500  # of Hacohen et al., appendix F
NEIGHBOURS = 20  # of the density of an image, in its cluster
ITERATIONS = 20  # of k-means
CHUNK = 10_000  # pairs, to bound memory

Features = NDArray[np.floating]


class PairGradients:
    """Gradients of RankNet's loss of each pair by the last layer's weights, for the more probable answer.

    The gradient of pair (i, j) is (sigmoid(s_i - s_j) - answer) (features of i - features of j); only inner products
    with it are computed, since all gradients of 10,000 images would not fit into memory.

    Parameters
    ----------
    pairs : (m, 2) int64
    mean : (n,)
        Scores of the images.
    features : (n, d)
        Inputs of the last layer.
    """

    def __init__(self, pairs: Rows, mean: Features, features: Features) -> None:
        from scipy.special import expit  # only now: a service starts without it

        self.pairs, (self.first, self.second) = pairs, pairs.T
        self.features = features.astype(np.float64)
        gaps = mean[self.first].astype(np.float64) - mean[self.second]
        self.weights = expit(gaps) - (gaps > 0)
        lengths = [
            np.square(self.features[first] - self.features[second]).sum(axis=1)
            for first, second in (part.T for part in np.array_split(pairs, 1 + len(pairs) // CHUNK))
        ]
        self.squares = self.weights**2 * np.concatenate(lengths)

    def distances(self, pair: int) -> NDArray[np.float64]:
        """Return the squared distances (m,) of all gradients to that of `pair`."""
        difference = self.features[self.first[pair]] - self.features[self.second[pair]]
        along = self.features @ (self.weights[pair] * difference)
        products = self.weights * (along[self.first] - along[self.second])
        return np.asarray(np.maximum(self.squares - 2 * products + self.squares[pair], 0.0), np.float64)


def spread_pairs(gradients: PairGradients, count: int, rng: np.random.Generator) -> Rows:
    """Select `count` pairs by k-means++: the longest gradient, then each with probability by squared distance.

    Ash et al. 2020, Deep batch active learning by diverse, uncertain gradient lower bounds, algorithm 1. Returns
    their numbers (k,), distinct; if all others equal the selected, some of them at random.
    """
    squares = gradients.squares
    selected = [int(rng.choice(np.flatnonzero(squares == squares.max())))]
    nearest = gradients.distances(selected[0])
    while len(selected) < min(count, len(squares)):
        nearest[selected] = 0.0
        total = nearest.sum()
        if total > 0:
            selected.append(int(rng.choice(len(squares), p=nearest / total)))
        else:
            selected.append(int(rng.choice(np.setdiff1d(np.arange(len(squares)), selected))))
        nearest = np.minimum(nearest, gradients.distances(selected[-1]))
    return np.array(selected, np.int64)


def typical_images(
    features: Features, is_used: NDArray[np.bool_], count: int, rng: np.random.Generator
) -> Rows:
    """Select the image in the densest place of each cluster, first of clusters without used images, large ones first.

    Hacohen et al. 2022, Active learning on a budget, section 3: as many clusters as used and new images, at most
    MOST_CLUSTERS; an image is as typical as its mean distance to its nearest NEIGHBOURS in the cluster is small.

    Parameters
    ----------
    features : (n, d)
    is_used : (n,) bool
        Images used before, which are selected last.
    count : int
        Number of images.
    rng : numpy.random.Generator
        Start of the clusters, and ties.

    Returns
    -------
    (k,) int64
        Distinct rows, k = min(count, n).
    """
    from sklearn.cluster import KMeans  # which takes a second to import

    order = rng.permutation(len(features))
    wide, used = features[order].astype(np.float64), is_used[order]
    clusters = min(int(used.sum()) + count, MOST_CLUSTERS, len(np.unique(wide, axis=0)))
    model = KMeans(clusters, n_init=1, max_iter=ITERATIONS, random_state=int(rng.integers(1 << 31)))
    labels = model.fit_predict(wide)
    of_cluster = [np.flatnonzero(labels == number) for number in range(clusters)]
    queues = [
        members[np.lexsort((_sparsity(wide[members]), used[members]))]
        for members in sorted(of_cluster, key=lambda members: (used[members].sum(), -len(members)))
    ]
    turns = [
        (used[row], turn, number, row) for number, rows in enumerate(queues) for turn, row in enumerate(rows)
    ]
    return order[np.array([row for *_, row in sorted(turns)[:count]], np.int64)]


def _sparsity(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean distance (n,) of each of `points` (n, d) to its nearest NEIGHBOURS, or to all if fewer."""
    from sklearn.neighbors import NearestNeighbors  # which takes a second to import

    count = min(NEIGHBOURS, len(points) - 1)
    if not count:
        return np.zeros(len(points))
    nearest = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(points)  # memory linear in n
    return np.asarray(nearest.kneighbors()[0].mean(axis=1), np.float64)
