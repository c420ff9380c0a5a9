"""Train a ranker: a network that scores positive images above negative ones (Zheng et al., Top-rank CNN)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.evaluation.triage import auc
from cbir.evaluation.metrics import top_precision
from cbir.losses import PosAtTopLoss, ScoreLoss, TopRankLoss
from cbir.losses.binary import BinaryLoss
from cbir.models.scoring_network import ScoringNetwork
from cbir.training.last_layer import LAST_LAYERS, refit_last_layer
from cbir.training.network_scoring import score_pictures
from cbir.training.samplers import BatchSampler, PositiveNegativeSampler, ShuffledSampler
from cbir.training.training_run import SEEDS, ProgressCallback, TrainingRun

RANKING = ("toprank", "pos-at-top")  # whose batches have few positives and many negatives
METHODS = (*RANKING, "cross-entropy", "focal", *LAST_LAYERS)
FOCAL = {"gamma": 2.0, "weights": (0.75, 0.25)}  # of Zheng et al., section 5.4
STEEPER = {
    "focal": 5.0
}  # the rate, times this: slopes of focal loss are small, and training would get nowhere
MOMENTUM = 0.9


@dataclass(frozen=True)
class RankerRecipe:
    """How a ranker is trained; the same recipe gives the same weights, on the same machine and torch.

    method: one of METHODS; rank-svm and top-push train with cross-entropy and then learn the last layer anew. p: of
    toprank. positives, negatives: of a batch; the classifiers' batches are as large, and drawn from all alike.
    """

    method: str = "toprank"
    p: float = 16.0
    epochs: int = 30
    positives: int = 5
    negatives: int = 450
    rate: float = 0.02  # of gradient descent, in the first epoch; five times that for focal loss
    decay: float = 0.9  # of the rate, after each epoch
    augment: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidInput(f"there is no method {self.method!r}; there are: {', '.join(METHODS)}")
        if not (self.epochs >= 1 and self.rate > 0 and 0 < self.decay <= 1 and self.p >= 1):
            raise InvalidInput(
                "epochs and p must be at least 1, the rate above 0, its decay above 0 and at most 1"
            )
        if self.positives < 1 or self.negatives < 1 or not 0 <= self.seed < SEEDS:
            raise InvalidInput(
                f"a batch needs a positive and a negative, and a seed is from 0 to {SEEDS - 1}"
            )


def train_ranker(
    ranker: ScoringNetwork,
    pictures: NDArray[np.uint8],
    positive: NDArray[np.bool_],
    parts: dict[str, NDArray[np.int64]],
    recipe: RankerRecipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    progress: ProgressCallback = lambda step, steps, loss, reached: None,
) -> dict[str, Any]:
    """Train `ranker` on grey pictures (n, side, side), of which some are positive (n,); returns what happened.

    parts: places of the images of "training" and of "validation", each with both kinds; after each epoch the ranker
    is tried on the latter, and ends with the weights of the best epoch by Pos@Top, AUC deciding between equals. A
    checkpoint is written into `folder` every `save_every` seconds and at the end of an epoch; where there is one of
    the same recipe and images, training goes on from it, with the very batches that would have followed; InvalidInput
    where it is of others. `progress` is told steps done, steps in all, the last loss and the best Pos@Top so far.

    The result has "history", a dictionary an epoch, "best_epoch" from 1, "seconds" and, for a last layer learnt anew,
    its "penalty".
    """
    run = _RankerRun(ranker, pictures, positive, parts, recipe, folder / "checkpoint.pt", device)
    run.go(save_every, progress)
    told = {"history": run.history, "best_epoch": run.best_epoch, "seconds": round(run.seconds, 1)}
    if recipe.method in LAST_LAYERS:
        told["penalty"] = refit_last_layer(recipe.method, ranker, pictures, positive, parts, device)
    return told


def recipe_loss(recipe: RankerRecipe, positive: NDArray[np.bool_]) -> ScoreLoss:
    """The loss of a recipe, for training images of which some are positive (n,).

    The weights of cross-entropy are as m : n for negatives and positives, m positives and n negatives, as in the
    paper, and 1 on average: the rate means the same for every ratio.
    """
    if recipe.method == "toprank":
        return TopRankLoss(recipe.p)
    if recipe.method == "pos-at-top":
        return PosAtTopLoss()
    if recipe.method == "focal":
        return BinaryLoss(**FOCAL)  # type: ignore[arg-type]
    return BinaryLoss(
        weights=(len(positive) / (2.0 * (~positive).sum()), len(positive) / (2.0 * positive.sum()))
    )


class _RankerRun(TrainingRun):
    """The training of a ranker."""

    def __init__(
        self,
        ranker: ScoringNetwork,
        pictures: NDArray[np.uint8],
        positive: NDArray[np.bool_],
        parts: dict[str, NDArray[np.int64]],
        recipe: RankerRecipe,
        kept: Path,
        device: str,
    ) -> None:
        self.ranker, self.positive, self.parts = ranker, positive, parts
        training = parts["training"]
        sampler: BatchSampler
        if recipe.method in RANKING:
            sampler = PositiveNegativeSampler(
                positive[training].tolist(), recipe.positives, recipe.negatives, seed=recipe.seed
            )
        else:
            sampler = ShuffledSampler(len(training), recipe.positives + recipe.negatives, recipe.seed)
        told_by = (positive, training, parts["validation"])
        super().__init__(ranker, ranker.options, pictures, training, recipe, sampler, told_by, kept, device)
        self.loss = recipe_loss(recipe, positive[training])
        self.optimizer = torch.optim.SGD(ranker.parameters(), recipe.rate, MOMENTUM, nesterov=True)

    def batch_loss(self, images: Tensor, places: NDArray[np.int64]) -> Tensor:
        relevance = torch.from_numpy(self.positive[places]).to(self.device)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.startswith("cuda")):
            loss: Tensor = self.loss(self.ranker(images), relevance)
        return loss

    def judged(self) -> tuple[dict[str, float], tuple[float, ...]]:
        """Pos@Top and AUC of the images for validation."""
        places = self.parts["validation"]
        scores, positive = score_pictures(self.ranker, self.pictures[places], self.device), self.positive[places]
        now = (top_precision(scores, positive), auc(scores, positive))
        return {"pos_at_top": now[0], "auc": now[1]}, now

    def rate(self, epoch: int) -> float:
        return float(STEEPER.get(self.recipe.method, 1.0) * self.recipe.rate * self.recipe.decay**epoch)
