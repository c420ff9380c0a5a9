"""Losses on single scores, trained beside a ranking loss so that scores reach the range of its sorter."""

from torch import Tensor
from torch.nn.functional import softplus

from cbir.learn.losses.score_loss import ScoreLoss


class AbsoluteErrorLoss(ScoreLoss):
    """Mean distance of the scores from relevance, 1 or 0 (Engilberge et al. 2019, section 4.2.1)."""

    name = "l1"

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        return (scores - (relevance > 0).to(scores.dtype)).abs().mean(dim=1)


class SoftMarginLoss(ScoreLoss):
    """Mean of log(1 + exp(-score)) of relevant and log(1 + exp(score)) of other images (the same, section 4.2.2)."""

    name = "soft-margin"

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        return softplus(scores.where(relevance <= 0, -scores)).mean(dim=1)


PARALLEL_LOSSES: dict[str, type[ScoreLoss]] = {
    member.name: member for member in (AbsoluteErrorLoss, SoftMarginLoss)
}
