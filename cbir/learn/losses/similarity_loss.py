"""Losses on scores applied to embeddings: each image of a batch is a query to the others."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cbir.errors import InvalidInput
from cbir.learn.losses.score_loss import ScoreLoss


class SimilarityLoss(nn.Module):
    """Apply `loss` to each image's cosine similarities to the others; those of its class are relevant.

    Takes embeddings (n, k), floating point, and labels (n,), integers, n at least 3. Images without another of their
    class are left out; InvalidInput if that leaves none.
    """

    def __init__(self, loss: ScoreLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of `embeddings` (n, k) with `labels` (n,)."""
        n = len(embeddings)
        if embeddings.ndim != 2 or labels.shape != (n,) or n < 3:
            raise InvalidInput("a loss takes embeddings (n, k) and a label for each, of at least 3 images")
        with torch.autocast(embeddings.device.type, enabled=False):
            vectors = normalize(embeddings if embeddings.dtype == torch.float64 else embeddings.float())
            others = ~torch.eye(n, dtype=torch.bool, device=embeddings.device)
            similarities = (vectors @ vectors.T)[others].view(n, n - 1)
            relevance = (labels[:, None] == labels)[others].view(n, n - 1)
            return cast(Tensor, self.loss(similarities, relevance))
