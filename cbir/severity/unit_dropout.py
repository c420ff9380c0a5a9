"""Dropout whose draws are kept: a sample of the weights is one draw for all images that see it."""

import torch
from torch import Tensor, nn


class UnitDropout(nn.Module):
    """Drops channels of a map (n, c, h, w), or values of (n, c), and scales those that stay (Gal & Ghahramani 2016).

    A channel that is dropped is a row of the next layer's weights set to zero: W = M diag(z), as in eq. 9 of Kadota
    et al. Where `masks` (samples, c) are set, each is for as many images as there are for each of the others, one
    sample's images after the other's. Without masks nothing is dropped.
    """

    masks: Tensor | None

    def __init__(self, units: int, share: float) -> None:
        super().__init__()
        self.units, self.share = units, share
        self.masks = None

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """(count, units) float32: 0 for a dropped unit, else 1 / (1 - share)."""
        kept = 1.0 - self.share
        return torch.empty(count, self.units).bernoulli_(kept, generator=generator) / kept

    def forward(self, features: Tensor) -> Tensor:
        if self.masks is None:
            return features
        samples, around = len(self.masks), (1,) * (features.ndim - 2)
        seen = features.unflatten(0, (samples, -1))
        return (seen * self.masks.view(samples, 1, self.units, *around)).flatten(0, 1)


def with_dropout(network: nn.Module, share: float) -> list[UnitDropout]:
    """Put a dropout before every convolution and dense layer of `network` but the first, which sees pixels.

    Convolutions of each channel alone (depthwise) mix nothing and are left as they are. Returns the dropouts.
    """
    placed: list[UnitDropout] = []
    mixing = [
        (path, layer) for path, layer in network.named_modules() if isinstance(layer, nn.Conv2d | nn.Linear)
    ]
    for path, layer in mixing[1:]:
        if isinstance(layer, nn.Conv2d) and layer.groups > 1:
            continue
        units = layer.in_channels if isinstance(layer, nn.Conv2d) else layer.in_features
        placed.append(UnitDropout(units, share))
        parent, _, name = path.rpartition(".")
        setattr(network.get_submodule(parent), name, nn.Sequential(placed[-1], layer))
    return placed
