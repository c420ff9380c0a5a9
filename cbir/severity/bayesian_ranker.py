"""Bayesian ranker learned from comparisons (Kadota et al., Deep Bayesian active learning-to-rank)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from cbir.errors import InvalidInput
from cbir.losses import ranknet_loss
from cbir.models.model_files import save_model
from cbir.severity.bayesian_network import BayesianNetwork
from cbir.severity.judged_pairs import JudgedPairs, check_judged_pairs
from cbir.severity.severity_estimate import SeverityEstimate
from cbir.training.augmentation import augment_images
from cbir.training.network_scoring import to_network_input
from cbir.training.training_loop import run_training_loop

BATCH = 240  # images times passes in a sampled batch; more do not fit into the CPU cache
BATCH_GPU = 8192
MAX_PASSES = 1000
WEIGHTS, CARD = "severity.safetensors", "severity.json"

Pictures = NDArray[np.uint8]
Stop = Callable[[], bool]


class BayesianRanker:
    """Estimates severity as the mean of stochastic passes, and uncertainty as their variance.

    The same seed, settings and pairs give the same ranker on the same machine.

    Parameters
    ----------
    backbone : str
        One of `cbir.models.backbones.names()`.
    side : int
        Side length in pixels that images are scaled to.
    dropout : float
        Share of units dropped before every layer except the first.
    passes : int
        Number of stochastic passes, T.
    weight_decay : float
        Lambda of eq. 2.
    epochs : int
        Passes through the pairs; increased if they have fewer than `steps` batches, so that few pairs are trained
        long enough.
    steps : int
        Minimum number of batches.
    rate : float
        Maximum learning rate of Adam.
    batch : int
        Pairs per batch.
    weights : str, optional
        File, or folder of a trained embedding, with the initial weights of the backbone.
    seed : int
    device : str
        "cpu" or "cuda".
    """

    def __init__(
        self,
        backbone: str = "small",
        side: int = 64,
        dropout: float = 0.2,
        passes: int = 30,
        weight_decay: float = 1e-4,
        epochs: int = 20,
        steps: int = 1000,
        rate: float = 1e-3,
        batch: int = 16,
        weights: str | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        if (
            not 0 <= dropout < 1
            or epochs < 1
            or steps < 0
            or not 0 < rate < 1
            or batch < 2
            or not weight_decay >= 0
        ):
            raise InvalidInput(
                "dropout must be from 0 to below 1, rate between 0 and 1, epochs above 0, steps and weight decay "
                "0 or more, and batch 2 or more"
            )
        if not 1 <= passes <= MAX_PASSES:
            raise InvalidInput(f"passes must be from 1 to {MAX_PASSES}, not {passes}")
        if not 32 <= side <= 1024:
            raise InvalidInput(f"side must be from 32 to 1024 pixels, not {side}")
        self.backbone, self.side, self.dropout, self.passes = backbone, side, dropout, passes
        self.weight_decay, self.rate, self.batch = weight_decay, rate, batch
        self.epochs, self.steps = epochs, steps
        self.weights, self.seed, self.device = weights, seed, device

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the constructor except the device."""
        return {name: value for name, value in vars(self).items() if name != "device" and name[-1] != "_"}

    def fit(
        self,
        images: Pictures,
        pairs: ArrayLike,
        labels: ArrayLike,
        grades: ArrayLike | None = None,
        stop: Stop | None = None,
    ) -> Self:
        """Train on judged pairs.

        Parameters
        ----------
        images : (n, h, w) uint8
        pairs : (m, 2) int
            Rows of `images`.
        labels : (m,) float
            1, 0.5 or 0: the first image is more severe, both are equal, or the second is.
        grades : (n,) float, optional
            NaN for unknown. With grades, scores are calibrated to them (eq. 4).
        stop : callable, optional
            Checked before every batch; training ends once it returns True.

        Returns
        -------
        Self

        Raises
        ------
        InvalidInput
            If shapes or values are not valid.
        """
        judged = check_judged_pairs(len(images), pairs, labels, grades)
        with torch.random.fork_rng(devices=[]):  # leaves torch's global generator unchanged
            torch.manual_seed(self.seed)
            network = BayesianNetwork(self.backbone, self.dropout, self.weights)
        if judged.mean_grade is not None:
            nn.init.constant_(network.biased.bias, judged.mean_grade)
        self.network_ = network.to(self.device).to(memory_format=torch.channels_last)
        self.calibrated_ = judged.mean_grade is not None
        self._train(_resize_all(images, self.side), judged, stop or (lambda: False))
        return self

    def _train(self, pictures: Pictures, judged: JudgedPairs, stop: Stop) -> None:
        network, generator = self.network_, torch.Generator().manual_seed(self.seed)
        optimizer = torch.optim.Adam(_parameter_groups(network, self.weight_decay), self.rate)
        epoch_length = max(1, -(-len(judged.pairs) // self.batch))
        steps = epoch_length * max(self.epochs, -(-self.steps // epoch_length))
        batches = _batches(len(judged.pairs), epoch_length, generator)
        network.train()
        run_training_loop(
            network,
            optimizer,
            lambda step: self._loss(pictures, judged, next(batches), generator),
            steps,
            scheduler=torch.optim.lr_scheduler.OneCycleLR(optimizer, self.rate, total_steps=steps + 1),
            stop=stop,
        )
        network.eval()

    def _loss(
        self, pictures: Pictures, judged: JudgedPairs, rows: NDArray[np.int64], generator: torch.Generator
    ) -> Tensor:
        """Return the mean loss of eq. 2, and of eq. 4 for known grades; weight decay is left to the optimizer.

        Both images of a pair share one sample of the weights, as in eq. 9.
        """
        image_rows = judged.pairs[rows].ravel()
        images = augment_images(_input(pictures[image_rows], "cpu"), generator).to(self.device)
        masks = self.network_.masks(len(rows), generator)
        with self.network_.with_masks(masks):
            scores = self.network_(images.contiguous(memory_format=torch.channels_last))
        first, second = scores.view(-1, 2).T
        targets = torch.from_numpy(judged.labels[rows]).to(scores)
        loss = ranknet_loss(first, second, targets).mean()
        if self.calibrated_:
            grades = torch.from_numpy(judged.grades[image_rows]).to(scores)
            graded = ~grades.isnan()
            if graded.any():
                loss = loss + ((scores[graded] - grades[graded]) ** 2).mean()
        return loss

    def severity(self, images: Pictures) -> SeverityEstimate:
        """Return mean and variance of T stochastic passes over `images` (n, h, w) uint8; n may be 0.

        All images share the same T samples of the weights. Raises InvalidInput before `fit`.
        """
        if not hasattr(self, "network_"):
            raise InvalidInput("the ranker is not fitted; call fit with judged pairs first")
        pictures, network = _resize_all(images, self.side), self.network_
        masks = network.masks(self.passes, torch.Generator().manual_seed(self.seed))
        parts = []
        with torch.inference_mode():
            step = max(1, (BATCH if self.device == "cpu" else BATCH_GPU) // self.passes)
            for start in range(0, max(len(pictures), 1), step):
                batch = _input(pictures[start : start + step], self.device)
                if len(batch):
                    parts.append([tensor.float().cpu() for tensor in network.sampled(batch, masks)])
        if not parts:
            width = network.width
            return SeverityEstimate(
                np.zeros(0, np.float32), np.zeros(0, np.float32), np.zeros((0, width), np.float32)
            )
        scores = torch.cat([scores for scores, _ in parts], dim=1)
        return SeverityEstimate(
            scores.mean(dim=0).numpy(),
            scores.var(dim=0, correction=0).numpy(),
            torch.cat([features for _, features in parts]).numpy(),
            scores.numpy(),
        )

    def save(self, folder: Path, facts: dict[str, Any] | None = None) -> None:
        """Write weights and card of the fitted ranker to `folder`; `facts` are further fields of the card.

        `cbir.severity.bayesian_files.load_bayesian_ranker` loads them.
        """
        folder.mkdir(parents=True, exist_ok=True)
        settings = self.settings()
        settings.pop("weights")  # a path on this computer
        card = {"ranker": settings, "calibrated": self.calibrated_, **(facts or {})}
        save_model(self.network_, folder / WEIGHTS, folder / CARD, card)


def _batches(count: int, per_epoch: int, generator: torch.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield batches of rows without end, `per_epoch` nearly equal ones in random order for each pass over `count`."""
    while True:
        yield from np.array_split(torch.randperm(count, generator=generator).numpy(), per_epoch)


def _parameter_groups(network: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Return parameter groups: weights with decay, all other parameters without."""
    weights = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in network.parameters() if parameter.ndim <= 1]
    # The gradient of lambda ||W||^2 (eq. 2) is 2 lambda W.
    return [{"params": weights, "weight_decay": 2 * decay}, {"params": others, "weight_decay": 0.0}]


def _resize_all(images: Pictures, side: int) -> Pictures:
    """Scale `images` to (n, side, side) uint8; raise InvalidInput for other types or shapes."""
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.ndim != 3:
        raise InvalidInput(
            f"images must be uint8 of shape (images, height, width), not {images.dtype} {images.shape}"
        )
    if images.shape[1:] == (side, side) or not len(images):
        return images
    interpolation = cv2.INTER_AREA if min(images.shape[1:]) > side else cv2.INTER_LINEAR
    return np.stack(
        [
            np.asarray(cv2.resize(image, (side, side), interpolation=interpolation), np.uint8)
            for image in images
        ]
    )


def _input(pictures: Pictures, device: str) -> Tensor:
    """Return (n, 1, side, side) float32 from 0 to 1, channels last."""
    images = to_network_input(np.ascontiguousarray(pictures), device)
    return images.contiguous(memory_format=torch.channels_last)
