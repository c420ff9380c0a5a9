"""Ensembles of SVMs that share positive examples, each with its own negative ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.knn_graph import COPY, NearestDistances
from cbir.gallery.vector_blocks import Doubles, Floats, Rows
from cbir.rerank import svm
from cbir.rerank.kernel_expansion import KernelExpansion, kernel
from cbir.rerank.query_list import QueryList
from cbir.system.threads import checkpoint

# Nearest images whose distances to their nearest others are the scale: the middle of those compared
MEASURED = 100
BLOCK = 1000  # examples of the SVMs that are trained at a time: bounds the memory for their kernel


class TrainingSets:
    """Training sets of T SVMs.

    Parameters
    ----------
    vectors : (e, d) float32
        Examples that are in any set.
    members : (T, m) int64
        Examples of each set: rows of `vectors`, in the order of `signs`.
    signs : (m,) float64
        1 for a positive example, -1 for a negative one.
    gamma : float
        Of the kernel exp(-gamma |x - v|^2).
    centre : (d,) float32
        A point near the examples, for the precision of distances.
    """

    def __init__(
        self, vectors: Floats, members: NDArray[np.int64], signs: Doubles, gamma: float,
        centre: Floats,
    ) -> None:  # fmt: skip
        self.vectors, self.members, self.signs, self.gamma = vectors, members, signs, gamma
        self.centre = centre

    @classmethod
    def around_query(
        cls, query: Floats, gallery: Gallery, positives: Rows, negatives: Rows, gamma: float,
        with_query: bool = False,
    ) -> "TrainingSets":  # fmt: skip
        """Create training sets from rows of a gallery.

        Parameters
        ----------
        query : (d,) float32
            Query vector.
        gallery : Gallery
            Vectors of the collection.
        positives : (P,) int64
            Rows that are positive examples in every set.
        negatives : (T, q) int64
            Rows that are negative examples of each set.
        gamma : float
            Of the kernel exp(-gamma |x - v|^2).
        with_query : bool
            Whether the query is one more positive example, the last one.
        """
        sets = np.hstack([np.tile(positives, (len(negatives), 1)), negatives])
        rows, inverse = np.unique(sets, return_inverse=True)
        members, vectors = inverse.reshape(sets.shape), gallery.vectors(rows)
        if with_query:
            members = np.insert(members, len(positives), len(rows), axis=1)
            vectors = np.vstack([vectors, query])
        signs = np.repeat([1.0, -1.0], [len(positives) + with_query, negatives.shape[1]])
        return cls(vectors, members, signs, gamma, query)

    @classmethod
    def sharing(
        cls, positives: Floats, negatives: Floats, gallery: Gallery, drawn: Rows, gamma: float,
        centre: Floats,
    ) -> "TrainingSets":  # fmt: skip
        """Create training sets that share certain examples; the order is positives, negatives, drawn negatives.

        Parameters
        ----------
        positives : (p, d) float32
            Positive examples of every set.
        negatives : (r, d) float32
            Negative examples of every set.
        gallery : Gallery
            Vectors of the collection.
        drawn : (T, q) int64
            Gallery rows that are further negative examples of each set.
        gamma, centre
            As of the class.
        """
        shared = np.vstack([positives, negatives])
        rows, inverse = np.unique(drawn, return_inverse=True)
        first = np.tile(np.arange(len(shared)), (len(drawn), 1))
        members = np.hstack([first, len(shared) + inverse.reshape(drawn.shape)])
        signs = np.where(np.arange(members.shape[1]) < len(positives), 1.0, -1.0)
        return cls(np.vstack([shared, gallery.vectors(rows)]), members, signs, gamma, centre)

    def train(self, svms: slice, C: float, membership: Sequence[float] | Doubles) -> "SvmEnsemble":
        """Train SVMs whose penalty of an example is C times its membership (Lin & Wang 2002).

        Parameters
        ----------
        svms : slice
            Which of the T training sets.
        C : float
            Penalty.
        membership : (p,) float64
            Of the first p examples of each set; it is 1 for the others.
        """
        members = self.members[svms]
        bounds = np.full(members.shape, C)
        bounds[:, : len(membership)] *= membership
        coefficients, bias = np.zeros(members.shape), np.zeros(len(members))
        decisions = np.zeros((len(members), int((self.signs > 0.0).sum())))
        step = max(1, BLOCK // max(members.shape[1], 1))
        for start in range(0, len(members), step):
            checkpoint()
            part = slice(start, start + step)
            kernels = self._kernels(members[part])
            coefficients[part], bias[part] = svm.solve_svms(kernels, self.signs, bounds[part])
            similar = kernels[:, self.signs > 0.0]
            decisions[part] = (similar @ coefficients[part, :, None])[:, :, 0] + bias[part, None]
        return SvmEnsemble(self, members, coefficients, bias, decisions)

    def _kernels(self, members: NDArray[np.int64]) -> Doubles:
        """Return the kernel matrices (t, m, m) of the examples `members` (t, m)."""
        rows, inverse = np.unique(members, return_inverse=True)
        matrix = kernel(self.vectors[rows], self.vectors[rows], self.gamma, self.centre)
        places = inverse.reshape(members.shape)
        return matrix[places[:, :, None], places[:, None, :]]


@dataclass(frozen=True, eq=False)
class SvmEnsemble:
    """T trained SVMs.

    Attributes
    ----------
    training_sets : TrainingSets
        Examples that they were trained on.
    members, coefficients : (T, m)
        Examples of each SVM and their coefficients.
    bias : (T,) float64
        Bias of each SVM.
    positive_decisions : (T, p) float64
        Decision values of the positive examples, which all sets share.
    """

    training_sets: TrainingSets
    members: NDArray[np.int64]
    coefficients: Doubles
    bias: Doubles
    positive_decisions: Doubles

    def sum(self) -> KernelExpansion:
        """Return the sum of the decision values as a function of the image."""
        vectors = self.training_sets.vectors
        coefficients = np.zeros(len(vectors))
        np.add.at(coefficients, self.members, self.coefficients)
        gamma = self.training_sets.gamma
        return KernelExpansion(vectors, coefficients, float(self.bias.sum()), gamma).merged()


class NeighbourLikeness:
    """How usual the distances of images to the query are between neighbours near it.

    The share of the MEASURED nearest images whose own nearest other is at least as far: the likeness of searches
    (`NearestDistances.likeness`), on the scale of the surroundings of the query. An image of a small class is soon
    farther than neighbours are from each other; in a large class many are as near.
    """

    def __init__(self, query_list: QueryList) -> None:
        self._ranking = query_list.ranking
        between = np.sqrt(query_list.near_squared[1 : MEASURED + 1, 1:])
        # What is a copy must not depend on the unit of the vectors
        self._unit = float(between.max(initial=0.0)) or 1.0
        between /= self._unit
        between[between <= COPY] = np.inf  # the image itself, and copies
        own = between.min(axis=1, initial=np.inf)
        self._scale = NearestDistances(np.sort(own[np.isfinite(own)]))

    def __call__(self, rows: Rows) -> Doubles:
        """Return the likeness (m,) of gallery rows of the list: above 0, at most 1; 1 without neighbours."""
        distances = self._ranking.distances[np.searchsorted(self._ranking.rows, rows)] / self._unit
        return np.array([self._scale.likeness(distance) or 1.0 for distance in distances.tolist()])


def negative_notes(images: int, negatives: Rows, expected: int) -> tuple[str, ...]:
    """Report a lack of negatives.

    Parameters
    ----------
    images : int
        Length of the ranking list.
    negatives : (sets, q) int64
        Negatives of each SVM.
    expected : int
        Negatives that an SVM should have.
    """
    count = negatives.shape[1]
    if count == 0:
        return (f"only {images} images: no negatives to train on; SVM re-ranking skipped",)
    if count < expected:
        return (f"{count} negatives for each SVM instead of {expected}: there are no more images",)
    return ()
