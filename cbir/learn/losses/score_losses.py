"""Losses on scores and relevance: TopRank, partial AUC, RankNet, S-NDCG, and those of single scores."""

import math
from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from cbir.errors import InvalidInput


class ScoreLoss(nn.Module):
    """A loss on scores and relevance, both (batch, d) or (d,): low if relevant images have the highest scores.

    The result is the mean over the vectors of the batch. Relevance is of any numeric type; for losses that only
    distinguish relevant from irrelevant, above 0 is relevant. Vectors that teach nothing, such as all relevant, are
    left out. Half precision becomes float32, inside autocast too.
    """

    name: ClassVar[str]

    def forward(self, scores: Tensor, relevance: Tensor) -> Tensor:
        """Return the loss, a float32 or float64 scalar.

        Raises InvalidInput if the shapes of `scores` and `relevance` differ, or no vector teaches anything.
        """
        if scores.shape != relevance.shape or scores.ndim not in (1, 2) or not scores.is_floating_point():
            shapes = " and ".join("x".join(map(str, of.shape)) or "a number" for of in (scores, relevance))
            raise InvalidInput(
                f"{self.name} takes floating-point scores and relevance of one shape, not {shapes}"
            )
        with torch.autocast(scores.device.type, enabled=False):
            scores = scores if scores.dtype == torch.float64 else scores.float()
            relevance = relevance.to(scores.dtype)
            if scores.ndim == 1:
                scores, relevance = scores[None], relevance[None]
            usable = self.usable(relevance)
            if not usable.any():
                raise InvalidInput(f"{self.name} learns nothing from this batch: {self.needs}")
            return self.values(scores[usable], relevance[usable]).mean()

    needs: ClassVar = "it needs relevant and irrelevant images together; use a sampler that provides both"

    def usable(self, relevance: Tensor) -> Tensor:
        """Return a mask (batch,) of the vectors of `relevance` (batch, d) that teach something."""
        relevant = relevance > 0
        return relevant.any(dim=1) & ~relevant.all(dim=1)

    @abstractmethod
    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        """Return the loss (batch,) of each vector; all are usable."""


def check_class_labels(embeddings: Tensor, labels: Tensor, dimensions: int, classes: int) -> None:
    """Raise InvalidInput unless `embeddings` (n, dimensions) have whole `labels` (n,) from 0 to classes - 1."""
    check_labelled(embeddings, labels)
    if embeddings.shape[1] != dimensions:
        raise InvalidInput(
            f"the loss is of {dimensions} dimensions; these embeddings have {embeddings.shape[1]}"
        )
    if labels.is_floating_point() or int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise InvalidInput(f"labels must be from 0 to {classes - 1}, integers")


def check_labelled(embeddings: Tensor, labels: Tensor, least: int = 1) -> None:
    """Raise InvalidInput unless `embeddings` (n, k) have `labels` (n,), n at least `least`."""
    if embeddings.ndim != 2 or labels.shape != embeddings.shape[:1] or len(labels) < least:
        images = "image" if least == 1 else "images"
        raise InvalidInput(
            f"a loss takes embeddings (n, k) and a label for each, of at least {least} {images}"
        )


def mean_where(values: Tensor, where: Tensor) -> Tensor:
    """Return the mean (batch,) of `values` (batch, d) over the mask `where`, which marks at least one per row."""
    return torch.where(where, values, torch.zeros_like(values)).sum(dim=1) / where.sum(dim=1)


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


class PartialAucLoss(ScoreLoss):
    """(1/m) sum over positives i of t log (mean over negatives j of exp(max(0, margin - s_i + s_j)^2 / t)).

    A smooth form of one-way partial AUC, that at small false-positive rates (Zhu et al. 2022, When AUC meets DRO,
    the KL form; LibAUC's pAUC_DRO_Loss), on the negatives of the batch instead of moving averages over batches.

    Parameters
    ----------
    margin : float
        Least distance of a positive from a negative that costs nothing, above 0.
    temperature : float
        The paper's lambda, t above: near 0 the highest negative alone counts, near infinity all alike.
    """

    name = "partial-auc"

    def __init__(self, margin: float = 1.0, temperature: float = 1.0) -> None:
        super().__init__()
        if not (0 < margin < math.inf and 0 < temperature < math.inf):
            raise InvalidInput(f"margin and temperature of {self.name} must be above 0 and finite")
        self.margin, self.temperature = margin, temperature

    def values(self, scores: Tensor, relevance: Tensor) -> Tensor:
        positive = relevance > 0
        short = (self.margin + scores[:, None, :] - scores[:, :, None]).clamp(min=0)
        costs = (short.square() / self.temperature).masked_fill(positive[:, None, :], -math.inf)
        negatives = (~positive).sum(dim=1, keepdim=True)
        return self.temperature * mean_where(costs.logsumexp(dim=2) - negatives.log(), positive)


def log_softplus(z: Tensor) -> Tensor:
    """Compute log(log(1 + e^z)), or `z` itself if that is small; finite for every finite z, as is its gradient."""
    small = z < SMALL
    return torch.where(small, z, torch.log(softplus(z.masked_fill(small, 0.0))))


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
