"""An ensemble of SVMs with the same positive examples and each with its own negative ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList
from cbir.rerank import svm
from cbir.rerank.expansion import KernelExpansion, kernel


class Examples:
    """The training sets of all machines, and the kernel among all that are in any.

    positives: (P,) places in the ranking list. drawn: (T, q) places of each machine's negatives.
    gamma: of the kernel exp(-gamma |x - v|^2). with_query: the query itself is one more positive, the last.
    """

    def __init__(
        self, positives: NDArray[np.int64], drawn: NDArray[np.int64], query: NDArray[np.float32],
        ranking: RankingList, gallery: Gallery, gamma: float, with_query: bool = False,
    ) -> None:  # fmt: skip
        self.gamma = gamma
        sets = np.hstack([np.tile(positives, (len(drawn), 1)), drawn])
        places, members = np.unique(sets, return_inverse=True)
        self.members = members.reshape(sets.shape)
        self.vectors = gallery.vectors(ranking.rows[places])
        if with_query:
            self.members = np.insert(self.members, len(positives), len(places), axis=1)
            self.vectors = np.vstack([self.vectors, query])
        self.kernel = kernel(self.vectors, self.vectors, gamma, query)
        self.signs = np.repeat([1.0, -1.0], [len(positives) + with_query, drawn.shape[1]])

    def train(self, machines: slice, C: float, membership: NDArray[np.float64]) -> "Machines":
        """The named machines, with `membership` (P,) of the positives and 1 of the negatives."""
        members = self.members[machines]
        kernels = self.kernel[members[:, :, None], members[:, None, :]]
        bounds = np.full(members.shape, C)
        bounds[:, : len(membership)] *= membership
        coefficients, bias = svm.solve(kernels, self.signs, bounds)
        return Machines(self, members, coefficients, bias)


@dataclass(frozen=True, eq=False)
class Machines:
    """Trained machines: members (T, m) of the examples, their coefficients (T, m), bias (T,)."""

    examples: Examples
    members: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    bias: NDArray[np.float64]

    def of_positives(self) -> NDArray[np.float64]:
        """Decision values (T, P) of the positives."""
        positives = self.members[0, self.examples.signs > 0.0]
        similar = self.examples.kernel[positives[None, :, None], self.members[:, None, :]]
        return (similar @ self.coefficients[:, :, None])[:, :, 0] + self.bias[:, None]

    def sum(self) -> KernelExpansion:
        """The sum of their decision values as a function of the image."""
        vectors = self.examples.vectors
        coefficients = np.zeros(len(vectors))
        np.add.at(coefficients, self.members, self.coefficients)
        total = KernelExpansion(vectors, coefficients, float(self.bias.sum()), self.examples.gamma)
        return total.merged()
