"""Losses on scores, put to work on embeddings: every image of a batch is a query to the others."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cbir.errors import InvalidInput
from cbir.losses.score_loss import ScoreLoss


class SimilarityLoss(nn.Module):
    """`loss` on each anchor's cosine similarities to the other images, of which its own class is relevant.

    Called with embeddings (n, k), floating point, and labels (n,), integers; n at least 3. Anchors alone in their
    class teach nothing and are left out; InvalidInput where all are.
    """

    def __init__(self, loss: ScoreLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss, a scalar."""
        n = len(embeddings)
        if embeddings.ndim != 2 or labels.shape != (n,) or n < 3:
            raise InvalidInput("a loss takes embeddings (n, k) and a label for each, of at least 3 images")
        with torch.autocast(embeddings.device.type, enabled=False):
            vectors = normalize(embeddings if embeddings.dtype == torch.float64 else embeddings.float())
            others = ~torch.eye(n, dtype=torch.bool, device=embeddings.device)
            similarities = (vectors @ vectors.T)[others].view(n, n - 1)
            relevance = (labels[:, None] == labels)[others].view(n, n - 1)
            found: Tensor = self.loss(similarities, relevance)
            return found
