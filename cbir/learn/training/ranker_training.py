"""Training of a network that scores positives above all others, and the exact solution of its last layer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.evaluation.rank_metrics import auc, pos_at_top
from cbir.learn.losses.score_losses import BinaryLoss, ScoreLoss
from cbir.learn.models.linear_rankers import RankingSVM, TopPush
from cbir.learn.models.ranking_estimator import LinearRanker
from cbir.learn.models.scoring_network import ScoringNetwork, picture_features, score_pictures
from cbir.learn.training.labelled_examples import Parts
from cbir.learn.training.loss_options import DEFAULT_OPTIONS, SCORE_LOSSES, LossOptions
from cbir.learn.training.samplers import BatchSampler, PositiveNegativeSampler, ShuffledSampler
from cbir.learn.training.training_run import SEEDS, ProgressCallback, TrainingRun

LAST_LAYERS = ("rank-svm", "top-push")
PENALTIES = (1e-2, 1e-1, 1.0, 1e1, 1e2)  # C and lambda: Zheng et al., section 4.3


def refit_last_layer(
    method: str,
    network: ScoringNetwork,
    pictures: NDArray[np.uint8],
    positive: NDArray[np.bool_],
    parts: Parts,
    device: str = "cpu",
) -> float:
    """Refit the last layer, with the penalty of the best validation Pos@Top, then AUC.

    Parameters
    ----------
    method : str
        One of LAST_LAYERS.
    network : ScoringNetwork
        Its last layer is replaced.
    pictures : (n, side, side) uint8
        Grey pictures.
    positive : (n,) bool
        Whether a picture is positive.
    parts : dict
        Rows of "training" and "validation".
    device : str
        cpu or cuda.

    Returns
    -------
    float
        The penalty, one of PENALTIES: C of the SVM, lambda of TopPush.
    """
    training, validation = parts["training"], parts["validation"]
    training_features = picture_features(network, pictures[training], device)
    validation_features = picture_features(network, pictures[validation], device)
    candidates: list[tuple[tuple[float, float], float, LinearRanker | RankingSVM]] = []
    for penalty in PENALTIES:
        linear = RankingSVM(penalty) if method == "rank-svm" else TopPush(penalty)
        linear.fit(training_features, positive[training].astype(np.int64))
        scores, is_positive = linear.predict(validation_features), positive[validation]
        measures = pos_at_top(scores, is_positive), auc(scores, is_positive)
        candidates.append((measures, penalty, linear))
    _, penalty, best = max(candidates, key=lambda candidate: candidate[0])
    weights = best.coef_ / best.scale_
    with torch.no_grad():
        network.head.weight.copy_(torch.from_numpy(weights)[None])
        network.head.bias.fill_(-float(best.mean_ @ weights))
    return penalty


RANKING = tuple(SCORE_LOSSES)  # batches of few positives and many negatives
METHODS = (*RANKING, "cross-entropy", "focal", *LAST_LAYERS)
POWERS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # p of toprank: Zheng et al., section 4.3
FOCAL_GAMMA, FOCAL_WEIGHTS = 2.0, (0.75, 0.25)  # Zheng et al., section 5.4
RATE_FACTORS = {"focal": 5.0}  # focal loss has small slopes and would not converge at the same rate
MOMENTUM = 0.9


@dataclass(frozen=True)
class RankerRecipe:
    """Options of a ranker's training. The same recipe gives the same weights on the same computer and torch.

    Attributes
    ----------
    method : str
        One of METHODS; rank-svm and top-push train with cross-entropy, then refit the last layer.
    epochs : int
        Passes through the negatives.
    positives, negatives : int
        Images per batch; the classifiers' batches are as large, and mix both at random.
    rate : float
        Learning rate of gradient descent in the first epoch; five times that for focal loss.
    decay : float
        Factor of the rate after each epoch.
    augment : bool
        See `cbir.learn.training.samplers`.
    seed : int
        0 to 1023.
    options : LossOptions
        Options of the loss.
    """

    method: str = "toprank"
    epochs: int = 30
    positives: int = 5
    negatives: int = 450
    rate: float = 0.02
    decay: float = 0.95
    augment: bool = True
    seed: int = 0
    options: LossOptions = DEFAULT_OPTIONS

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidInput(f"there is no method {self.method!r}; there are: {', '.join(METHODS)}")
        if not (self.epochs >= 1 and self.rate > 0 and 0 < self.decay <= 1):
            raise InvalidInput("epochs must be at least 1, the rate above 0, its decay above 0 and at most 1")
        if self.positives < 1 or self.negatives < 1 or not 0 <= self.seed < SEEDS:
            raise InvalidInput(
                f"a batch needs a positive and a negative, and a seed is from 0 to {SEEDS - 1}"
            )


class RankerImages(NamedTuple):
    """Images of a ranker's training.

    pictures: (n, side, side) uint8, or an encoder's values (n, d). positive: (n,) bool, the images to score highest.
    parts: rows of "training" and "validation", each with positives and negatives.
    """

    pictures: NDArray[Any]
    positive: NDArray[np.bool_]
    parts: Parts


class RunOptions(NamedTuple):
    """Folder, device and callback of a training.

    folder: of the checkpoint; created. device: cpu or cuda. save_every: seconds between checkpoints; there is also
    one after each epoch. progress: receives steps done, all steps, the last loss and the best Pos@Top so far.
    """

    folder: Path
    device: str = "cpu"
    save_every: float = 60.0
    progress: ProgressCallback = lambda step, steps, loss, best: None


def train_ranker(
    network: ScoringNetwork, images: RankerImages, recipe: RankerRecipe, run: RunOptions
) -> dict[str, Any]:
    """Train a scoring network; it ends with the weights of the epoch with the best validation Pos@Top, then AUC.

    A checkpoint in the folder of the same recipe and images is continued with the same batches.

    Parameters
    ----------
    network : ScoringNetwork
        Trained in place.
    images : RankerImages
        Images.
    recipe : RankerRecipe
        Options of the training.
    run : RunOptions
        Folder, device and callback.

    Returns
    -------
    dict
        "history" (a row per epoch), "best_epoch" (from 1), "seconds" and, for a refitted last layer, "penalty".

    Raises
    ------
    InvalidInput
        If the checkpoint is of another training, or the loss becomes infinite.
    """
    training = _RankerRun(network, images, recipe, run)
    outcome = training.train(run.save_every, run.progress)
    if recipe.method in LAST_LAYERS:
        outcome["penalty"] = refit_last_layer(recipe.method, network, *images, run.device)
    return outcome


def recipe_loss(recipe: RankerRecipe, positive: NDArray[np.bool_]) -> ScoreLoss:
    """Return the loss of `recipe` for training images of which some are `positive` (n,).

    Cross-entropy weighs negatives and positives as m : n for m positives and n negatives, as in the paper, and 1 on
    average, so that the rate means the same for every ratio.
    """
    options = recipe.options
    if recipe.method in RANKING:
        return options.build_score_loss(recipe.method)
    options.refuse_others(recipe.method, ("gamma",) if recipe.method == "focal" else ())
    if recipe.method == "focal":
        return BinaryLoss(FOCAL_GAMMA if options.gamma is None else options.gamma, FOCAL_WEIGHTS)
    half = len(positive) / 2.0
    return BinaryLoss(weights=(half / (~positive).sum(), half / positive.sum()))


class _RankerRun(TrainingRun):
    """Training of a ranker."""

    def __init__(
        self, ranker: ScoringNetwork, images: RankerImages, recipe: RankerRecipe, run: RunOptions
    ) -> None:
        pictures, positive, parts = images
        self.ranker, self.positive, self.parts = ranker, positive, parts
        training = parts["training"]
        sampler: BatchSampler
        if recipe.method in RANKING:
            sampler = PositiveNegativeSampler(
                positive[training].tolist(), recipe.positives, recipe.negatives, seed=recipe.seed
            )
        else:
            sampler = ShuffledSampler(len(training), recipe.positives + recipe.negatives, recipe.seed)
        fingerprint = (positive, training, parts["validation"])
        super().__init__(ranker, pictures, training, recipe, sampler, fingerprint, run.folder, run.device)
        self.loss = recipe_loss(recipe, positive[training]).to(run.device)
        self.parallel = recipe.options.build_parallel()
        learned = [*ranker.parameters(), *self.loss.parameters()]
        self.optimizer = torch.optim.SGD(learned, recipe.rate, MOMENTUM, nesterov=True)

    def batch_loss(self, images: Tensor, rows: NDArray[np.int64]) -> Tensor:
        relevance = torch.from_numpy(self.positive[rows]).to(self.device)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.startswith("cuda")):
            scores = self.ranker(images)
            loss: Tensor = self.loss(scores, relevance)
            if self.parallel is not None and self.step < self.recipe.options.parallel_epochs * len(
                self.sampler
            ):
                loss = loss + self.parallel(scores, relevance)
        return loss

    def validate(self) -> tuple[dict[str, float], tuple[float, ...]]:
        """Measure Pos@Top and AUC on the validation images."""
        rows = self.parts["validation"]
        scores = score_pictures(self.ranker, self.pictures[rows], self.device)
        measures = pos_at_top(scores, self.positive[rows]), auc(scores, self.positive[rows])
        return {"pos_at_top": measures[0], "auc": measures[1]}, measures

    def rate(self, step: int) -> float:
        epoch = step // len(self.sampler)
        return float(RATE_FACTORS.get(self.recipe.method, 1.0) * self.recipe.rate * self.recipe.decay**epoch)
