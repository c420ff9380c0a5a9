"""Resumable training of a network on pictures, with validation after each epoch."""

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
from cbir.learn.models.scoring_network import to_network_input
from cbir.learn.training.fine_tuning import read_checkpoint, run_training_loop, write_checkpoint
from cbir.learn.training.samplers import BatchSampler, augment_images
from cbir.system.files import private_folder

FORMAT = 4  # of checkpoints
LEARNED = ("network", "loss", "optimizer")
PROGRESS = ("step", "seconds", "history", "losses", "reached", "best_epoch", "best")
SEEDS = 1 << 10  # a batch's random numbers come from the seed: step * SEEDS + seed
ProgressCallback = Callable[[int, int, float, float], None]
History = list[dict[str, float]]


class TrainingRun(ABC):
    """Train a network on pictures; a run that was killed continues from its checkpoint with the same batches.

    Subclasses create `loss` and `optimizer`, and implement `batch_loss`, `validate` and `rate`.

    Parameters
    ----------
    network : nn.Module
        The network to train; it moves to `device`. A checkpoint must match its `options`.
    pictures : (n, side, side), (n, side, side, 3) or (n, d)
        All pictures, or an encoder's values of them: see `to_network_input`.
    training : (m,) int
        Rows of the pictures that the batches of `sampler` index.
    recipe : dataclass
        Has `epochs`, `seed`, `augment` and perhaps `mirror`; a checkpoint must match it.
    sampler : BatchSampler
        Batches of each epoch.
    fingerprint : iterable of arrays
        Further data that a checkpoint must match, besides the pictures.
    folder : Path
        Folder of the checkpoint; created.
    device : str
        cpu or cuda.
    """

    largest_gradient: ClassVar[float] = math.inf

    def __init__(
        self,
        network: nn.Module,
        pictures: NDArray[Any],
        training: NDArray[np.int64],
        recipe: Any,
        sampler: BatchSampler,
        fingerprint: Iterable[NDArray[Any]],
        folder: Path,
        device: str,
    ) -> None:
        self.network, self.pictures, self.training = network.to(device).train(), pictures, training
        self.recipe, self.sampler, self.device = recipe, sampler, device
        self.checkpoint = folder / "checkpoint.pt"
        self.loss: nn.Module
        self.optimizer: torch.optim.Optimizer
        self.steps = recipe.epochs * len(sampler)
        self.step, self.seconds = 0, 0.0
        self.history: History = []
        self.losses: list[float] = []  # of this epoch
        self.reached: list[float] = [-1.0]  # measures of the best epoch
        self.best_epoch = 0
        self.best: dict[str, Tensor] = {}  # weights of that epoch
        self._batches: list[list[int]] = []
        digest = hashlib.blake2b(digest_size=16)
        for values in (pictures, *fingerprint):
            digest.update(np.ascontiguousarray(values).data)
        images = digest.hexdigest()
        options: Any = network.options
        self._identity = {"form": FORMAT, "recipe": asdict(recipe), "model": options, "images": images}

    @abstractmethod
    def batch_loss(self, images: Tensor, rows: NDArray[np.int64]) -> Tensor:
        """Return the loss of `images`, (m, channels, side, side) or values (m, d), which are the pictures `rows`."""

    @abstractmethod
    def validate(self) -> tuple[dict[str, float], tuple[float, ...]]:
        """Return named measures on the validation images, and those that compare epochs, most important first."""

    @abstractmethod
    def rate(self, step: int) -> float:
        """Return the learning rate of `step`, counted from 0."""

    @property
    def exhausted(self) -> bool:
        """True when further epochs are not worthwhile."""
        return False

    def train(
        self,
        save_every: float,
        progress: ProgressCallback,
        on_epoch: Callable[[History], None] = lambda history: None,
    ) -> dict[str, Any]:
        """Train to the end and load the weights of the best epoch.

        Parameters
        ----------
        save_every : float
            Seconds between checkpoints; there is also one after each epoch.
        progress : callable
            Receives steps done, all steps, the last loss and the best first measure so far (-1 before the first).
        on_epoch : callable
            Receives a row per epoch so far.

        Returns
        -------
        dict
            "history" (a row per epoch), "best_epoch" (from 1) and "seconds".

        Raises
        ------
        InvalidInput
            If the checkpoint belongs to another training, or the loss becomes infinite.
        """
        self._resume()
        started = time.monotonic() - self.seconds

        def after_step(step: int, loss: Tensor) -> None:
            self.step = step
            self.losses.append(last_loss := float(loss))
            if not math.isfinite(last_loss):
                epoch = math.ceil(step / len(self.sampler))
                raise InvalidInput(f"the loss became infinite in epoch {epoch}; use a lower rate")
            if step % len(self.sampler) == 0:
                self._end_epoch()
                on_epoch(self.history)
            progress(step, self.steps, last_loss, self.reached[0])

        def save() -> None:
            self.seconds = time.monotonic() - started
            self._save()

        run_training_loop(
            self.network,
            self.optimizer,
            self._step_loss,
            self.steps,
            start=self.step,
            rate=self.rate,
            largest_gradient=self.largest_gradient,
            on_step=after_step,
            stop=lambda: self.exhausted,
            save=save,
            save_every=save_every,
            epoch_length=len(self.sampler),
        )
        self.network.load_state_dict(self.best)
        self.network.eval()
        return {"history": self.history, "best_epoch": self.best_epoch, "seconds": round(self.seconds, 1)}

    def _step_loss(self, step: int) -> Tensor:
        """Return the loss of a batch that depends on seed and step alone."""
        epoch, index = divmod(step, len(self.sampler))
        if not self._batches or index == 0:
            self.sampler.set_epoch(epoch)
            self._batches = list(self.sampler)
        rows = self.training[self._batches[index]]
        images = to_network_input(self.pictures[rows], self.device)
        seed = step * SEEDS + self.recipe.seed
        torch.manual_seed(seed)  # for dropout, if the backbone has any
        if self.recipe.augment and images.ndim == 4:
            mirror = getattr(self.recipe, "mirror", False)
            images = augment_images(images, torch.Generator().manual_seed(seed), mirror)
        return self.batch_loss(images, rows)

    def _end_epoch(self) -> None:
        """Validate the network; keep its weights if they are the best so far."""
        measures, comparable = self.validate()
        self.history.append({"loss": float(np.mean(self.losses)), **measures})
        self.losses = []
        if list(comparable) > self.reached:
            self.reached, self.best_epoch = list(comparable), len(self.history)
            self.best = {name: value.clone() for name, value in self.network.state_dict().items()}

    def _save(self) -> None:
        state = {name: getattr(self, name).state_dict() for name in LEARNED}
        state |= {name: getattr(self, name) for name in PROGRESS}
        write_checkpoint(self.checkpoint, self._identity | state)

    def _resume(self) -> None:
        private_folder(self.checkpoint.parent)
        if state := read_checkpoint(self.checkpoint, self._identity):
            for name in LEARNED:
                getattr(self, name).load_state_dict(state[name])
            for name in PROGRESS:
                setattr(self, name, state[name])
