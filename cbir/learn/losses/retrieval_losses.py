"""Losses that approximate measures of retrieval by smooth ranks: ROADMAP and Recall@k."""

import math

import torch
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.learn.losses.score_losses import ScoreLoss, mean_where

TEMPERATURE = 0.01  # of both papers, in units of cosine similarity
SLOPE, KNEE = 100.0, 0.05  # ROADMAP's rho and delta
RELEVANT_FLOOR, IRRELEVANT_CEILING = 0.9, 0.6  # ROADMAP's alpha and beta
CALIBRATION = 0.5  # ROADMAP's lambda


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


KS = (1, 2, 4, 8, 16)
EDGE = 1.0  # temperature of "among the first k", in ranks


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
