"""Losses on embeddings and labels: of classifiers, ordinal regression, of scores, of pytorch-metric-learning."""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from pytorch_metric_learning import losses, miners
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, normalize

from cbir.errors import InvalidInput
from cbir.learn.losses.score_losses import ScoreLoss, check_class_labels, check_labelled


def focal_loss(logits: Tensor, labels: Tensor, gamma: float = 2.0, weights: Tensor | None = None) -> Tensor:
    """Compute -w (1 - p)^gamma log p, averaged, with p the probability of the true class (Lin et al. 2017, eq. 5).

    Parameters
    ----------
    logits : (n, classes)
        Scores of the classes.
    labels : (n,) int
        True classes.
    gamma : float
        0 is cross-entropy.
    weights : (classes,), optional
        The paper's alpha.
    """
    surprise = cross_entropy(logits, labels, reduction="none")
    wrong = -torch.expm1(-surprise)
    # the slope of a power below 1 is infinite at 0
    scaled = surprise * wrong.clamp(min=torch.finfo(wrong.dtype).tiny) ** gamma if gamma else surprise
    return (scaled if weights is None else scaled * weights[labels]).mean()


class ClassificationLoss(nn.Module):
    """Focal loss of a linear classifier that is trained with the embeddings.

    Takes embeddings (n, dimensions) and labels (n,) from 0 to classes - 1. `classifier` computes the logits.

    Parameters
    ----------
    dimensions : int
        Length of an embedding.
    classes : int
        Number of classes, at least 2.
    gamma : float
        0 is cross-entropy.
    weights : (classes,), optional
        Weights of the classes.
    """

    def __init__(
        self, dimensions: int, classes: int, gamma: float = 0.0, weights: Tensor | None = None
    ) -> None:
        super().__init__()
        if dimensions < 1 or classes < 2 or not 0 <= gamma < math.inf:
            raise InvalidInput(
                "a classifier needs at least one dimension and two classes, and a finite gamma of at least 0"
            )
        self.classifier = nn.Linear(dimensions, classes)
        self.gamma = gamma
        self.weights: Tensor | None
        self.register_buffer("weights", weights)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of `embeddings` (n, dimensions) with `labels` (n,)."""
        check_class_labels(embeddings, labels, self.classifier.in_features, self.classifier.out_features)
        logits = self.classifier(embeddings.to(self.classifier.weight.dtype))
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return focal_loss(logits, labels, self.gamma, self.weights)


SCALE = 10.0  # embeddings have length 1; otherwise the weights would have to grow for most of a training


class OrdinalLoss(nn.Module):
    """Cross-entropy of being above each step between grades, by one score and a threshold per step.

    W. Cao, V. Mirjalili, S. Raschka: Rank consistent ordinal regression for neural networks, 2020, eq. 4, with equal
    weights. Takes embeddings (n, dimensions) and labels (n,) from 0 to classes - 1 in the order of the grades. Unlike
    with cross-entropy over classes, an error of two grades costs more than an error of one.
    """

    def __init__(self, dimensions: int, classes: int) -> None:
        super().__init__()
        if dimensions < 1 or classes < 2:
            raise InvalidInput("ordinal regression needs at least one dimension and two grades")
        self.severity = nn.Linear(dimensions, 1, bias=False)
        self.thresholds = nn.Parameter(torch.zeros(classes - 1))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, the mean over images and steps, of `embeddings` (n, dimensions) with `labels` (n,)."""
        steps = len(self.thresholds)
        check_class_labels(embeddings, labels, self.severity.in_features, steps + 1)
        with torch.autocast(embeddings.device.type, enabled=False):
            scores = SCALE * self.severity(embeddings.to(self.thresholds.dtype))
            above = labels[:, None] > torch.arange(steps, device=labels.device)
            return binary_cross_entropy_with_logits(scores - self.thresholds, above.to(scores.dtype))


