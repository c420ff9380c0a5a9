"""Training of embeddings under any loss of `cbir.learn.losses`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.descriptors.networks.embedder import KEPT, Embedder, EmbeddingHead
from cbir.errors import InvalidInput
from cbir.evaluation.rank_metrics import RetrievalScores, evaluate_vectors
from cbir.learn.losses.embedding_losses import SimilarityLoss
from cbir.learn.models.scoring_network import apply_network
from cbir.learn.training.fine_tuning import parameter_groups
from cbir.learn.training.labelled_examples import Parts
from cbir.learn.training.loss_options import DEFAULT_OPTIONS, LossOptions
from cbir.learn.training.samplers import BalancedSampler
from cbir.learn.training.training_run import SEEDS, History, ProgressCallback, TrainingRun

DIRECTIONS = 512  # of an encoder's values, at most
WARM_UP = 0.05  # share of the steps in which the rate rises
COMPARED = 4000  # most training images that validation searches


@dataclass(frozen=True)
class EmbeddingRecipe:
    """Options of an embedding's training. The same recipe gives the same weights on the same computer and torch.

    Attributes
    ----------
    loss : str
        A name from `cbir.learn.losses.names()`; the default was best in bench/results/embeddings.md.
    epochs : int
        Passes through the training images, at most.
    classes, images : int
        Classes per batch, and images of each.
    rate : float
        Highest learning rate of AdamW; it rises over the first steps, then falls along a cosine.
    weight_decay : float
        Weight decay of AdamW.
    patience : int
        Epochs without a better validation mAP after which training ends.
    augment, mirror : bool
        See `cbir.learn.training.samplers`.
    seed : int
        0 to 1023.
    trunk : float
        Factor of the rate for the network before the pooling.
    options : LossOptions
        Options of the loss.
    """

    loss: str = "multi-similarity"
    epochs: int = 40
    classes: int = 16
    images: int = 8
    rate: float = 2e-3
    weight_decay: float = 1e-4
    patience: int = 15
    augment: bool = True
    seed: int = 0
    mirror: bool = False
    trunk: float = 1.0
    options: LossOptions = DEFAULT_OPTIONS

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.patience < 1 or not self.rate > 0 or not self.weight_decay >= 0:
            raise InvalidInput(
                "epochs and patience must be at least 1, the rate above 0, the decay not below 0"
            )
        if not 0 <= self.seed < SEEDS:
            raise InvalidInput(f"the seed must be from 0 to {SEEDS - 1}, not {self.seed}")


@dataclass(frozen=True, eq=False)
class EmbeddingData:
    """Images to train an embedding with.

    Attributes
    ----------
    pictures : (n, side, side), (n, side, side, 3) or (n, d)
        Pictures, or an encoder's values of them: see `to_network_input`.
    classes : (n,) int
        Class numbers from 0.
    groups : (n,) int
        Images of one group, such as a patient, are not compared in validation.
    parts : dict
        Rows of "training" and "validation".
    """

    pictures: NDArray[Any]
    classes: NDArray[np.int64]
    groups: NDArray[np.int64]
    parts: Parts


def train_embedding(
    embedder: Embedder | EmbeddingHead,
    data: EmbeddingData,
    recipe: EmbeddingRecipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    progress: ProgressCallback = lambda step, steps, loss, best: None,
    on_epoch: Callable[[History], None] = lambda history: None,
) -> dict[str, Any]:
    """Train an embedder; it ends with the weights of the epoch with the best validation mAP.

    A checkpoint in `folder` of the same recipe and images is continued with the same batches.

    Parameters
    ----------
    embedder : Embedder or EmbeddingHead
        Trained in place; a head takes an encoder's values.
    data : EmbeddingData
        Images, classes and parts.
    recipe : EmbeddingRecipe
        Options of the training.
    folder : Path
        Folder of the checkpoint; created.
    device : str
        cpu or cuda.
    save_every : float
        Seconds between checkpoints; there is also one after each epoch.
    progress : callable
        Receives steps done, all steps, the last loss and the best mAP so far.
    on_epoch : callable
        Receives a row per epoch so far, after each epoch.

    Returns
    -------
    dict
        "history" (a row per epoch), "best_epoch" (from 1), "seconds" and "images_a_second".

    Raises
    ------
    InvalidInput
        If the checkpoint is of another training, or the loss becomes infinite.
    """
    run = _EmbeddingRun(embedder, data, recipe, folder, device)
    outcome = run.train(save_every, progress, on_epoch)
    images = run.step * recipe.classes * recipe.images
    return {**outcome, "images_a_second": round(images / max(run.seconds, 1e-9), 1)}


def initial_head(data: EmbeddingData, dimensions: int = 128, kept: float = KEPT) -> EmbeddingHead:
    """Return a head for the values of an encoder that `data` has for pictures, fitted to the training images.

    Parameters
    ----------
    data : EmbeddingData
        With values (n, d) as pictures.
    dimensions : int
        Outputs of the trained layer.
    kept : float
        See `EmbeddingHead`.

    Raises
    ------
    InvalidInput
        If `kept` is out of range.
    """
    if not 0 <= kept < 1:
        raise InvalidInput(f"the share of a vector that is kept must be from 0 to below 1, not {kept}")
    training = data.parts["training"]
    directions = min(DIRECTIONS, len(training) - 1)
    head = EmbeddingHead(data.pictures.shape[1], dimensions, directions, kept)
    return head.start_from(data.pictures[training], data.classes[training])


def evaluate_embedding(
    vectors: NDArray[np.float32], data: EmbeddingData, queries: NDArray[np.int64], gallery: NDArray[np.int64]
) -> RetrievalScores:
    """Measure how well images retrieve their class.

    Parameters
    ----------
    vectors : (n, d) float32
        Vectors of the images of `data`.
    data : EmbeddingData
        Classes and groups.
    queries, gallery : (q,) and (g,) int
        Rows of the queries and of the images they search.
    """
    classes, groups, q, g = data.classes, data.groups, queries, gallery
    return evaluate_vectors(vectors[q], classes[q], vectors[g], classes[g], groups[q], groups[g])


class _EmbeddingRun(TrainingRun):
    """Training of an embedding."""

    largest_gradient = 5.0

    def __init__(
        self,
        embedder: Embedder | EmbeddingHead,
        data: EmbeddingData,
        recipe: EmbeddingRecipe,
        folder: Path,
        device: str,
    ) -> None:
        self.embedder, self.data = embedder, data
        training = data.parts["training"]
        classes = min(recipe.classes, len(np.unique(data.classes[training])))
        sampler = BalancedSampler(data.classes[training].tolist(), classes, recipe.images, seed=recipe.seed)
        is_trained = np.array([value.requires_grad for value in embedder.parameters()])
        fingerprint = (data.classes, data.groups, *data.parts.values(), is_trained)
        super().__init__(embedder, data.pictures, training, recipe, sampler, fingerprint, folder, device)
        count = int(data.classes.max()) + 1
        self.loss = recipe.options.build(recipe.loss, embedder.dimensions, count).to(device)
        parallel = recipe.options.build_parallel()
        self.parallel = None if parallel is None else SimilarityLoss(parallel)
        groups = [*parameter_groups(embedder, recipe.trunk), {"params": list(self.loss.parameters())}]
        self.optimizer = torch.optim.AdamW(groups, recipe.rate, weight_decay=recipe.weight_decay)
        self.gallery = np.sort(np.random.default_rng(recipe.seed).permutation(training)[:COMPARED])

    @property
    def exhausted(self) -> bool:
        """True when mAP has not risen for as long as the recipe waits."""
        return bool(len(self.history) - self.best_epoch >= self.recipe.patience)

    def batch_loss(self, images: Tensor, rows: NDArray[np.int64]) -> Tensor:
        classes = torch.from_numpy(self.data.classes[rows]).to(self.device)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.startswith("cuda")):
            vectors = self.embedder(images)
        loss: Tensor = self.loss(vectors.float(), classes)
        if self.parallel is not None and self.step < self.recipe.options.parallel_epochs * len(self.sampler):
            loss = loss + self.parallel(vectors.float(), classes)
        return loss

    def validate(self) -> tuple[dict[str, float], tuple[float, ...]]:
        """Search the training images for each validation image."""
        queries = self.data.parts["validation"]
        rows = np.concatenate([queries, self.gallery])
        searched = apply_network(self.embedder, self.data.pictures[rows], self.device)
        vectors = np.zeros((len(self.data.classes), searched.shape[1]), np.float32)
        vectors[rows] = searched
        scores = evaluate_embedding(vectors, self.data, queries, self.gallery)
        return {"map": scores.map, "p_at_1": scores.p_at_1, "p_at_10": scores.p_at_10}, (scores.map,)

    def rate(self, step: int) -> float:
        return float(self.recipe.rate * _schedule((step + 1) / self.steps))


def _schedule(share: float) -> float:
    """Return the rate at a share of all steps, relative to the highest: a linear rise, then half a cosine."""
    if share < WARM_UP:
        return share / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP)))
