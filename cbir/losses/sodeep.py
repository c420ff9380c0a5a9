"""Losses on the ranks of a sorter (Engilberge et al. 2019, section 3.2)."""

import torch
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.losses.score_loss import ScoreLoss, mean_where
from cbir.models.sorters import PairwiseSorter, Sorter, exact_ranks, load

NARROW = 0.05  # temperature of the pairwise sorter under mAP

FORMS = ("ranks", "precision", "log")  # of mAP


class SoDeepLoss(ScoreLoss):
    """What the three have in common: a sorter, or the name of one; scores may be in any range that it takes."""

    def __init__(self, sorter: Sorter | str = "pairwise") -> None:
        super().__init__()
        self.sorter = load(sorter) if isinstance(sorter, str) else sorter


class SpearmanLoss(SoDeepLoss):
    """1 - Spearman's correlation of scores and relevance, with the sorter's ranks for the scores (eqs. 2 and 4).

    The paper's sum of squares, divided by d (d^2 - 1) / 6: 0 to 2. Among equally relevant ones any order is as good,
    so the true ranks take that of the scores; 0 is an order that agrees with relevance. Needs two degrees of it.
    """

    name = "sodeep-spearman"
    needs = "it needs relevance of at least two degrees"

    def usable(self, relevance: Tensor) -> Tensor:
        return relevance.amax(dim=1) > relevance.amin(dim=1)

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        d = scores.shape[1]
        # in float64 d^2 + d is still told from d^2 + d - 1; the scores only decide between equals
        true = exact_ranks(-d * exact_ranks(relevance).double() - exact_ranks(scores).double())
        squares = (self.sorter(scores) - true.to(scores.dtype)).square().sum(dim=1)
        return 6 * squares / (d * (d * d - 1))


class MapLoss(SoDeepLoss):
    """How far the relevant stand behind the first places.

    `form="ranks"` is the paper's sum of the ranks of the relevant (eq. 7), as their mean, less the best it can be,
    over d: 0 to below 1. `form="precision"` is 1 - average precision (eqs. 5 and 6), in which the number of relevant
    ones up to each is counted and its rank among all comes from the sorter: the top of the list weighs more.
    `form="log"`, ours, takes the mean logarithm of these precisions in place of their mean, 0 to below log d: never
    less than minus the logarithm of average precision, and steep where precision is low, where 1 - precision is flat.

    Without a sorter it is the exact one with narrower slopes than elsewhere (NARROW): on real images those and
    `log` teach far more in the same time, see bench/results/embeddings.md.
    """

    name = "sodeep-map"

    def __init__(self, sorter: Sorter | str | None = None, form: str = "log") -> None:
        super().__init__(PairwiseSorter(NARROW) if sorter is None else sorter)
        if form not in FORMS:
            raise InvalidInput(f"the form of sodeep-map is one of {', '.join(FORMS)}, not {form!r}")
        self.form = form

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        relevant = relevance > 0
        ranks = self.sorter(scores)
        if self.form == "ranks":
            best = (relevant.sum(dim=1) + 1) / 2
            return (mean_where(ranks, relevant) - best) / scores.shape[1]
        precision = _rank_among(scores, relevant) / ranks.clamp(min=1)
        return (
            mean_where(-precision.log(), relevant)
            if self.form == "log"
            else 1 - mean_where(precision, relevant)
        )


class RecallLoss(SoDeepLoss):
    """A triplet loss on ranks, with the hardest irrelevant one (eqs. 9 and 10), as a share of d.

    The mean over the relevant of max(0, margin + its rank - the best rank of an irrelevant one), over d;
    `margin` is the paper's alpha, in ranks.
    """

    name = "sodeep-recall"

    def __init__(self, sorter: Sorter | str = "pairwise", margin: float = 1.0) -> None:
        super().__init__(sorter)
        self.margin = margin

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        relevant = relevance > 0
        ranks = self.sorter(scores)
        hardest = torch.where(relevant, torch.inf, ranks).amin(dim=1, keepdim=True)
        return mean_where((self.margin + ranks - hardest).clamp(min=0), relevant) / scores.shape[1]


def _rank_among(scores: Tensor, chosen: Tensor) -> Tensor:
    """Exact ranks of the chosen scores among themselves; of the others, something behind."""
    others = exact_ranks(torch.where(chosen, scores.detach(), scores.detach().amin(dim=1, keepdim=True)))
    return torch.where(chosen, others.minimum(chosen.sum(dim=1, keepdim=True)), others)