class CornLoss(nn.Module):
    """Cross-entropy of being above each step between grades, given that the step before is passed.

    X. Shi, W. Cao, S. Raschka: Deep neural networks for rank-consistent ordinal regression based on conditional
    probabilities, 2021: a score for each step, which learns from the images above the step before. Takes
    embeddings (n, dimensions) and labels (n,) from 0 to classes - 1 in the order of the grades.
    """

    def __init__(self, dimensions: int, classes: int) -> None:
        super().__init__()
        if dimensions < 1 or classes < 2:
            raise InvalidInput("ordinal regression needs at least one dimension and two grades")
        self.steps = nn.Linear(dimensions, classes - 1)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, the mean over steps and the images above the step before each, of `embeddings`."""
        steps = self.steps.out_features
        check_class_labels(embeddings, labels, self.steps.in_features, steps + 1)
        with torch.autocast(embeddings.device.type, enabled=False):
            scores = self.steps(SCALE * embeddings.to(self.steps.weight.dtype))
            beyond = labels[:, None] - torch.arange(steps, device=labels.device)
            in_step = beyond >= 0
            return binary_cross_entropy_with_logits(scores[in_step], (beyond > 0)[in_step].to(scores.dtype))


class RankNContrastLoss(nn.Module):
    """Contrast each pair with the pairs of the same image whose grades are at least as far apart.

    Zha et al. 2023, Rank-N-Contrast: learning continuous representations for regression, section 3: the mean over
    pairs (i, j) of minus the logarithm of the softmax of -distance / temperature among the images k with
    |grade k - grade i| >= |grade j - grade i|. Takes embeddings (n, k), n at least 2, which it normalises, and labels
    (n,), the numbers of the grades in their order.

    Parameters
    ----------
    temperature : float
        In units of distance. 2 in the paper, whose embeddings may have any length.
    """

    def __init__(self, temperature: float = 0.2) -> None:
        super().__init__()
        self.temperature = _positive(temperature, "temperature", "rank-n-contrast")

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of `embeddings` (n, k) with `labels` (n,)."""
        check_labelled(embeddings, labels, least=2)
        n = len(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            vectors = normalize(embeddings if embeddings.dtype == torch.float64 else embeddings.float())
            others = ~torch.eye(n, dtype=torch.bool, device=embeddings.device)
            rows = vectors[:, None, :] - vectors[None, :, :]
            logits = -rows[others].norm(dim=1).view(n, n - 1) / self.temperature
            grades = labels.double()  # differences of unsigned integers wrap around
            gaps = (grades[:, None] - grades).abs()[others].view(n, n - 1)
            nearer = gaps[:, None, :] < gaps[:, :, None]  # of image k (third) than j (second)
            totals = logits[:, None, :].masked_fill(nearer, -math.inf).logsumexp(dim=2)
            return cast(Tensor, (totals - logits).mean())


class SimilarityLoss(nn.Module):
    """Apply `loss` to each image's cosine similarities to the others; those of its class are relevant.

    Takes embeddings (n, k), floating point, and labels (n,), integers, n at least 3. Images without another of their
    class are left out; InvalidInput if that leaves none.
    """

    def __init__(self, loss: ScoreLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of `embeddings` (n, k) with `labels` (n,)."""
        check_labelled(embeddings, labels, least=3)
        n = len(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            vectors = normalize(embeddings if embeddings.dtype == torch.float64 else embeddings.float())
            others = ~torch.eye(n, dtype=torch.bool, device=embeddings.device)
            similarities = (vectors @ vectors.T)[others].view(n, n - 1)
            relevance = (labels[:, None] == labels)[others].view(n, n - 1)
            return cast(Tensor, self.loss(similarities, relevance))


class MetricLoss(nn.Module):
    """A loss of pytorch-metric-learning with its usual miner, if it has one.

    Takes embeddings (n, k), which it normalises, and labels (n,).
    """

    def __init__(self, loss: Any, miner: Any = None) -> None:
        super().__init__()
        self.loss, self.miner = loss, miner

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of `embeddings` (n, k) with `labels` (n,)."""
        check_labelled(embeddings, labels)
        with torch.autocast(embeddings.device.type, enabled=False):
            vectors = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
            mined = () if self.miner is None else (self.miner(vectors, labels),)
            return cast(Tensor, self.loss(vectors, labels, *mined))


def triplet_loss(margin: float = 0.2) -> MetricLoss:
    """Return the triplet loss with the hardest triplets of a batch; `margin` in units of distance."""
    return MetricLoss(
        losses.TripletMarginLoss(_positive(margin, "margin", "triplet")), miners.BatchHardMiner()
    )


def contrastive_loss(margin: float = 0.5) -> MetricLoss:
    """Return the contrastive loss; pairs of two classes are pushed `margin` apart."""
    return MetricLoss(losses.ContrastiveLoss(neg_margin=_positive(margin, "margin", "contrastive")))


def multi_similarity_loss() -> MetricLoss:
    """Return the multi-similarity loss with its miner."""
    return MetricLoss(losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner())


def smooth_ap_loss(temperature: float = 0.01) -> MetricLoss:
    """Return Smooth-AP; `temperature` is the width of its sigmoids, in units of cosine similarity."""
    return MetricLoss(losses.SmoothAPLoss(_positive(temperature, "temperature", "smooth-ap")))


def supcon_loss(temperature: float = 0.1) -> MetricLoss:
    """Return the supervised contrastive loss (Khosla et al. 2020, eq. 2), with the paper's `temperature`."""
    return MetricLoss(losses.SupConLoss(_positive(temperature, "temperature", "supcon")))


METRIC_LOSSES: dict[str, Callable[..., MetricLoss]] = {
    "triplet": triplet_loss,
    "contrastive": contrastive_loss,
    "multi-similarity": multi_similarity_loss,
    "smooth-ap": smooth_ap_loss,
    "supcon": supcon_loss,
}


def _positive(value: float, option: str, loss: str) -> float:
    if not 0 < value < math.inf:
        raise InvalidInput(f"the {option} of {loss} must be above 0, not {value}")
    return value
