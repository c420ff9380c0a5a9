"""A network as a ranking function, trained end to end on batches of graded pictures."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, repeat
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.models.linear.ranking_estimator import FeatureRanker
from cbir.learn.models.linear.ranking_lists import ListSize
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from torch import nn

Floats = NDArray[np.float64]

SIDE = 64  # pixels, in the commands
LOSSES = ("ranknet", "s-ndcg", "sodeep-spearman")
LARGEST_GRADIENT = 5.0  # norm
SEEDS = 1 << 10


@dataclass(eq=False, repr=False)
class CnnRanker(FeatureRanker):
    """Score pictures by a network that is trained on grades. Needs the extra deep.

    `X` is (n, side * side): grey pictures from 0 to 255, row by row.

    Parameters
    ----------
    loss : str
        One of LOSSES, on the scores of a batch.
    backbone : str
        A name from `cbir.descriptors.networks.backbones.names()`.
    epochs : int
        Passes through the pictures.
    batch : int
        Pictures per batch, equally many of each grade.
    rate, weight_decay : float
        Of AdamW; the rate falls along a cosine.
    mirror : bool
        See `cbir.learn.training.augmentation`.
    list_size : int, optional
        Images per list of `score`.
    seed : int
        Seed of the training.
    """

    name: ClassVar[str] = "cnn"

    loss: str = "ranknet"
    backbone: str = "small"
    epochs: int = 15
    batch: int = 40
    rate: float = 2e-3
    weight_decay: float = 0.01
    mirror: bool = False
    list_size: ListSize = 20
    seed: int = 0

    def _standardised(self, features: Floats) -> Floats:
        return features  # pictures have a common scale already

    def _learn(self, Z: Floats, grades: Floats, groups: NDArray[np.int64]) -> None:
        if self.loss not in LOSSES or not (self.epochs >= 1 and self.batch >= 4 and 0 < self.rate < math.inf):
            raise InvalidInput(
                f"a loss is one of {', '.join(LOSSES)}; epochs are at least 1, a batch 4, the rate a number above 0"
            )
        if find_spec("torch") is None:
            raise InvalidInput(f"the ranker {self.name} needs torch: {install_command('deep')}")
        import torch

        from cbir.learn.models.scoring_network import ScoringNetwork

        pictures = _pictures(Z)
        torch.manual_seed(self.seed)
        self.network_: nn.Module = ScoringNetwork(self.backbone, pictures.shape[1])
        self._train(pictures, grades)

    def _scores(self, Z: Floats) -> Floats:
        from cbir.learn.training.network_scoring import score_pictures

        return score_pictures(self.network_, _pictures(Z))  # type: ignore[arg-type]

    def _train(self, pictures: NDArray[np.uint8], grades: Floats) -> None:
        import torch

        from cbir.learn.losses import ON_SCORES
        from cbir.learn.training.augmentation import augment_images
        from cbir.learn.training.network_scoring import to_network_input
        from cbir.learn.training.samplers import BalancedSampler
        from cbir.learn.training.training_loop import run_training_loop

        levels, classes = np.unique(grades, return_inverse=True)
        seed, per_level = self.seed % SEEDS, max(2, self.batch // len(levels))
        sampler = BalancedSampler(classes.tolist(), min(len(levels), self.batch // 2), per_level, seed=seed)
        batches = chain.from_iterable(repeat(sampler, self.epochs))
        steps = self.epochs * len(sampler)
        network = self.network_.train()
        criterion = next(loss for loss in ON_SCORES if loss.name == self.loss)()

        def batch_loss(step: int) -> "torch.Tensor":
            rows = next(batches)
            generator = torch.Generator().manual_seed(step * SEEDS + seed)
            images = augment_images(to_network_input(pictures[rows], "cpu"), generator, self.mirror)
            loss: torch.Tensor = criterion(network(images), torch.from_numpy(grades[rows]))
            return loss

        run_training_loop(
            network,
            torch.optim.AdamW(network.parameters(), self.rate, weight_decay=self.weight_decay),
            batch_loss,
            steps,
            rate=lambda step: self.rate * (1 + math.cos(math.pi * step / steps)) / 2,
            largest_gradient=LARGEST_GRADIENT,
        )
        network.eval()


def _pictures(features: Floats) -> NDArray[np.uint8]:
    side = math.isqrt(features.shape[1])
    in_range = not len(features) or 0 <= features.min() <= features.max() <= 255
    if side * side != features.shape[1] or not in_range:
        raise InvalidInput("this ranker takes square pictures with values from 0 to 255, row by row")
    return features.astype(np.uint8).reshape(-1, side, side)
