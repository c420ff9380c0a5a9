"""Losses of pytorch-metric-learning, called like ours."""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from pytorch_metric_learning import losses, miners
from torch import Tensor, nn

from cbir.errors import InvalidInput


class MetricLoss(nn.Module):
    """A loss of pytorch-metric-learning with its usual miner, if it has one.

    Takes embeddings (n, k), which it normalises, and labels (n,).
    """

    def __init__(self, loss: Any, miner: Any = None) -> None:
        super().__init__()
        self.loss, self.miner = loss, miner

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of `embeddings` (n, k) with `labels` (n,)."""
        with torch.autocast(embeddings.device.type, enabled=False):
            vectors = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
            mined = () if self.miner is None else (self.miner(vectors, labels),)
            return cast(Tensor, self.loss(vectors, labels, *mined))


def triplet_loss(margin: float = 0.2) -> MetricLoss:
    """Return the triplet loss with the hardest triplets of a batch; `margin` in units of distance."""
    return MetricLoss(
        losses.TripletMarginLoss(_positive(margin, "margin", "triplet")), miners.BatchHardMiner()
    )


def contrastive_loss(margin: float = 0.5) -> MetricLoss:
    """Return the contrastive loss; pairs of two classes are pushed `margin` apart."""
    return MetricLoss(losses.ContrastiveLoss(neg_margin=_positive(margin, "margin", "contrastive")))


def multi_similarity_loss() -> MetricLoss:
    """Return the multi-similarity loss with its miner."""
    return MetricLoss(losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner())


def smooth_ap_loss(temperature: float = 0.01) -> MetricLoss:
    """Return Smooth-AP; `temperature` is the width of its sigmoids, in units of cosine similarity."""
    return MetricLoss(losses.SmoothAPLoss(_positive(temperature, "temperature", "smooth-ap")))


METRIC_LOSSES: dict[str, Callable[..., MetricLoss]] = {
    "triplet": triplet_loss,
    "contrastive": contrastive_loss,
    "multi-similarity": multi_similarity_loss,
    "smooth-ap": smooth_ap_loss,
}


def _positive(value: float, option: str, loss: str) -> float:
    if not 0 < value < math.inf:
        raise InvalidInput(f"the {option} of {loss} must be above 0, not {value}")
    return value
