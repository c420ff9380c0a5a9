"""Losses of a two-class classifier with one score per image."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from cbir.errors import InvalidInput
from cbir.learn.losses.score_loss import ScoreLoss


class BinaryLoss(ScoreLoss):
    """Cross-entropy of two classes, whose logits differ by the score; with gamma above 0, focal loss.

    -w (1 - q)^gamma log q, with q = sigmoid(score) for a relevant image and sigmoid(-score) for an irrelevant one:
    `cbir.learn.losses.focal_loss` on the logits (0, score), averaged over all images.

    Parameters
    ----------
    gamma : float
        At least 0.
    weights : (float, float)
        w of irrelevant and of relevant images.
    """

    name = "binary"

    def __init__(self, gamma: float = 0.0, weights: tuple[float, float] = (1.0, 1.0)) -> None:
        super().__init__()
        if not 0 <= gamma < math.inf or not min(weights) > 0:
            raise InvalidInput("the gamma of a focal loss must be at least 0 and finite, its weights above 0")
        self.gamma = gamma
        self.weights = weights

    def usable(self, relevance: Tensor) -> Tensor:
        return torch.full((len(relevance),), relevance.shape[1] > 0, device=relevance.device)

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        relevant = relevance > 0
        wrong = torch.where(relevant, -scores, scores)  # the logit of the other class
        surprise = softplus(wrong)
        losses = surprise * torch.exp(-self.gamma * softplus(-wrong))
        irrelevant_weight, relevant_weight = self.weights
        return (losses * torch.where(relevant, relevant_weight, irrelevant_weight)).mean(dim=1)
