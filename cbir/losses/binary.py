"""The losses of a classifier of two classes, on one score an image."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from cbir.errors import InvalidInput
from cbir.losses.score_loss import ScoreLoss


class BinaryLoss(ScoreLoss):
    """Cross-entropy of two classes, whose logits differ by the score; with gamma above 0, focal loss.

    -w (1 - q)^gamma log q, q = sigmoid(score) for a relevant image and sigmoid(-score) for another one: what
    `cbir.losses.focal_loss` is on the logits (0, score). The mean is taken over all images. weights: w of those not
    relevant and of those relevant.
    """

    name = "binary"

    def __init__(self, gamma: float = 0.0, weights: tuple[float, float] = (1.0, 1.0)) -> None:
        super().__init__()
        if not gamma >= 0 or not min(weights) > 0:
            raise InvalidInput("the gamma of a focal loss must be at least 0, its weights above 0")
        self.gamma = gamma
        self.weights = weights

    def usable(self, relevance: Tensor) -> Tensor:
        return torch.full((len(relevance),), relevance.shape[1] > 0, device=relevance.device)

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        relevant = relevance > 0
        wrong = torch.where(relevant, -scores, scores)  # the logit of the other class
        surprise = softplus(wrong)
        losses = surprise * torch.exp(-self.gamma * softplus(-wrong))
        of_others, of_relevant = self.weights
        return (losses * torch.where(relevant, of_relevant, of_others)).mean(dim=1)
