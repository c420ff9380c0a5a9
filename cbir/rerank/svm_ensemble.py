"""Ensembles of SVMs that share positive examples, each with its own negative ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import Doubles, Floats, Rows
from cbir.rerank import svm
from cbir.rerank.kernel_expansion import KernelExpansion, kernel


class TrainingSets:
    """Training sets of T SVMs, and the kernel among all their examples.

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
        self.kernel = kernel(vectors, vectors, gamma, centre)

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
        kernels = self.kernel[members[:, :, None], members[:, None, :]]
        bounds = np.full(members.shape, C)
        bounds[:, : len(membership)] *= membership
        coefficients, bias = svm.solve_svms(kernels, self.signs, bounds)
        return SvmEnsemble(self, members, coefficients, bias)


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
    """

    training_sets: TrainingSets
    members: NDArray[np.int64]
    coefficients: Doubles
    bias: Doubles

    def positive_decisions(self) -> Doubles:
        """Return the decision values (T, P) of the positive examples, which all sets share."""
        positives = self.members[0, self.training_sets.signs > 0.0]
        similar = self.training_sets.kernel[positives[None, :, None], self.members[:, None, :]]
        return np.asarray((similar @ self.coefficients[:, :, None])[:, :, 0] + self.bias[:, None])

    def sum(self) -> KernelExpansion:
        """Return the sum of the decision values as a function of the image."""
        vectors = self.training_sets.vectors
        coefficients = np.zeros(len(vectors))
        np.add.at(coefficients, self.members, self.coefficients)
        gamma = self.training_sets.gamma
        return KernelExpansion(vectors, coefficients, float(self.bias.sum()), gamma).merged()
