"""Ranking network with dropout for the values of a pretrained encoder, which itself is left unchanged."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from torch import Tensor, nn

from cbir.learn.severity.sampled_network import SampledNetwork

TINY = 1e-12
MOST_ROWS = 4096  # that directions are fitted on


@dataclass(frozen=True, eq=False)
class ValueProjection:
    """Projection of values x (d,) to `weight` (k, d) @ x + `bias` (k,), float32."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Project `values` (n, d)."""
        return values @ self.weight.T + self.bias


def principal_projection(values: NDArray[np.float32], directions: int) -> ValueProjection:
    """Return the projection to the principal directions of values.

    Parameters
    ----------
    values : (n, d) float32
        Of more than 4,096 images, as many are used, evenly spaced.
    directions : int
        Their number, k. If n or d are smaller, the others stay 0.

    Returns
    -------
    ValueProjection
        Centred, with a mean square of 1 per direction, the same scale for all of them.
    """
    if len(values) > MOST_ROWS:
        values = values[np.linspace(0, len(values) - 1, MOST_ROWS).astype(np.int64)]
    mean = values.mean(axis=0, dtype=np.float64)
    centred = values - mean.astype(np.float32)
    wide = values.shape[0] < values.shape[1]
    products = (centred @ centred.T if wide else centred.T @ centred).astype(np.float64)
    size = len(products)
    variances, vectors = eigh(products, subset_by_index=(max(0, size - directions), size - 1))
    real = variances > TINY * max(variances.max(), TINY)
    variances, vectors = variances[real][::-1], vectors[:, real][:, ::-1]
    axes = centred.T @ (vectors / np.sqrt(variances)) if wide else vectors
    scale = np.sqrt(variances.sum() / len(values) / directions)
    weight = np.zeros((directions, values.shape[1]))
    weight[: axes.shape[1]] = axes.T / max(scale, TINY)
    return ValueProjection(weight.astype(np.float32), (-weight @ mean).astype(np.float32))


class ValueNetwork(SampledNetwork):
    """Maps values (n, d) float32 to scores (n,) and features (n, hidden).

    The first layer projects the values and is not trained. Then come two dense layers, each after dropout.

    Parameters
    ----------
    values : int
        Values of an image, d.
    directions : int
        Outputs of the projection.
    hidden : int
        Units between the dense layers.
    dropout : float
        Share of dropped units.
    """

    def __init__(self, values: int, directions: int = 256, hidden: int = 64, dropout: float = 0.2) -> None:
        projection = nn.Linear(values, directions).requires_grad_(False)
        layers = nn.Sequential(projection, nn.Linear(directions, hidden), nn.ReLU())
        super().__init__(layers, hidden, dropout)

    @property
    def values(self) -> int:
        """Number of values of an image."""
        return cast(nn.Linear, self.layers[0]).in_features

    def set_projection(self, projection: ValueProjection) -> None:
        """Set the first layer."""
        layer = cast(nn.Linear, self.layers[0])
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(projection.weight))
            layer.bias.copy_(torch.from_numpy(projection.bias))

    def trained_part(self, inputs: Tensor) -> Tensor:
        return cast(Tensor, self.head(self.layers[1:](inputs))[:, 0])
