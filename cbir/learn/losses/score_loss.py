"""Base of the losses on scores and relevance."""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from cbir.errors import InvalidInput


class ScoreLoss(nn.Module):
    """A loss on scores and relevance, both (batch, d) or (d,): low if relevant images have the highest scores.

    The result is the mean over the vectors of the batch. Relevance is of any numeric type; for losses that only
    distinguish relevant from irrelevant, above 0 is relevant. Vectors that teach nothing, such as all relevant, are
    left out. Half precision becomes float32, inside autocast too.
    """

    name: ClassVar[str]

    def forward(self, scores: Tensor, relevance: Tensor) -> Tensor:
        """Return the loss, a float32 or float64 scalar.

        Raises InvalidInput if the shapes of `scores` and `relevance` differ, or no vector teaches anything.
        """
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

    needs: ClassVar = "it needs relevant and irrelevant images together; use a sampler that provides both"

    def usable(self, relevance: Tensor) -> Tensor:
        """Return a mask (batch,) of the vectors of `relevance` (batch, d) that teach something."""
        relevant = relevance > 0
        return relevant.any(dim=1) & ~relevant.all(dim=1)

    @abstractmethod
    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        """Return the loss (batch,) of each vector; all are usable."""


def check_class_labels(embeddings: Tensor, labels: Tensor, classes: int) -> None:
    """Raise InvalidInput unless `embeddings` (n, k) have `labels` (n,) from 0 to classes - 1."""
    if embeddings.ndim != 2 or labels.shape != embeddings.shape[:1] or not len(labels):
        raise InvalidInput("a loss takes embeddings (n, k) and a label for each")
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise InvalidInput(f"labels must be from 0 to {classes - 1}")


def mean_where(values: Tensor, where: Tensor) -> Tensor:
    """Return the mean (batch,) of `values` (batch, d) over the mask `where`, which marks at least one per row."""
    return torch.where(where, values, torch.zeros_like(values)).sum(dim=1) / where.sum(dim=1)
