"""Ordinal regression on embeddings: one direction of growing severity, cut by thresholds."""

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from cbir.errors import InvalidInput
from cbir.learn.losses.score_loss import check_class_labels

SCALE = 10.0  # embeddings have length 1; otherwise the weights would have to grow for most of a training


class OrdinalLoss(nn.Module):
    """Cross-entropy of being above each step between grades, by one score and a threshold per step.

    W. Cao, V. Mirjalili, S. Raschka: Rank consistent ordinal regression for neural networks, 2020, eq. 4, with equal
    weights. Takes embeddings (n, dimensions) and labels (n,) from 0 to classes - 1 in the order of the grades. Unlike
    with cross-entropy over classes, an error of two grades costs more than an error of one.
    """

    def __init__(self, dimensions: int, classes: int) -> None:
        super().__init__()
        if dimensions < 1 or classes < 2:
            raise InvalidInput("ordinal regression needs at least one dimension and two grades")
        self.severity = nn.Linear(dimensions, 1, bias=False)
        self.thresholds = nn.Parameter(torch.zeros(classes - 1))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, the mean over images and steps, of `embeddings` (n, dimensions) with `labels` (n,)."""
        steps = len(self.thresholds)
        check_class_labels(embeddings, labels, steps + 1)
        with torch.autocast(embeddings.device.type, enabled=False):
            scores = SCALE * self.severity(embeddings.to(self.thresholds.dtype))
            above = labels[:, None] > torch.arange(steps, device=labels.device)
            return binary_cross_entropy_with_logits(scores - self.thresholds, above.to(scores.dtype))
