"""Train an embedding: a network whose vectors bring a class together, under any of `cbir.losses`."""

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
from cbir.evaluation.retrieval import Retrieved, retrieve
from cbir.losses import embedding_loss
from cbir.models.embedder import Embedder
from cbir.training import checkpoint
from cbir.training.augmentation import augmented
from cbir.training.samplers import BalancedSampler
from cbir.training.scoring import as_input

SEEDS = 1 << 10
AT_ONCE = 256
LARGEST_GRADIENT = 5.0  # norm
WARM_UP = 0.05  # share of the steps in which the rate rises
COMPARED = 4000  # images of the training part that validation looks among, at most

Report = Callable[[int, int, float, float], None]


@dataclass(frozen=True)
class Recipe:
    """How an embedding is trained; the same recipe gives the same weights, on the same machine and torch.

    loss: a name of `cbir.losses.names`. A batch has `images` images of each of `classes` classes. rate: of AdamW,
    the highest; it rises over the first steps and falls along a cosine. patience: epochs without a better mAP of
    the images for validation, after which training ends. augment, mirror: see `cbir.training.augmentation`.
    """

    loss: str = "multi-similarity"  # the best so far: bench/results/embeddings.md
    epochs: int = 40
    classes: int = 16
    images: int = 8
    rate: float = 2e-3
    weight_decay: float = 1e-4
    patience: int = 15
    augment: bool = True
    seed: int = 0
    mirror: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.patience < 1 or not self.rate > 0 or not self.weight_decay >= 0:
            raise InvalidInput(
                "epochs and patience must be at least 1, the rate above 0, the decay not below 0"
            )
        if not 0 <= self.seed < SEEDS:
            raise InvalidInput(f"the seed must be from 0 to {SEEDS - 1}, not {self.seed}")


@dataclass(frozen=True, eq=False)
class Material:
    """What is trained with: grey pictures (n, side, side) uint8, classes (n,) from 0, groups (n,), and parts.

    parts: places of the images of "training" and "validation". Images of one group (a patient) are not compared.
    """

    pictures: NDArray[np.uint8]
    classes: NDArray[np.int64]
    groups: NDArray[np.int64]
    parts: dict[str, NDArray[np.int64]]


def train(
    embedder: Embedder,
    material: Material,
    recipe: Recipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    progress: Report = lambda step, steps, loss, reached: None,
    told: Callable[[list[dict[str, float]]], None] = lambda history: None,
) -> dict[str, Any]:
    """Train `embedder`; it ends with the weights of the epoch of the best validation mAP. Returns what happened.

    A checkpoint is written into `folder` every `save_every` seconds and at the end of an epoch; where there is one of
    the same recipe and images, training goes on from it, with the very batches that would have followed; InvalidInput
    where it is of others. `progress` is told steps done, steps in all, the last loss and the best mAP so far; `told`
    after each epoch a row for each so far. The result has "history" (those rows), "best_epoch" from 1, "seconds",
    "images_a_second".
    """
    run = _Run(embedder, material, recipe, folder / "checkpoint.pt", device)
    started, saved = time.monotonic() - run.seconds, time.monotonic()
    while run.step < run.steps and not run.exhausted:
        loss = run.advance()
        ends = run.step % len(run.sampler) == 0
        if ends:
            run.validate()
            told(run.history)
        progress(run.step, run.steps, loss, run.reached)
        if ends or time.monotonic() - saved > save_every:
            run.seconds = time.monotonic() - started
            run.save()
            saved = time.monotonic()
    embedder.load_state_dict(run.best)
    embedder.eval()
    return {
        "history": run.history,
        "best_epoch": run.best_epoch,
        "seconds": round(run.seconds, 1),
        "images_a_second": round(run.step * recipe.classes * recipe.images / max(run.seconds, 1e-9), 1),
    }


@torch.no_grad()
def embed(embedder: Embedder, pictures: NDArray[np.uint8], device: str = "cpu") -> NDArray[np.float32]:
    """Vectors (n, dimensions) of grey pictures (n, side, side)."""
    was_training = embedder.training
    embedder.eval()
    found = [
        embedder(as_input(pictures[start : start + AT_ONCE], device)).float().cpu().numpy()
        for start in range(0, len(pictures), AT_ONCE)
    ]
    embedder.train(was_training)
    return np.concatenate(found)


def retrieved(
    vectors: NDArray[np.float32],
    classes: NDArray[np.int64],
    groups: NDArray[np.int64],
    queries: NDArray[np.int64],
    gallery: NDArray[np.int64],
) -> Retrieved:
    """How well the images at places `queries` find their class among those at `gallery`."""
    return retrieve(
        vectors[queries],
        classes[queries],
        vectors[gallery],
        classes[gallery],
        groups[queries],
        groups[gallery],
    )


