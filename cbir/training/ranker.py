"""Train a ranker: a network that scores positive images above negative ones (Zheng et al., Top-rank CNN)."""

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.evaluation.triage import auc, pos_at_top
from cbir.losses import PosAtTopLoss, ScoreLoss, TopRankLoss
from cbir.losses.binary import BinaryLoss
from cbir.models.ranker import Ranker
from cbir.training import checkpoint
from cbir.training.augmentation import augmented
from cbir.training.last_layer import LAST_LAYERS, refit
from cbir.training.samplers import BatchSampler, PositiveNegativeSampler, ShuffledSampler
from cbir.training.scoring import as_input, score

RANKING = ("toprank", "pos-at-top")  # whose batches have few positives and many negatives
METHODS = (*RANKING, "cross-entropy", "focal", *LAST_LAYERS)
FOCAL = {"gamma": 2.0, "weights": (0.75, 0.25)}  # of Zheng et al., section 5.4
STEEPER = {
    "focal": 5.0
}  # the rate, times this: slopes of focal loss are small, and training would get nowhere
SEEDS = 1 << 10
MOMENTUM = 0.9

Report = Callable[[int, int, float, float], None]


@dataclass(frozen=True)
class Recipe:
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


def train(
    ranker: Ranker,
    pictures: NDArray[np.uint8],
    positive: NDArray[np.bool_],
    parts: dict[str, NDArray[np.int64]],
    recipe: Recipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    progress: Report = lambda step, steps, loss, reached: None,
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
    run = _Run(ranker, pictures, positive, parts, recipe, folder / "checkpoint.pt", device)
    started, saved = time.monotonic() - run.seconds, time.monotonic()
    while run.step < run.steps:
        loss = run.advance()
        ends = run.step % len(run.sampler) == 0
        if ends:
            run.validate()
        progress(run.step, run.steps, loss, run.reached[0])
        if ends or time.monotonic() - saved > save_every:
            run.seconds = time.monotonic() - started
            run.save()
            saved = time.monotonic()
    ranker.load_state_dict(run.best)
    ranker.eval()
    told = {"history": run.history, "best_epoch": run.best_epoch, "seconds": round(run.seconds, 1)}
    if recipe.method in LAST_LAYERS:
        told["penalty"] = refit(recipe.method, ranker, pictures, positive, parts, device)
    return told


def loss_of(recipe: Recipe, positive: NDArray[np.bool_]) -> ScoreLoss:
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


class _Run:
    """A training and how far it has come."""

    def __init__(
        self,
        ranker: Ranker,
        pictures: NDArray[np.uint8],
        positive: NDArray[np.bool_],
        parts: dict[str, NDArray[np.int64]],
        recipe: Recipe,
        kept: Path,
        device: str,
    ) -> None:
        self.ranker, self.recipe, self.kept, self.device = ranker.to(device).train(), recipe, kept, device
        self.pictures, self.positive, self.parts = pictures, positive, parts
        of_training = positive[parts["training"]]
        self.loss = loss_of(recipe, of_training)
        self.sampler: BatchSampler
        if recipe.method in RANKING:
            self.sampler = PositiveNegativeSampler(
                of_training.tolist(), recipe.positives, recipe.negatives, seed=recipe.seed
            )
        else:
            self.sampler = ShuffledSampler(len(of_training), recipe.positives + recipe.negatives, recipe.seed)
        self.optimizer = torch.optim.SGD(ranker.parameters(), recipe.rate, MOMENTUM, nesterov=True)
        self.steps = recipe.epochs * len(self.sampler)
        self.step, self.seconds = 0, 0.0
        self.history: list[dict[str, float]] = []
        self.reached, self.best_epoch = (-1.0, -1.0), 0
        self.best: dict[str, Tensor] = {}
        self._losses: list[float] = []
        self._batches: list[list[int]] = []
        kept.parent.mkdir(parents=True, exist_ok=True)
        self._what = {"recipe": asdict(recipe), "ranker": ranker.options, "images": self._digest()}
        self._resume()

    def advance(self) -> float:
        """One batch, which depends on seed and step alone; its loss."""
        epoch, within = divmod(self.step, len(self.sampler))
        if not self._batches or within == 0:
            self.sampler.set_epoch(epoch)
            self._batches = list(self.sampler)
        places = self.parts["training"][self._batches[within]]
        images = as_input(self.pictures[places], self.device)
        drawn = self.step * SEEDS + self.recipe.seed
        torch.manual_seed(drawn)  # of dropout, where a backbone has it
        if self.recipe.augment:
            images = augmented(images, torch.Generator().manual_seed(drawn))
        for group in self.optimizer.param_groups:
            group["lr"] = STEEPER.get(self.recipe.method, 1.0) * self.recipe.rate * self.recipe.decay**epoch
        relevance = torch.from_numpy(self.positive[places]).to(self.device)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.startswith("cuda")):
            loss = self.loss(self.ranker(images), relevance)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        self._losses.append(float(loss.detach()))
        if not math.isfinite(self._losses[-1]):
            raise InvalidInput(f"the loss became infinite in epoch {epoch + 1}; take a lower rate")
        return self._losses[-1]

    def validate(self) -> None:
        """Try the ranker on the images for validation; keep its weights where it was never better."""
        places = self.parts["validation"]
        scores, positive = score(self.ranker, self.pictures[places], self.device), self.positive[places]
        now = (pos_at_top(scores, positive), auc(scores, positive))
        row = {"loss": sum(self._losses) / len(self._losses), "pos_at_top": now[0], "auc": now[1]}
        self.history.append(row)
        self._losses = []
        if now > self.reached:
            self.reached, self.best_epoch = now, len(self.history)
            self.best = {name: value.clone() for name, value in self.ranker.state_dict().items()}

    def save(self) -> None:
        """Write the checkpoint."""
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "model": self.ranker.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "history": self.history,
            "losses": self._losses,
            "reached": list(self.reached),
            "best_epoch": self.best_epoch,
            "best": self.best,
        }
        checkpoint.write(self.kept, self._what | state)

    def _resume(self) -> None:
        state = checkpoint.read(self.kept)
        if state is None:
            return
        if any(state.get(name) != value for name, value in self._what.items()):
            raise InvalidInput(f"{self.kept} is of another training; choose another folder, or delete it")
        self.ranker.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = int(state["step"]), float(state["seconds"])
        self.history, self._losses = state["history"], state["losses"]
        self.reached, self.best_epoch = tuple(state["reached"]), int(state["best_epoch"])
        self.best = state["best"]

    def _digest(self) -> str:
        digest = hashlib.blake2b(np.ascontiguousarray(self.pictures).data, digest_size=16)
        for values in (self.positive, self.parts["training"], self.parts["validation"]):
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()
