"""Networks as ranking functions: a small one trained end to end, and a pretrained one that is trained further."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cbir.descriptors.encoders import built_in
from cbir.errors import InvalidInput
from cbir.learn.grading.grade_scale import MOST_LEVELS, expected_grade_scale
from cbir.learn.grading.picture_maps import (
    WHOLE,
    WINDOWS,
    GradingNetwork,
    NetworkMean,
    PictureMaps,
    parse_windows,
)
from cbir.learn.models.kernel_ranker import left_out_error
from cbir.learn.models.ranking_estimator import (
    FeatureRanker,
    ListSize,
    RankingEstimator,
    check_graded,
    number_groups,
)
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from torch import nn

Floats = NDArray[np.float64]

SMALL_CNN_SIDE = 64  # pixels, in the commands
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
        See `cbir.learn.training.samplers`.
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
        from cbir.learn.models.scoring_network import score_pictures

        return score_pictures(self.network_, _pictures(Z))  # type: ignore[arg-type]

    def _train(self, pictures: NDArray[np.uint8], grades: Floats) -> None:
        import torch

        from cbir.learn.losses import ON_SCORES
        from cbir.learn.models.scoring_network import to_network_input
        from cbir.learn.training.fine_tuning import run_training_loop
        from cbir.learn.training.samplers import BalancedSampler, augment_images

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


TUNED_CNN_SIDE = 320  # pixels, in the commands
SAMPLE = 400  # images to choose windows and the scale with


@dataclass(eq=False, repr=False)
class TunedCnnRanker(RankingEstimator):
    """Score pictures by an encoder whose last blocks are trained on grades. The scores are expected grades.

    `fit` needs the extra deep, `predict` does not. `X` is a `PictureMaps`, or pictures (n, side, side) uint8.

    Parameters
    ----------
    encoder : str
        Encoder made from EfficientNet-Lite.
    blocks : int
        Last blocks of the network to train, of those behind its middle; more than there are: all of them.
    epochs : int
        Passes through the pictures.
    rate : float
        Highest learning rate of the blocks.
    mirror : bool
        Train on mirror images too, and average over them: for images whose left and right are alike.
    window : str
        Names in `cbir.learn.grading.picture_maps.WINDOWS` with commas between: the part of each image that a network
        sees, for each in turn. "auto": the one whose frozen vectors grade left-out groups with the least squared
        errors, and the whole image, or the next best if that is the best.
    networks : int
        Networks whose scores are averaged, each with a seed of its own.
    list_size : int, optional
        Images per list of `score`.
    seed : int
        Seed of the training.

    Attributes
    ----------
    grade_scale_ : GradeScale
        Scale of the scores, from those of at most 400 of the images.
    """

    name: ClassVar[str] = CnnRanker.name
    predicts_grades: ClassVar[bool] = True

    encoder: str = "lite0-max"
    blocks: int = 5
    epochs: int = 5
    rate: float = 3e-4
    mirror: bool = False
    window: str = "auto"
    networks: int = 1
    list_size: ListSize = 20
    seed: int = 0

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Choose the windows and train the blocks; see `RankingEstimator.fit`."""
        pictures = X if isinstance(X, PictureMaps) else PictureMaps(np.asarray(X), self.encoder)
        _, grades = check_graded(np.zeros((len(pictures), 1)), y)
        self._check_options()
        levels, positions = np.unique(grades, return_inverse=True)
        if not 2 <= len(levels) <= MOST_LEVELS:
            raise InvalidInput(
                f"a network learns from 2 to {MOST_LEVELS} different grades; there are {len(levels)}: round them, or "
                "choose another ranker"
            )
        windows = parse_windows(self.window) or self._best_windows(
            pictures, grades, number_groups(groups, len(grades))
        )
        self.window_ = ",".join(windows)
        self.network_ = NetworkMean(
            [
                self._tuned(pictures, levels, positions, windows[number % len(windows)], self.seed + number)
                for number in range(self.networks)
            ]
        )
        rows = pictures.sample(SAMPLE, self.seed)
        self.grade_scale_ = expected_grade_scale(
            self.network_.grade_all(pictures[rows]), grades[rows], levels
        )
        self.n_features_in_ = pictures.pictures.shape[1]
        return self

    def predict(self, X: Any) -> Floats:
        """Return the expected grades (n,) of pictures."""
        check_is_fitted(self, "network_")
        return self.network_.grade_all(
            X if isinstance(X, PictureMaps) else PictureMaps(np.asarray(X), self.encoder)
        )

    def _check_options(self) -> None:
        parse_windows(self.window)
        if not (min(self.blocks, self.epochs, self.networks) >= 1 and self.rate > 0):
            raise InvalidInput("tuning needs at least one block, epoch and network, and a rate above 0")
        if find_spec("torch") is None:
            raise InvalidInput(f"the ranker {self.name} needs torch: {install_command('deep')}")

    def _best_windows(
        self, pictures: PictureMaps, grades: Floats, groups: NDArray[np.int64]
    ) -> tuple[str, ...]:
        rows, errors = pictures.sample(SAMPLE, self.seed), {}
        for window in WINDOWS:
            vectors = pictures.vectors(window, rows).astype(np.float64)
            deviation = vectors.std(axis=0)
            standardised = (vectors - vectors.mean(axis=0)) / np.where(deviation > 0.0, deviation, np.inf)
            errors[window] = left_out_error(standardised, grades[rows], groups[rows])
        best, *others = sorted(errors, key=errors.__getitem__)
        return best, WHOLE if WHOLE in others else others[0]

    def _tuned(
        self, pictures: PictureMaps, levels: Floats, positions: NDArray[np.int64], window: str, seed: int
    ) -> GradingNetwork:
        from cbir.learn.training.ordinal_tuning import TuningOptions, tune_on_grades

        weights, source = built_in.read_lite_weights(self.encoder)
        tensors = tune_on_grades(
            weights,
            source.deeper,
            lambda rows, mirrored: pictures.maps(window, rows, mirrored),
            -(-source.side // 16),
            positions[:, None] > np.arange(len(levels) - 1),
            TuningOptions(self.blocks, self.epochs, self.rate, self.mirror, seed),
            lambda done, total: pictures.show("training", done, total),
        )
        stored = {name: values.astype(np.float16) for name, values in tensors.items()}
        return GradingNetwork(self.encoder, stored, levels, window, self.mirror)
