"""Train an embedding: a network whose vectors bring a class together, under any of `cbir.losses`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.evaluation.metrics.vector_retrieval import Retrieved, retrieve
from cbir.losses import embedding_loss
from cbir.models.embedder import Embedder
from cbir.training.network_scoring import to_network_input
from cbir.training.samplers import BalancedSampler
from cbir.training.training_run import SEEDS, ProgressCallback, TrainingRun

AT_ONCE = 256
WARM_UP = 0.05  # share of the steps in which the rate rises
COMPARED = 4000  # images of the training part that validation looks among, at most


@dataclass(frozen=True)
class EmbeddingRecipe:
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
class EmbeddingData:
    """What is trained with: grey pictures (n, side, side) uint8, classes (n,) from 0, groups (n,), and parts.

    parts: places of the images of "training" and "validation". Images of one group (a patient) are not compared.
    """

    pictures: NDArray[np.uint8]
    classes: NDArray[np.int64]
    groups: NDArray[np.int64]
    parts: dict[str, NDArray[np.int64]]


def train_embedding(
    embedder: Embedder,
    material: EmbeddingData,
    recipe: EmbeddingRecipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    progress: ProgressCallback = lambda step, steps, loss, reached: None,
    told: Callable[[list[dict[str, float]]], None] = lambda history: None,
) -> dict[str, Any]:
    """Train `embedder`; it ends with the weights of the epoch of the best validation mAP. Returns what happened.

    A checkpoint is written into `folder` every `save_every` seconds and at the end of an epoch; where there is one of
    the same recipe and images, training goes on from it, with the very batches that would have followed; InvalidInput
    where it is of others. `progress` is told steps done, steps in all, the last loss and the best mAP so far; `told`
    after each epoch a row for each so far. The result has "history" (those rows), "best_epoch" from 1, "seconds",
    "images_a_second".
    """
    run = _EmbeddingRun(embedder, material, recipe, folder / "checkpoint.pt", device)
    run.go(save_every, progress, told)
    return {
        "history": run.history,
        "best_epoch": run.best_epoch,
        "seconds": round(run.seconds, 1),
        "images_a_second": round(run.step * recipe.classes * recipe.images / max(run.seconds, 1e-9), 1),
    }


@torch.no_grad()
def embed_pictures(embedder: Embedder, pictures: NDArray[np.uint8], device: str = "cpu") -> NDArray[np.float32]:
    """Vectors (n, dimensions) of grey pictures (n, side, side)."""
    was_training = embedder.training
    embedder.eval()
    found = [
        embedder(to_network_input(pictures[start : start + AT_ONCE], device)).float().cpu().numpy()
        for start in range(0, len(pictures), AT_ONCE)
    ]
    embedder.train(was_training)
    return np.concatenate(found)


def retrieve_classes(
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


class _EmbeddingRun(TrainingRun):
    """The training of an embedding."""

    largest_gradient = 5.0

    def __init__(
        self, embedder: Embedder, material: EmbeddingData, recipe: EmbeddingRecipe, kept: Path, device: str
    ) -> None:
        self.embedder, self.material = embedder, material
        training = material.parts["training"]
        there = len(np.unique(material.classes[training]))
        sampler = BalancedSampler(
            material.classes[training].tolist(), min(recipe.classes, there), recipe.images, seed=recipe.seed
        )
        told_by = (material.classes, material.groups, *material.parts.values())
        super().__init__(
            embedder, embedder.options, material.pictures, training, recipe, sampler, told_by, kept, device
        )
        count = int(material.classes.max()) + 1
        self.loss = embedding_loss(recipe.loss, embedder.dimensions, count).to(device)
        learning = [*embedder.parameters(), *self.loss.parameters()]
        self.optimizer = torch.optim.AdamW(learning, recipe.rate, weight_decay=recipe.weight_decay)
        random = np.random.default_rng(recipe.seed)
        self.gallery = np.sort(random.permutation(training)[:COMPARED])

    @property
    def exhausted(self) -> bool:
        """Whether mAP has not risen for as long as the recipe waits."""
        return len(self.history) - self.best_epoch >= self.recipe.patience

    def batch_loss(self, images: Tensor, places: NDArray[np.int64]) -> Tensor:
        classes = torch.from_numpy(self.material.classes[places]).to(self.device)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.startswith("cuda")):
            vectors = self.embedder(images)
        loss: Tensor = self.loss(vectors.float(), classes)
        return loss

    def judged(self) -> tuple[dict[str, float], tuple[float, ...]]:
        """Look for the images for validation among those for training."""
        queries = self.material.parts["validation"]
        places = np.concatenate([queries, self.gallery])
        vectors = np.zeros((len(self.material.classes), self.embedder.dimensions), np.float32)
        vectors[places] = embed_pictures(self.embedder, self.material.pictures[places], self.device)
        now = retrieve_classes(vectors, self.material.classes, self.material.groups, queries, self.gallery)
        return {"map": now.map, "p_at_1": now.p_at_1, "p_at_10": now.p_at_10}, (now.map,)

    def rate(self, epoch: int) -> float:
        return float(self.recipe.rate * _schedule((self.step + 1) / self.steps))


def _schedule(share: float) -> float:
    """The rate at a share of all steps, of the highest: a rise, then half a cosine."""
    if share < WARM_UP:
        return share / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP)))