class _Run:
    """A training and how far it has come."""

    def __init__(
        self, embedder: Embedder, material: Material, recipe: Recipe, kept: Path, device: str
    ) -> None:
        self.embedder, self.material, self.recipe = embedder.to(device).train(), material, recipe
        self.kept, self.device = kept, device
        training = material.parts["training"]
        count = int(material.classes.max()) + 1
        self.loss = embedding_loss(recipe.loss, embedder.dimensions, count).to(device)
        there = len(np.unique(material.classes[training]))
        self.sampler = BalancedSampler(
            material.classes[training].tolist(), min(recipe.classes, there), recipe.images, seed=recipe.seed
        )
        learning = [*embedder.parameters(), *self.loss.parameters()]
        self.optimizer = torch.optim.AdamW(learning, recipe.rate, weight_decay=recipe.weight_decay)
        self.steps = recipe.epochs * len(self.sampler)
        random = np.random.default_rng(recipe.seed)
        self.gallery = np.sort(random.permutation(training)[:COMPARED])
        self.step, self.seconds = 0, 0.0
        self.history: list[dict[str, float]] = []
        self.reached, self.best_epoch = -1.0, 0
        self.best: dict[str, Tensor] = {}
        self._losses: list[float] = []
        self._batches: list[list[int]] = []
        kept.parent.mkdir(parents=True, exist_ok=True)
        self._what = {"recipe": asdict(recipe), "model": embedder.options, "images": self._digest()}
        self._resume()

    @property
    def exhausted(self) -> bool:
        """Whether mAP has not risen for as long as the recipe waits."""
        return len(self.history) - self.best_epoch >= self.recipe.patience

    def advance(self) -> float:
        """One batch, which depends on seed and step alone; its loss."""
        epoch, within = divmod(self.step, len(self.sampler))
        if not self._batches or within == 0:
            self.sampler.set_epoch(epoch)
            self._batches = list(self.sampler)
        places = self.material.parts["training"][self._batches[within]]
        images = as_input(self.material.pictures[places], self.device)
        drawn = self.step * SEEDS + self.recipe.seed
        torch.manual_seed(drawn)  # of dropout, where a backbone has it
        if self.recipe.augment:
            images = augmented(images, torch.Generator().manual_seed(drawn), self.recipe.mirror)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate * _schedule((self.step + 1) / self.steps)
        classes = torch.from_numpy(self.material.classes[places]).to(self.device)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.startswith("cuda")):
            vectors = self.embedder(images)
        loss = self.loss(vectors.float(), classes)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.embedder.parameters(), LARGEST_GRADIENT)
        self.optimizer.step()
        self.step += 1
        self._losses.append(float(loss.detach()))
        if not math.isfinite(self._losses[-1]):
            raise InvalidInput(f"the loss became infinite in epoch {epoch + 1}; take a lower rate")
        return self._losses[-1]

    def validate(self) -> None:
        """Look for the images for validation among those for training; keep weights that were never better."""
        queries = self.material.parts["validation"]
        places = np.concatenate([queries, self.gallery])
        vectors = np.zeros((len(self.material.classes), self.embedder.dimensions), np.float32)
        vectors[places] = embed(self.embedder, self.material.pictures[places], self.device)
        now = retrieved(vectors, self.material.classes, self.material.groups, queries, self.gallery)
        row = {
            "loss": float(np.mean(self._losses)),
            "map": now.map,
            "p_at_1": now.p_at_1,
            "p_at_10": now.p_at_10,
        }
        self.history.append(row)
        self._losses = []
        if now.map > self.reached:
            self.reached, self.best_epoch = now.map, len(self.history)
            self.best = {name: value.clone() for name, value in self.embedder.state_dict().items()}

    def save(self) -> None:
        """Write the checkpoint."""
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "network": self.embedder.state_dict(),
            "loss": self.loss.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "history": self.history,
            "losses": self._losses,
            "reached": self.reached,
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
        self.embedder.load_state_dict(state["network"])
        self.loss.load_state_dict(state["loss"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = int(state["step"]), float(state["seconds"])
        self.history, self._losses = state["history"], state["losses"]
        self.reached, self.best_epoch, self.best = state["reached"], int(state["best_epoch"]), state["best"]

    def _digest(self) -> str:
        digest = hashlib.blake2b(np.ascontiguousarray(self.material.pictures).data, digest_size=16)
        for values in (self.material.classes, self.material.groups, *self.material.parts.values()):
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()


def _schedule(share: float) -> float:
    """The rate at a share of all steps, of the highest: a rise, then half a cosine."""
    if share < WARM_UP:
        return share / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP)))
