"""What every loss on scores does before its own formula."""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from cbir.errors import InvalidInput


class ScoreLoss(nn.Module):
    """A loss on scores and relevance, both (batch, d) or (d,): how well the scores rank what is relevant first.

    One number comes back, the mean over the vectors of the batch; lower is better. Relevance is any numeric type:
    above 0 is relevant where a loss knows only relevant and not. Vectors from which nothing can be learnt, all
    alike for instance, are left out; InvalidInput where that leaves none, or where shapes do not agree. Half
    precision becomes float32, inside autocast too.
    """

    name: ClassVar[str]

    def forward(self, scores: Tensor, relevance: Tensor) -> Tensor:
        """The loss, a float32 or float64 scalar."""
        if scores.shape != relevance.shape or scores.ndim not in (1, 2) or not scores.is_floating_point():
            shapes = " and ".join("x".join(map(str, of.shape)) or "a number" for of in (scores, relevance))
            raise InvalidInput(
                f"{self.name} takes floating-point scores and relevance of one shape, not {shapes}"
            )
        with torch.autocast(scores.device.type, enabled=False):
            scores = scores if scores.dtype == torch.float64 else scores.float()
            relevance = relevance.to(scores.dtype)
            if scores.ndim == 1:
                scores, relevance = scores[None], relevance[None]
            usable = self.usable(relevance)
            if not usable.any():
                raise InvalidInput(f"{self.name} learns nothing from this batch: {self.needs}")
            return self.values(scores[usable], relevance[usable]).mean()

    needs: ClassVar[str] = "it needs relevant and irrelevant images together; use a sampler that draws both"

    def usable(self, relevance: Tensor) -> Tensor:
        """Which vectors (batch,) teach something, of relevance (batch, d)."""
        relevant = relevance > 0
        return relevant.any(dim=1) & ~relevant.all(dim=1)

    @abstractmethod
    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        """The loss of each vector (batch,), of usable ones alone."""


def mean_where(values: Tensor, where: Tensor) -> Tensor:
    """Means (batch,) of `values` (batch, d) over the places that `where` marks, at least one a row."""
    return torch.where(where, values, torch.zeros_like(values)).sum(dim=1) / where.sum(dim=1)
