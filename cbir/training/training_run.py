"""A training that may be killed at any moment and goes on as if nothing had been."""

import hashlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cbir.errors import InvalidInput
from cbir.training import checkpoint
from cbir.training.augmentation import augment_images
from cbir.training.network_scoring import to_network_input
from cbir.training.samplers import BatchSampler

FORM = 2  # of checkpoints
SEEDS = 1 << 10  # a batch draws from its number times this, plus the seed
ProgressCallback = Callable[[int, int, float, float], None]
Rows = list[dict[str, float]]


class TrainingRun(ABC):
    """A network that learns from pictures (n, side, side), and how far it has come.

    What is learnt, and how good it is, subclasses say: `batch_loss`, `judged`, `rate`; `largest_gradient` is a norm.
    recipe: a dataclass with `epochs`, `seed` and `augment`, perhaps `mirror`. training: places of the pictures that
    the sampler's batches number. told_by: arrays that, with the pictures, tell this training from others.
    """

    largest_gradient: ClassVar[float] = math.inf

    def __init__(
        self,
        network: nn.Module,
        options: dict[str, Any],
        pictures: NDArray[np.uint8],
        training: NDArray[np.int64],
        recipe: Any,
        sampler: BatchSampler,
        told_by: Iterable[NDArray[Any]],
        kept: Path,
        device: str,
    ) -> None:
        self.network, self.pictures, self.training = network.to(device).train(), pictures, training
        self.recipe, self.sampler, self.kept, self.device = recipe, sampler, kept, device
        self.loss: nn.Module
        self.optimizer: torch.optim.Optimizer
        self.steps = recipe.epochs * len(sampler)
        self.step, self.seconds = 0, 0.0
        self.history: Rows = []
        self.reached: tuple[float, ...] = (-1.0,)
        self.best_epoch = 0
        self.best: dict[str, Tensor] = {}
        self._losses: list[float] = []
        self._batches: list[list[int]] = []
        self._what = {
            "form": FORM,
            "recipe": asdict(recipe),
            "model": options,
            "images": _digest(pictures, told_by),
        }

    @abstractmethod
    def batch_loss(self, images: Tensor, places: NDArray[np.int64]) -> Tensor:
        """The loss of a batch: images (m, 1, side, side), and their places among all pictures."""

    @abstractmethod
    def judged(self) -> tuple[dict[str, float], tuple[float, ...]]:
        """Measures on the images for validation, and those that say which epoch is the better one."""

    @abstractmethod
    def rate(self, epoch: int) -> float:
        """The rate of the next batch."""

    @property
    def exhausted(self) -> bool:
        """Whether more epochs are not worth it."""
        return False

    def go(
        self, save_every: float, progress: ProgressCallback, told: Callable[[Rows], None] = lambda history: None
    ) -> None:
        """Train to the end, from the checkpoint where there is one; the weights of the best epoch stay.

        progress: is told steps done, steps in all, the last loss, and the first of the measures that judge epochs, at
        its best. told: a row for each epoch so far. Raises InvalidInput for a checkpoint of another training, and
        where the loss becomes infinite.
        """
        self._resume()
        started, saved = time.monotonic() - self.seconds, time.monotonic()
        while self.step < self.steps and not self.exhausted:
            loss = self._advance()
            ends = self.step % len(self.sampler) == 0
            if ends:
                self._validate()
                told(self.history)
            progress(self.step, self.steps, loss, self.reached[0])
            if ends or time.monotonic() - saved > save_every:
                self.seconds = time.monotonic() - started
                self._save()
                saved = time.monotonic()
        self.network.load_state_dict(self.best)
        self.network.eval()

    def _advance(self) -> float:
        """One batch, which depends on seed and step alone; its loss."""
        epoch, within = divmod(self.step, len(self.sampler))
        if not self._batches or within == 0:
            self.sampler.set_epoch(epoch)
            self._batches = list(self.sampler)
        places = self.training[self._batches[within]]
        images = to_network_input(self.pictures[places], self.device)
        drawn = self.step * SEEDS + self.recipe.seed
        torch.manual_seed(drawn)  # of dropout, where a backbone has it
        if self.recipe.augment:
            mirror = getattr(self.recipe, "mirror", False)
            images = augment_images(images, torch.Generator().manual_seed(drawn), mirror)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(epoch)
        loss = self.batch_loss(images, places)
        self.optimizer.zero_grad()
        loss.backward()
        if math.isfinite(self.largest_gradient):
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.largest_gradient)
        self.optimizer.step()
        self.step += 1
        self._losses.append(float(loss.detach()))
        if not math.isfinite(self._losses[-1]):
            raise InvalidInput(f"the loss became infinite in epoch {epoch + 1}; take a lower rate")
        return self._losses[-1]

    def _validate(self) -> None:
        """Judge the network; keep its weights where it was never better."""
        measures, now = self.judged()
        self.history.append({"loss": float(np.mean(self._losses)), **measures})
        self._losses = []
        if now > self.reached:
            self.reached, self.best_epoch = now, len(self.history)
            self.best = {name: value.clone() for name, value in self.network.state_dict().items()}

    def _save(self) -> None:
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "network": self.network.state_dict(),
            "loss": self.loss.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "history": self.history,
            "losses": self._losses,
            "reached": list(self.reached),
            "best_epoch": self.best_epoch,
            "best": self.best,
        }
        checkpoint.write_checkpoint(self.kept, self._what | state)

    def _resume(self) -> None:
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        state = checkpoint.read_checkpoint(self.kept)
        if state is None:
            return
        if state.get("form") != FORM:
            raise InvalidInput(f"{self.kept} is of another version of cbir; delete it to train anew")
        if any(state.get(name) != value for name, value in self._what.items()):
            raise InvalidInput(f"{self.kept} is of another training; choose another folder, or delete it")
        self.network.load_state_dict(state["network"])
        self.loss.load_state_dict(state["loss"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = int(state["step"]), float(state["seconds"])
        self.history, self._losses = state["history"], state["losses"]
        self.reached, self.best_epoch = tuple(state["reached"]), int(state["best_epoch"])
        self.best = state["best"]


def _digest(pictures: NDArray[np.uint8], others: Iterable[NDArray[Any]]) -> str:
    digest = hashlib.blake2b(np.ascontiguousarray(pictures).data, digest_size=16)
    for values in others:
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
