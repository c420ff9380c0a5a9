"""Ranking network with dropout: a backbone and a dense layer with one score."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn

from cbir.models import backbones
from cbir.severity.unit_dropout import UnitDropout, with_dropout


class BayesianNetwork(nn.Module):
    """Maps grey images (n, 1, side, side), float32 from 0 to 1, to scores (n,) and features (n, k).

    Dropout precedes every convolution and dense layer except the first, in training and in `sampled`. Raises
    InvalidInput and NotFound like `backbones.build_backbone`.
    """

    def __init__(self, backbone: str = "small", dropout: float = 0.2, weights: str | None = None) -> None:
        super().__init__()
        built = backbones.build_backbone(backbone, dimensions=None, pooling="average", weights=weights)
        self.layers = nn.Sequential(*_flatten(built.network), built.pool)
        self.head: nn.Module = nn.Linear(built.features, 1)
        self.width = built.features
        self.dropouts = with_dropout(self, dropout)

    @property
    def biased(self) -> nn.Linear:
        """Layer that computes the score, without its dropout."""
        return cast(nn.Linear, self.head.get_submodule("1"))

    def forward(self, images: Tensor) -> Tensor:
        """Return scores (n,)."""
        return cast(Tensor, self.head(self.layers(images))[:, 0])

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

    def sampled(self, images: Tensor, masks: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return scores (passes, n) of `images` for each weight sample in `masks`, and mean features (n, k).

        Layers before the first dropout are computed once for all passes.
        """
        passes = len(masks[0])
        has_dropout = [
            any(isinstance(part, UnitDropout) for part in layer.modules()) for layer in self.layers
        ]
        first = has_dropout.index(True)
        maps = self.layers[:first](images)
        with self.with_masks(masks):
            features = self.layers[first:](maps.repeat(passes, *(1,) * (maps.ndim - 1)))
            scores = self.head(features)[:, 0]
        return scores.view(passes, -1), features.view(passes, len(images), -1).mean(dim=0)


def _flatten(network: nn.Module) -> list[nn.Module]:
    """Return the layers of nested `nn.Sequential` modules as one list."""
    if type(network) is nn.Sequential:
        return [layer for part in network for layer in _flatten(part)]
    return [network]
