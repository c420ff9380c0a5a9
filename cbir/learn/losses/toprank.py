"""Losses that push positives above the highest negative (Zheng et al., Top-rank convolutional neural network)."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from cbir.errors import InvalidInput
from cbir.learn.losses.score_loss import ScoreLoss, mean_where

SMALL = -15.0  # below it log(softplus(z)) is z to the last bit of float32


class TopRankLoss(ScoreLoss):
    """(1/m) sum over positives i of (sum over negatives j of softplus(s_j - s_i)^p)^(1/p): eq. 5.

    The paper's eqs. 4 and 5 disagree on the sign of the argument; this sign makes the loss fall when positives rise.
    The p-norm is computed in the log domain, exact and without overflow for any `p` from 1 to infinity; infinity is
    the highest negative alone.
    """

    name = "toprank"

    def __init__(self, p: float = 16.0) -> None:
        super().__init__()
        if not p >= 1:
            raise InvalidInput(f"the p of {self.name} must be at least 1, not {p}")
        self.p = p

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        positive = relevance > 0
        if len(scores) == 1:  # one list: positives times negatives instead of d x d
            norms = self._norms(scores[:, positive[0]], scores[:, ~positive[0]])
            return norms.mean(dim=1)
        return mean_where(self._norms(scores, scores.masked_fill(positive, -math.inf)), positive)

    def _norms(self, positives: Tensor, negatives: Tensor) -> Tensor:
        """Return the norm (batch, m) of each positive (batch, m) over negatives (batch, n); -infinity is masked."""
        if math.isinf(self.p):
            return softplus(negatives.amax(dim=1, keepdim=True) - positives)
        logs = log_softplus(negatives[:, None, :] - positives[:, :, None])
        return torch.exp(torch.logsumexp(self.p * logs, dim=2) / self.p)


class PosAtTopLoss(TopRankLoss):
    """(1/m) sum over positives i of softplus(max_j s_j - s_i): the surrogate of Pos@Top, eq. 4; TopRank's limit."""

    name = "pos-at-top"

    def __init__(self) -> None:
        super().__init__(math.inf)


def log_softplus(z: Tensor) -> Tensor:
    """Compute log(log(1 + e^z)), or `z` itself if that is small; finite for every finite z, as is its gradient."""
    small = z < SMALL
    return torch.where(small, z, torch.log(softplus(z.masked_fill(small, 0.0))))
