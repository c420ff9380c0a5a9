"""S-NDCG: NDCG with smooth, differentiable positions (Huang et al. 2010)."""

import math

import torch
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.learn.losses.score_loss import ScoreLoss

ALPHA = {"sigmoid": 2.0, "paper": 0.001}
NARROWEST = 1e-3  # least standard deviation of the scores


class SNdcgLoss(ScoreLoss):
    """1 - S-NDCG of grades (relevance, at least 0), with gain 2^grade - 1 and discount log2(1 + pi').

    Parameters
    ----------
    form : str
        "sigmoid": pi'(x) = 1 + sum over y != x of (1 + tanh(alpha (s_y - s_x) / deviation of the scores)) / 2,
        always from 1 to d. "paper": pi'(x) = 1 + sum over y of tanh(alpha (s_y - s_x)), as printed; that is not a
        rank and can be negative, so that InvalidInput is raised outside the domain of the logarithm.
    alpha : float, optional
        By default 2 for "sigmoid" and 0.001 for "paper".
    """

    name = "s-ndcg"
    needs = "it needs grades above 0"

    def __init__(self, form: str = "sigmoid", alpha: float | None = None) -> None:
        super().__init__()
        if form not in ALPHA:
            raise InvalidInput(f"the form of s-ndcg is sigmoid or paper, not {form!r}")
        self.form, self.alpha = form, ALPHA[form] if alpha is None else alpha
        if not 0 < self.alpha < math.inf:
            raise InvalidInput(f"the alpha of s-ndcg must be above 0 and finite, not {alpha}")

    def usable(self, relevance: Tensor) -> Tensor:
        if (relevance < 0).any():
            raise InvalidInput("s-ndcg takes grades of at least 0; shift them")
        return (relevance > 0).any(dim=1)

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        highest = relevance.amax(dim=1, keepdim=True)
        gains = torch.exp2(relevance - highest) - torch.exp2(-highest)  # over 2^highest against overflow
        positions = torch.arange(1, scores.shape[1] + 1, device=scores.device, dtype=scores.dtype)
        best = (gains.sort(dim=1, descending=True).values / torch.log2(1 + positions)).sum(dim=1)
        return 1 - (gains / torch.log2(1 + self._positions(scores))).sum(dim=1) / best

    def _positions(self, scores: Tensor) -> Tensor:
        differences = scores[:, None, :] - scores[:, :, None]
        if self.form == "sigmoid":
            centred = scores - scores.mean(dim=1, keepdim=True)
            spread = centred.square().mean(dim=1, keepdim=True).clamp(min=NARROWEST**2).sqrt()
            return torch.sigmoid(2 * self.alpha * differences / spread[:, :, None]).sum(dim=2) + 0.5
        positions = 1 + torch.tanh(self.alpha * differences).sum(dim=2)
        if (positions <= 0).any():
            raise InvalidInput(
                "the scores leave the domain of s-ndcg as printed (a position is not above 0); "
                "use a smaller alpha, or the form sigmoid"
            )
        return positions
