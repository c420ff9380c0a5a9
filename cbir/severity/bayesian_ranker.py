"""Learning to rank from comparisons with uncertainty (Kadota et al., Deep Bayesian active learning-to-rank)."""

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
from cbir.severity.bayesian_network import BayesianNetwork
from cbir.severity.judged_pairs import JudgedPairs, check_judged_pairs
from cbir.severity.severity_estimate import SeverityEstimate
from cbir.training.augmentation import augment_images
from cbir.training.network_scoring import to_network_input
from cbir.training.training_loop import run_training_loop

AT_ONCE = 240  # images in a sampled batch, all passes together: more no longer fit into a processor's cache
AT_ONCE_ON_GPU = 8192
MOST_PASSES = 1000

Pictures = NDArray[np.uint8]
Stop = Callable[[], bool]


class BayesianRanker:
    """Severity of images from pairs of them: the mean of stochastic passes, and their variance as uncertainty.

    backbone: one of `cbir.models.backbones.names()`. side: pixels that images are scaled to. dropout: share of units
    dropped before every layer but the first. passes: T. weight_decay: lambda of eq. 2. epochs: times through the
    pairs, more where these are too few for as many batches as `steps`: what is learnt of few pairs must not be worse
    for want of practice. rate: of Adam, at its highest. batch: pairs. weights: a file, or the folder of a trained
    embedding, that the backbone starts from. device: cpu, or cuda. The same seed, settings and pairs give the same
    ranker on the same machine.
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
                "dropout is from 0 to below 1, the rate between 0 and 1, epochs above 0, steps 0 or more, "
                "a batch has 2 pairs or more"
            )
        if not 1 <= passes <= MOST_PASSES:
            raise InvalidInput(f"a severity takes 1 to {MOST_PASSES} passes, not {passes}")
        if not 32 <= side <= 1024:
            raise InvalidInput(f"images are scaled to 32 to 1024 pixels, not {side}")
        self.backbone, self.side, self.dropout, self.passes = backbone, side, dropout, passes
        self.weight_decay, self.rate, self.batch = weight_decay, rate, batch
        self.epochs, self.steps = epochs, steps
        self.weights, self.seed, self.device = weights, seed, device

    def settings(self) -> dict[str, Any]:
        """What the constructor was given, but for the device."""
        return {name: value for name, value in vars(self).items() if name != "device" and name[-1] != "_"}

    def fit(
        self,
        images: Pictures,
        pairs: ArrayLike,
        labels: ArrayLike,
        grades: ArrayLike | None = None,
        stop: Stop | None = None,
    ) -> Self:
        """Learn from images (n, h, w) uint8 and pairs (m, 2) of their rows.

        labels: (m,) 1 where the first is the more severe, 0.5 where both are alike, 0 where the second is. grades:
        (n,), NaN where unknown; where there are any, scores are also drawn to them (eq. 4), so that a score is a
        grade. stop: asked before every batch; the ranker keeps what it has learnt so far where it says True.
        Raises InvalidInput for what does not fit.
        """
        known = check_judged_pairs(len(images), pairs, labels, grades)
        with torch.random.fork_rng(devices=[]):  # for whoever else draws from torch in this process
            torch.manual_seed(self.seed)
            network = BayesianNetwork(self.backbone, self.dropout, self.weights)
        if known.mean_grade is not None:
            nn.init.constant_(network.biased.bias, known.mean_grade)
        self.network_ = network.to(self.device).to(memory_format=torch.channels_last)
        self.calibrated_ = known.mean_grade is not None
        self._learn(_squares(images, self.side), known, stop or (lambda: False))
        return self

    def _learn(self, pictures: Pictures, known: JudgedPairs, stop: Stop) -> None:
        network, generator = self.network_, torch.Generator().manual_seed(self.seed)
        optimizer = torch.optim.Adam(_groups(network, self.weight_decay), self.rate)
        epoch_length = max(1, -(-len(known.pairs) // self.batch))
        steps = epoch_length * max(self.epochs, -(-self.steps // epoch_length))
        batches = _batches(len(known.pairs), epoch_length, generator)
        network.train()
        run_training_loop(
            network,
            optimizer,
            lambda step: self._loss(pictures, known, next(batches), generator),
            steps,
            scheduler=torch.optim.lr_scheduler.OneCycleLR(optimizer, self.rate, total_steps=steps + 1),
            stop=stop,
        )
        network.eval()

    def _loss(
        self, pictures: Pictures, known: JudgedPairs, rows: NDArray[np.int64], generator: torch.Generator
    ) -> Tensor:
        """Eq. 2, and eq. 4 where grades are known, as means; weight decay is the optimizer's.

        Both images of a pair see one sample of the weights, as in eq. 9: what it adds to both tells nothing.
        """
        places = known.pairs[rows].ravel()
        images = augment_images(_input(pictures[places], "cpu"), generator).to(self.device)
        masks = self.network_.masks(len(rows), generator)
        with self.network_.with_masks(masks):
            scores = self.network_(images.contiguous(memory_format=torch.channels_last))
        first, second = scores.view(-1, 2).T
        wanted = torch.from_numpy(known.labels[rows]).to(scores)
        loss = ranknet_loss(first, second, wanted).mean()
        if self.calibrated_:
            grades = torch.from_numpy(known.grades[places]).to(scores)
            graded = ~grades.isnan()
            if graded.any():
                loss = loss + ((scores[graded] - grades[graded]) ** 2).mean()
        return loss

    def severity(self, images: Pictures) -> SeverityEstimate:
        """Mean and variance of T stochastic passes over images (n, h, w) uint8, n from 0 on.

        All images see the same T samples of the weights. Raises InvalidInput before `fit`.
        """
        if not hasattr(self, "network_"):
            raise InvalidInput("the ranker has learnt nothing yet; call fit with judged pairs")
        pictures, network = _squares(images, self.side), self.network_
        masks = network.masks(self.passes, torch.Generator().manual_seed(self.seed))
        parts = []
        with torch.inference_mode():
            step = max(1, (AT_ONCE if self.device == "cpu" else AT_ONCE_ON_GPU) // self.passes)
            for start in range(0, max(len(pictures), 1), step):
                seen = _input(pictures[start : start + step], self.device)
                if len(seen):
                    parts.append([of.float().cpu() for of in network.sampled(seen, masks)])
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
        """Write weights and card into `folder`, which is made; `facts` go into the card."""
        from cbir.severity.bayesian_files import save_bayesian_ranker

        save_bayesian_ranker(self, folder, facts or {})

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> "BayesianRanker":
        """The ranker in `folder`; nothing is unpickled. Raises NotFound, InvalidInput."""
        from cbir.severity.bayesian_files import load_bayesian_ranker

        return load_bayesian_ranker(folder, device)


def _batches(count: int, per_epoch: int, generator: torch.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield batches of rows without end, `per_epoch` nearly equal ones in random order for each pass over `count`."""
    while True:
        yield from np.array_split(torch.randperm(count, generator=generator).numpy(), per_epoch)


def _groups(network: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Weights, which decay, and all that is no weight of a layer, which does not."""
    weights = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in network.parameters() if parameter.ndim <= 1]
    # The gradient of lambda ||W||^2 (eq. 2) is 2 lambda W.
    return [{"params": weights, "weight_decay": 2 * decay}, {"params": others, "weight_decay": 0.0}]


def _squares(images: Pictures, side: int) -> Pictures:
    """(n, side, side) uint8. Raises InvalidInput."""
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.ndim != 3:
        raise InvalidInput(
            f"images are uint8 of the shape (images, height, width), not {images.dtype} {images.shape}"
        )
    if images.shape[1:] == (side, side) or not len(images):
        return images
    way = cv2.INTER_AREA if min(images.shape[1:]) > side else cv2.INTER_LINEAR
    return np.stack(
        [np.asarray(cv2.resize(one, (side, side), interpolation=way), np.uint8) for one in images]
    )


def _input(pictures: Pictures, device: str) -> Tensor:
    """Return (n, 1, side, side) float32 from 0 to 1, channels last."""
    images = to_network_input(np.ascontiguousarray(pictures), device)
    return images.contiguous(memory_format=torch.channels_last)
