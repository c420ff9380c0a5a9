"""Losses of a classifier on embeddings: cross-entropy and focal loss."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cbir.errors import InvalidInput
from cbir.learn.losses.score_loss import check_class_labels


def focal_loss(logits: Tensor, labels: Tensor, gamma: float = 2.0, weights: Tensor | None = None) -> Tensor:
    """Compute -w (1 - p)^gamma log p, averaged, with p the probability of the true class (Lin et al. 2017, eq. 5).

    Parameters
    ----------
    logits : (n, classes)
        Scores of the classes.
    labels : (n,) int
        True classes.
    gamma : float
        0 is cross-entropy.
    weights : (classes,), optional
        The paper's alpha.
    """
    surprise = cross_entropy(logits, labels, reduction="none")
    wrong = -torch.expm1(-surprise)
    # the slope of a power below 1 is infinite at 0
    scaled = surprise * wrong.clamp(min=torch.finfo(wrong.dtype).tiny) ** gamma if gamma else surprise
    return (scaled if weights is None else scaled * weights[labels]).mean()


class ClassificationLoss(nn.Module):
    """Focal loss of a linear classifier that is trained with the embeddings.

    Takes embeddings (n, dimensions) and labels (n,) from 0 to classes - 1. `classifier` computes the logits.

    Parameters
    ----------
    dimensions : int
        Length of an embedding.
    classes : int
        Number of classes, at least 2.
    gamma : float
        0 is cross-entropy.
    weights : (classes,), optional
        Weights of the classes.
    """

    def __init__(
        self, dimensions: int, classes: int, gamma: float = 0.0, weights: Tensor | None = None
    ) -> None:
        super().__init__()
        if dimensions < 1 or classes < 2 or not 0 <= gamma < math.inf:
            raise InvalidInput(
                "a classifier needs at least one dimension and two classes, and a finite gamma of at least 0"
            )
        self.classifier = nn.Linear(dimensions, classes)
        self.gamma = gamma
        self.weights: Tensor | None
        self.register_buffer("weights", weights)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of `embeddings` (n, dimensions) with `labels` (n,)."""
        check_class_labels(embeddings, labels, self.classifier.out_features)
        logits = self.classifier(embeddings.to(self.classifier.weight.dtype))
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return focal_loss(logits, labels, self.gamma, self.weights)
