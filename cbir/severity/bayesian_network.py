"""A ranking function with dropout: a backbone, and a dense layer that gives one score."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from cbir.models import backbones
from cbir.severity.unit_dropout import UnitDropout, with_dropout


class BayesianNetwork(nn.Module):
    """Grey images (n, 1, side, side), float32 from 0 to 1, to scores (n,) and features (n, k).

    Dropout comes before every convolution and dense layer but the first one, in training and in `sampled` alike.
    Raises InvalidInput and NotFound as `backbones.build` does.
    """

    def __init__(
        self, backbone: str = "small", dropout: float = 0.2, weights: Path | str | None = None
    ) -> None:
        super().__init__()
        built = backbones.build_backbone(backbone, dimensions=None, pooling="average", weights=weights)
        self.layers = nn.Sequential(*_in_a_row(built.network), built.pool)
        self.head: nn.Module = nn.Linear(built.features, 1)
        self.width = built.features
        self.dropouts = with_dropout(self, dropout)

    @property
    def biased(self) -> nn.Linear:
        """The layer that gives the score, without its dropout."""
        assert isinstance(self.head, nn.Sequential)
        layer = self.head[1]
        assert isinstance(layer, nn.Linear)
        return layer

    def forward(self, images: Tensor) -> Tensor:
        """Scores (n,)."""
        found: Tensor = self.head(self.layers(images))[:, 0]
        return found

    def masks(self, passes: int, generator: torch.Generator) -> list[Tensor]:
        """So many samples of the weights: for every dropout a mask (passes, units)."""
        return [dropout.draw(passes, generator) for dropout in self.dropouts]

    @contextmanager
    def with_masks(self, masks: list[Tensor]) -> Iterator[None]:
        """Inside, the n images of each of `passes` samples come one sample after the other: (passes n, ...)."""
        for dropout, mask in zip(self.dropouts, masks, strict=True):
            dropout.masks = mask.to(self.biased.weight.device)
        try:
            yield
        finally:
            for dropout in self.dropouts:
                dropout.masks = None

    def sampled(self, images: Tensor, masks: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Scores (passes, n) under each sample of the weights, and features (n, k), their mean over the samples.

        What comes before the first dropout is computed once for all passes.
        """
        passes = len(masks[0])
        once = next(place for place, layer in enumerate(self.layers) if _drops(layer))
        seen = self.layers[:once](images)
        with self.with_masks(masks):
            features = self.layers[once:](seen.repeat(passes, *(1,) * (seen.ndim - 1)))
            scores = self.head(features)[:, 0]
        return scores.view(passes, -1), features.view(passes, len(images), -1).mean(dim=0)


def _in_a_row(network: nn.Module) -> list[nn.Module]:
    """The layers that follow each other, from rows within rows."""
    if type(network) is nn.Sequential:
        return [layer for part in network for layer in _in_a_row(part)]
    return [network]


def _drops(layer: nn.Module) -> bool:
    return any(isinstance(part, UnitDropout) for part in layer.modules())
