"""A pretrained network, trained further on graded pictures, as a ranking function."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cbir.descriptors.encoders import built_in
from cbir.errors import InvalidInput
from cbir.learn.grading.cnn_ranker import CnnRanker
from cbir.learn.grading.grade_scale import MOST_LEVELS, expected_grade_scale
from cbir.learn.grading.grading_network import GradingNetwork
from cbir.learn.grading.image_window import WHOLE, WINDOWS, parse_windows
from cbir.learn.grading.network_mean import NetworkMean
from cbir.learn.grading.picture_maps import PictureMaps
from cbir.learn.models.linear.input_checks import check_graded, number_groups
from cbir.learn.models.linear.kernel_map import left_out_error
from cbir.learn.models.linear.ranking_estimator import RankingEstimator
from cbir.learn.models.linear.ranking_lists import ListSize
from cbir.system.remedies import install_command

Floats = NDArray[np.float64]

SIDE = 320  # pixels, in the commands
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
        Names in `cbir.learn.grading.image_window.WINDOWS` with commas between: the part of each image that a network
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
