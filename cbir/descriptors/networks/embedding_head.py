"""Head of an embedding on the values of a pretrained encoder, to length 1."""

from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from torch import Tensor, nn
from torch.nn import functional

KEPT = 0.7  # of the squared length: see bench/results/embeddings.md
TINY = 1e-12
SMOOTHING = 0.1  # of the variance within classes, as a share of its mean


class EmbeddingHead(nn.Module):
    """Map an encoder's values (n, features) to unit vectors (n, size).

    The values are centred and projected to the directions of linear discriminant analysis, in which images of a class
    vary equally. A linear layer, which `start_from` sets to the first `dimensions` of them, learns from classes. What
    it does not need for these it forgets, so that classes which it has not seen become less distinct: beside its
    output a vector has the projected values themselves, with the share `kept` of the squared length. In training mode
    they are left out: (n, dimensions).

    Parameters
    ----------
    features : int
        Values of the encoder.
    dimensions : int
        Outputs of the linear layer; fewer where there are fewer directions.
    directions : int
        Directions; fewer where there are fewer values.
    kept : float
        0 (the linear layer alone) to below 1.
    """

    mean: Tensor
    rotation: Tensor

    def __init__(
        self, features: int, dimensions: int = 128, directions: int = 512, kept: float = 0.0
    ) -> None:
        super().__init__()
        directions = min(directions, features)
        self.features, self.dimensions = features, min(dimensions, directions)
        self.directions, self.kept = directions, kept
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("rotation", torch.zeros(directions, features))
        self.linear = nn.Linear(directions, self.dimensions)

    @property
    def options(self) -> dict[str, int | float]:
        """Arguments that make a head of this form."""
        return {"features": self.features, "dimensions": self.dimensions, "directions": self.directions,
                "kept": self.kept}  # fmt: skip

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.dimensions + (self.directions if self.kept else 0)

    def start_from(self, values: NDArray[np.floating], classes: NDArray[np.int64]) -> Self:
        """Compute centre and directions of `values` (n, features) with their `classes` (n,).

        Directions are principal ones, scaled to equal variance within the average class; the first separate the
        classes best (R. A. Fisher 1936; C. R. Rao 1948).
        """
        centred = values.astype(np.float32)
        mean = centred.mean(axis=0)
        centred -= mean
        last = self.features - 1
        _, principal = eigh(centred.T @ centred, subset_by_index=(last - self.directions + 1, last))
        projected = centred @ principal
        numbers = np.unique(classes)
        within = np.mean(
            [np.atleast_2d(np.cov(projected[classes == c].T, bias=True)) for c in numbers], axis=0
        )
        smooth = max(SMOOTHING * np.trace(within) / self.directions, TINY)
        variances, axes = np.linalg.eigh(within + smooth * np.eye(self.directions))
        whitening = axes / np.sqrt(variances)
        scatter, separating = np.linalg.eigh(np.cov((projected @ whitening).T, bias=True))
        # A mean squared length of 1, so that one learning rate suits all encoders
        directions = principal @ whitening @ separating[:, ::-1] / np.sqrt(max(scatter.sum(), TINY))
        with torch.no_grad():
            self.mean.copy_(torch.from_numpy(mean))
            self.rotation.copy_(torch.from_numpy(np.ascontiguousarray(directions.T, np.float32)))
            self.linear.weight.copy_(torch.eye(self.dimensions, self.directions))
            self.linear.bias.zero_()
        return self

    def forward(self, values: Tensor) -> Tensor:
        projected = (values - self.mean) @ self.rotation.T
        learnt = functional.normalize(self.linear(projected), dim=1)
        if self.training or not self.kept:
            return learnt
        parts = learnt * (1 - self.kept) ** 0.5, functional.normalize(projected, dim=1) * self.kept**0.5
        return torch.cat(parts, dim=1)
