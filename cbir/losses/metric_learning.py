"""Losses of pytorch-metric-learning, called like ours."""

from typing import Any, cast

import torch
from pytorch_metric_learning import losses, miners
from torch import Tensor, nn

METRIC_LOSSES: dict[str, Any] = {
    "triplet": lambda margin=0.2: (losses.TripletMarginLoss(margin), miners.BatchHardMiner()),
    "contrastive": lambda margin=0.5: (losses.ContrastiveLoss(neg_margin=margin), None),
    "multi-similarity": lambda: (losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner()),
    "smooth-ap": lambda temperature=0.01: (losses.SmoothAPLoss(temperature), None),
}


class MetricLoss(nn.Module):
    """A loss of pytorch-metric-learning with its usual miner.

    triplet (batch-hard mining), contrastive, multi-similarity (with its miner) or smooth-ap. Takes embeddings (n, k),
    which it normalises, and labels (n,).
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__()
        self.name = name
        self.loss, self.miner = METRIC_LOSSES[name](**options)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of `embeddings` (n, k) with `labels` (n,)."""
        with torch.autocast(embeddings.device.type, enabled=False):
            vectors = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
            mined = () if self.miner is None else (self.miner(vectors, labels),)
            return cast(Tensor, self.loss(vectors, labels, *mined))
