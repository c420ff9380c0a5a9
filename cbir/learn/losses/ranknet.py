"""RankNet: cross-entropy of the order of pairs (Burges et al. 2005)."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from cbir.errors import InvalidInput
from cbir.learn.losses.score_loss import ScoreLoss


def ranknet_loss(first: Tensor, second: Tensor, above: Tensor) -> Tensor:
    """Compute -C log P - (1 - C) log(1 - P) with P = sigmoid(first - second) for each pair.

    Parameters
    ----------
    first, second : (n,)
        Scores.
    above : (n,)
        C: 1 if the first ranks above the second, 0 if below, 0.5 if they are equal.

    Returns
    -------
    (n,)

    Raises
    ------
    InvalidInput
        If the shapes differ.
    """
    if not first.shape == second.shape == above.shape:
        raise InvalidInput("ranknet takes the scores of the first, of the second, and a label for each pair")
    with torch.autocast(first.device.type, enabled=False):
        difference = (first - second) if first.dtype == torch.float64 else first.float() - second.float()
        label = above.to(difference.dtype)
        return label * softplus(-difference) + (1 - label) * softplus(difference)


class RankNetLoss(ScoreLoss):
    """`ranknet_loss` over every pair of a vector, equal pairs included; relevance gives the order."""

    name = "ranknet"
    needs = "it needs at least two images"

    def usable(self, relevance: Tensor) -> Tensor:
        return torch.full((len(relevance),), relevance.shape[1] > 1, device=relevance.device)

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        i, j = torch.triu_indices(*2 * (scores.shape[1],), offset=1, device=scores.device)
        above = (1 + torch.sign(relevance[:, i] - relevance[:, j])) / 2
        return ranknet_loss(scores[:, i], scores[:, j], above).mean(dim=1)
