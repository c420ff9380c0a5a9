"""Networks with one score whose weights are sampled by dropout, of pictures and of an encoder's values."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from torch import Tensor, nn

from cbir.descriptors.networks import backbones


class UnitDropout(nn.Module):
    """Drops channels of (n, c, h, w), or values of (n, c), and scales the others (Gal & Ghahramani 2016).

    Dropping a channel sets a row of the next layer's weights to zero: W = M diag(z), eq. 9 of Kadota et al. Each of
    the `masks` (samples, c) applies to an equal share of the batch, in order. Without masks nothing is dropped.
    """

    masks: Tensor | None

    def __init__(self, units: int, share: float) -> None:
        super().__init__()
        self.units, self.share = units, share
        self.masks = None

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw `count` masks (count, units) with `generator`: 0 for a dropped unit, else 1 / (1 - share)."""
        keep_probability = 1.0 - self.share
        masks = torch.empty(count, self.units).bernoulli_(keep_probability, generator=generator)
        return masks / keep_probability

    def forward(self, features: Tensor) -> Tensor:
        if self.masks is None:
            return features
        samples, spatial = len(self.masks), (1,) * (features.ndim - 2)
        by_sample: Tensor = features.unflatten(0, (samples, -1))  # type: ignore[no-untyped-call]
        return (by_sample * self.masks.view(samples, 1, self.units, *spatial)).flatten(0, 1)


def with_dropout(network: nn.Module, share: float) -> list[UnitDropout]:
    """Insert dropouts with `share` before the convolutions and dense layers of `network`, and return them.

    The first layer, whose input are pixels, and depthwise convolutions, which mix no channels, are left unchanged.
    """
    dropouts: list[UnitDropout] = []
    mixing = [
        (path, layer) for path, layer in network.named_modules() if isinstance(layer, nn.Conv2d | nn.Linear)
    ]
    for path, layer in mixing[1:]:
        if isinstance(layer, nn.Conv2d) and layer.groups > 1:
            continue
        units = layer.in_channels if isinstance(layer, nn.Conv2d) else layer.in_features
        dropouts.append(UnitDropout(units, share))
        parent, _, name = path.rpartition(".")
        setattr(network.get_submodule(parent), name, nn.Sequential(dropouts[-1], layer))
    return dropouts


class SampledNetwork(nn.Module):
    """Maps inputs (n, ...) to scores (n,) and features (n, width).

    Dropout precedes every convolution and dense layer except the first, in training and in `sampled`.

    Parameters
    ----------
    layers : nn.Sequential
        Maps inputs to features.
    width : int
        Number of features.
    dropout : float
        Share of dropped units.
    """

    def __init__(self, layers: nn.Sequential, width: int, dropout: float) -> None:
        super().__init__()
        self.layers = layers
        self.head: nn.Module = nn.Linear(width, 1)
        self.width = width
        self.dropouts = with_dropout(self, dropout)

    @property
    def biased(self) -> nn.Linear:
        """Layer that computes the score, without its dropout."""
        return cast(nn.Linear, self.head.get_submodule("1"))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return scores (n,)."""
        return cast(Tensor, self.head(self.layers(inputs))[:, 0])

    def trained_part(self, inputs: Tensor) -> Tensor:
        """Return scores (n,) from the input of the first layer that is trained."""
        return self.forward(inputs)

    def masks(self, passes: int, generator: torch.Generator) -> list[Tensor]:
        """Sample the weights `passes` times with `generator`: a mask (passes, units) for each dropout."""
        return [dropout.draw(passes, generator) for dropout in self.dropouts]

    @contextmanager
    def with_masks(self, masks: list[Tensor]) -> Iterator[None]:
        """Apply `masks`; inputs are then the n images of each sample, one sample after the other: (passes n, ...)."""
        for dropout, mask in zip(self.dropouts, masks, strict=True):
            dropout.masks = mask.to(self.biased.weight.device)
        try:
            yield
        finally:
            for dropout in self.dropouts:
                dropout.masks = None

    def sampled(self, inputs: Tensor, masks: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return scores (passes, n) of `inputs` for each weight sample in `masks`, and mean features (n, k).

        Layers before the first dropout are computed once for all passes.
        """
        passes = len(masks[0])
        has_dropout = [
            any(isinstance(part, UnitDropout) for part in layer.modules()) for layer in self.layers
        ]
        first = has_dropout.index(True)
        maps = self.layers[:first](inputs)
        with self.with_masks(masks):
            features = self.layers[first:](maps.repeat(passes, *(1,) * (maps.ndim - 1)))
            scores = self.head(features)[:, 0]
        return scores.view(passes, -1), features.view(passes, len(inputs), -1).mean(dim=0)


class BayesianNetwork(SampledNetwork):
    """Maps grey images (n, 1, side, side), float32 from 0 to 1, to scores (n,) and features (n, k).

    Raises InvalidInput and NotFound like `backbones.build_backbone`.
    """

    def __init__(self, backbone: str = "small", dropout: float = 0.2, weights: str | None = None) -> None:
        built = backbones.build_backbone(backbone, dimensions=None, pooling="average", weights=weights)
        super().__init__(nn.Sequential(*_flatten(built.network), built.pool), built.features, dropout)


def _flatten(network: nn.Module) -> list[nn.Module]:
    """Return the layers of nested `nn.Sequential` modules as one list."""
    if type(network) is nn.Sequential:
        return [layer for part in network for layer in _flatten(part)]
    return [network]


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
