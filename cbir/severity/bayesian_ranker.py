"""Bayesian ranker learned from comparisons (Kadota et al., Deep Bayesian active learning-to-rank)."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from cbir.errors import InvalidInput
from cbir.losses import ranknet_loss
from cbir.models.model_card import read_model_card
from cbir.models.model_files import load_weights, save_model
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


@dataclass(eq=False)
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

    backbone: str = "small"
    side: int = 64
    dropout: float = 0.2
    passes: int = 30
    weight_decay: float = 1e-4
    epochs: int = 20
    steps: int = 1000
    rate: float = 1e-3
    batch: int = 16
    weights: str | None = None
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        shares_fit = 0 <= self.dropout < 1 and 0 < self.rate < 1 and self.weight_decay >= 0
        if not shares_fit or self.epochs < 1 or self.steps < 0 or self.batch < 2:
            raise InvalidInput(
                "dropout must be from 0 to below 1, rate between 0 and 1, epochs above 0, steps and weight decay "
                "0 or more, and batch 2 or more"
            )
        if not 1 <= self.passes <= MAX_PASSES:
            raise InvalidInput(f"passes must be from 1 to {MAX_PASSES}, not {self.passes}")
        if not 32 <= self.side <= 1024:
            raise InvalidInput(f"side must be from 32 to 1024 pixels, not {self.side}")

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
        with self.network_.with_masks(self.network_.masks(len(rows), generator)):
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
        step = max(1, (BATCH if self.device == "cpu" else BATCH_GPU) // self.passes)
        parts = []
        with torch.inference_mode():
            for start in range(0, len(pictures), step):
                batch = _input(pictures[start : start + step], self.device)
                parts.append([tensor.float().cpu() for tensor in network.sampled(batch, masks)])
        if not parts:
            nothing = np.zeros(0, np.float32)
            return SeverityEstimate(nothing, nothing, np.zeros((0, network.width), np.float32))
        scores, features = (
            torch.cat([part[0] for part in parts], dim=1),
            torch.cat([part[1] for part in parts]),
        )
        variance = scores.var(dim=0, correction=0)
        return SeverityEstimate(
            scores.mean(dim=0).numpy(), variance.numpy(), features.numpy(), scores.numpy()
        )

    def save(self, folder: Path, facts: dict[str, Any] | None = None) -> None:
        """Write weights and card of the fitted ranker to `folder`; `facts` are further fields of the card.

        `load_bayesian_ranker` loads them.
        """
        folder.mkdir(parents=True, exist_ok=True)
        settings = asdict(self)
        del settings["weights"], settings["device"]  # of this computer
        card = {"ranker": settings, "calibrated": self.calibrated_, **(facts or {})}
        save_model(self.network_, folder / WEIGHTS, folder / CARD, card)


def load_bayesian_ranker(folder: Path, device: str = "cpu") -> BayesianRanker:
    """Load the ranker in `folder` to `device`, ready for use.

    Raises NotFound if there is none, InvalidInput if weights and card do not match.
    """
    command = f"`cbir annotate simulate --out {folder}`"
    card = read_model_card(folder / CARD, "a ranker", command, _is_severity_card)

    def build() -> BayesianNetwork:
        settings = BayesianRanker(**card["ranker"])
        return BayesianNetwork(settings.backbone, settings.dropout)

    network = load_weights(folder / WEIGHTS, card["sha256"], build)
    ranker = BayesianRanker(**card["ranker"], device=device)
    ranker.network_ = network.to(device).to(memory_format=torch.channels_last).eval()
    ranker.calibrated_ = card["calibrated"]
    return ranker


def _is_severity_card(card: Any) -> bool:
    kinds = {"ranker": dict, "sha256": str, "calibrated": bool}
    return all(isinstance(card[name], kind) for name, kind in kinds.items())


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
    resized = [cv2.resize(image, (side, side), interpolation=interpolation) for image in images]
    return np.stack(resized).astype(np.uint8, copy=False)


def _input(pictures: Pictures, device: str) -> Tensor:
    """Return (n, 1, side, side) float32 from 0 to 1, channels last."""
    images = to_network_input(np.ascontiguousarray(pictures), device)
    return images.contiguous(memory_format=torch.channels_last)
