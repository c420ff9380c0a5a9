"""Ranking network whose weights are sampled by dropout: layers, and a dense layer with one score."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn

from cbir.learn.severity.unit_dropout import UnitDropout, with_dropout


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
