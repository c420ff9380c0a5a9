"""Losses on ranks: smooth ranks, which approximate measures of retrieval, and ranks of a sorter."""

import math
from typing import cast

import torch
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.learn.losses.score_losses import ScoreLoss, mean_where
from cbir.learn.models.sorters import PairwiseSorter, Sorter, exact_ranks, load

TEMPERATURE = 0.01  # of both papers, in units of cosine similarity
SLOPE, KNEE = 100.0, 0.05  # ROADMAP's rho and delta
RELEVANT_FLOOR, IRRELEVANT_CEILING = 0.9, 0.6  # ROADMAP's alpha and beta
CALIBRATION = 0.5  # ROADMAP's lambda
KS = (1, 2, 4, 8, 16)
EDGE = 1.0  # temperature of "among the first k", in ranks
NARROW = 0.05  # temperature of the pairwise sorter under mAP
FORMS = ("ranks", "precision", "log")  # of mAP


class SmoothRankLoss(ScoreLoss):
    """A loss with sigmoids of differences of scores; `temperature` is their width."""

    def __init__(self, temperature: float = TEMPERATURE) -> None:
        super().__init__()
        if not 0 < temperature < math.inf:
            raise InvalidInput(f"the temperature of {self.name} must be above 0, not {temperature}")
        self.temperature = temperature


class RoadmapLoss(SmoothRankLoss):
    """Half 1 - SupAP, an upper bound of 1 - average precision, and half a calibration of the scores.

    Ramzi et al. 2021, Robust and decomposable average precision for image retrieval, section 3, with the paper's
    constants for cosine similarities. Exact ranks among relevant images; an irrelevant image above a relevant one
    costs a rank at least, and more the further above it is. Scores of relevant images below 0.9 and of irrelevant
    ones above 0.6 cost their distance.
    """

    name = "roadmap"

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        relevant = relevance > 0
        gaps = scores[:, None, :] - scores[:, :, None]  # of the third axis above the second
        best = 1 + ((gaps > 0) & relevant[:, None, :]).sum(dim=2)
        below = self._step(gaps).masked_fill(relevant[:, None, :], 0.0).sum(dim=2)
        precision = mean_where(best / (best + below), relevant)
        low = mean_where((RELEVANT_FLOOR - scores).clamp(min=0), relevant)
        high = mean_where((scores - IRRELEVANT_CEILING).clamp(min=0), ~relevant)
        return (1 - CALIBRATION) * (1 - precision) + CALIBRATION * (low + high)

    def _step(self, gaps: Tensor) -> Tensor:
        """Return a bound above the step function, whose slope does not vanish above 0."""
        smooth = torch.sigmoid(gaps.clamp(max=KNEE) / self.temperature)
        return smooth + 0.5 * (gaps >= 0) + SLOPE * (gaps - KNEE).clamp(min=0)


class RecallAtKLoss(SmoothRankLoss):
    """1 - smooth Recall@k, the mean over k = 1, 2, 4, 8 and 16.

    Patel et al. 2022, Recall@k surrogate loss with large batches and similarity mixup, section 3, without the mixup:
    the sum of sigmoid(k - rank) over relevant images, with a rank of 1 and a sigmoid for each other image, divided by
    the most relevant images that can be among the first k, as in the authors' code.
    """

    name = "recall-at-k"

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        relevant = relevance > 0
        gaps = scores[:, None, :] - scores[:, :, None]
        ranks = 0.5 + torch.sigmoid(gaps / self.temperature).sum(dim=2)  # an image and itself: 0.5
        ks = torch.tensor(KS, dtype=scores.dtype, device=scores.device)
        within = torch.sigmoid((ks - ranks[:, :, None]) / EDGE) * relevant[:, :, None]
        most = relevant.sum(dim=1, keepdim=True).minimum(ks)
        return 1 - (within.sum(dim=1).minimum(most) / most).mean(dim=1)


class SoDeepLoss(ScoreLoss):
    """A loss on the ranks of a sorter, or of the sorter of a name; it sets the range of the scores."""

    def __init__(self, sorter: Sorter | str = "pairwise") -> None:
        super().__init__()
        self.sorter = load(sorter) if isinstance(sorter, str) else sorter
        if not isinstance(self.sorter, Sorter):
            raise InvalidInput(f"the sorter of {self.name} is a Sorter or its name, not {sorter!r}")


class SpearmanLoss(SoDeepLoss):
    """1 - Spearman's correlation of scores and relevance, with the sorter's ranks for the scores (eqs. 2 and 4).

    The paper's sum of squares, divided by d (d^2 - 1) / 6: 0 to 2, where 0 is an order that agrees with relevance.
    Equally relevant images may be in any order, so their true ranks follow the scores. Needs two relevance levels.
    """

    name = "sodeep-spearman"
    needs = "it needs at least two levels of relevance"

    def usable(self, relevance: Tensor) -> Tensor:
        return relevance.amax(dim=1) > relevance.amin(dim=1)

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        d = scores.shape[1]
        # float64 distinguishes d^2 + d from d^2 + d - 1; the scores only break ties
        true = exact_ranks(-d * exact_ranks(relevance).double() - exact_ranks(scores).double())
        squares = (self.sorter(scores) - true.to(scores.dtype)).square().sum(dim=1)
        return cast(Tensor, 6 * squares / (d * (d * d - 1)))


class MapLoss(SoDeepLoss):
    """Distance of the relevant images from the top of the list.

    Parameters
    ----------
    sorter : Sorter or str, optional
        By default the pairwise sorter with narrower slopes than elsewhere (NARROW).
    form : str
        "ranks": the paper's sum of the ranks of the relevant images (eq. 7), as their mean less its minimum, over d:
        0 to below 1. "precision": 1 - average precision (eqs. 5 and 6), with counted ranks among the relevant and the
        sorter's ranks among all; the top of the list weighs more. "log", ours: minus the mean logarithm of these
        precisions, 0 to below log d. It bounds minus the logarithm of average precision from above, and is steep at
        low precision, where 1 - precision is flat. In bench/results/embeddings.md, "log" with narrow slopes gives
        far better embeddings in the same time.
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
        if self.form == "log":
            return mean_where(-precision.log(), relevant)
        return 1 - mean_where(precision, relevant)


class RecallLoss(SoDeepLoss):
    """Triplet loss on ranks with the hardest irrelevant image (eqs. 9 and 10), as a share of d.

    The mean over relevant images of max(0, margin + rank - best rank of an irrelevant image), over d; `margin` is
    the paper's alpha, in ranks. `sorter` is a sorter or its name.
    """

    name = "sodeep-recall"

    def __init__(self, sorter: Sorter | str = "pairwise", margin: float = 1.0) -> None:
        super().__init__(sorter)
        if not 0 <= margin < math.inf:
            raise InvalidInput(f"the margin of {self.name} must be at least 0, not {margin}")
        self.margin = margin

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        relevant = relevance > 0
        ranks = self.sorter(scores)
        hardest = torch.where(relevant, torch.inf, ranks).amin(dim=1, keepdim=True)
        return mean_where((self.margin + ranks - hardest).clamp(min=0), relevant) / scores.shape[1]


def _rank_among(scores: Tensor, selected: Tensor) -> Tensor:
    """Return exact ranks of the selected scores among themselves; the others rank behind."""
    values = scores.detach()
    lowest = values.amin(dim=1, keepdim=True)
    below = torch.nextafter(lowest, torch.full_like(lowest, -math.inf))  # no tie with a selected one
    return exact_ranks(torch.where(selected, values, below))
