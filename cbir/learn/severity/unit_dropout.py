"""Dropout with explicit masks, so that many images share one sample of the weights."""

import torch
from torch import Tensor, nn


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
