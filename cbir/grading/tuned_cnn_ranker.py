"""A pretrained network, trained further on graded pictures, as a ranking function."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cbir.encoders import built_in
from cbir.errors import InvalidInput
from cbir.grading.cnn_ranker import CnnRanker
from cbir.grading.grade_scale import MOST_LEVELS
from cbir.grading.grading_network import GradingNetwork
from cbir.grading.image_window import AUTO, WINDOWS, check_window
from cbir.grading.picture_maps import PictureMaps
from cbir.models.linear.input_checks import check_graded, number_groups
from cbir.models.linear.kernel_map import left_out_error
from cbir.models.linear.ranking_estimator import RankingEstimator
from cbir.models.linear.ranking_lists import ListSize

Floats = NDArray[np.float64]

SIDE = 320  # pixels, in the commands
SAMPLE = 400  # images to choose the window with


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
        A name in `cbir.grading.image_window.WINDOWS`: the part of each image that the network sees. "auto": the one
        whose frozen vectors grade left-out groups with the least squared error.
    list_size : int, optional
        Images per list of `score`.
    seed : int
        Seed of the training.
    """

    name: ClassVar[str] = CnnRanker.name
    predicts_grades: ClassVar[bool] = True

    encoder: str = "lite0-max"
    blocks: int = 5
    epochs: int = 5
    rate: float = 3e-4
    mirror: bool = False
    window: str = AUTO
    list_size: ListSize = 20
    seed: int = 0

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Choose the window and train the blocks; see `RankingEstimator.fit`."""
        pictures = X if isinstance(X, PictureMaps) else PictureMaps(np.asarray(X), self.encoder)
        _, grades = check_graded(np.zeros((len(pictures), 1)), y)
        self._check_options()
        levels, positions = np.unique(grades, return_inverse=True)
        if not 2 <= len(levels) <= MOST_LEVELS:
            raise InvalidInput(
                f"a network learns from 2 to {MOST_LEVELS} different grades; there are {len(levels)}: round them, or "
                "choose another ranker"
            )
        self.window_ = self.window
        if self.window == AUTO:
            self.window_ = self._best_window(pictures, grades, number_groups(groups, len(grades)))
        self.network_ = self._tuned(pictures, levels, positions)
        self.n_features_in_ = pictures.pictures.shape[1]
        self.scale_ = np.ones(1)
        return self

    def predict(self, X: Any) -> Floats:
        """Return the expected grades (n,) of pictures."""
        check_is_fitted(self, "network_")
        if not isinstance(X, PictureMaps):
            return self.network_.grade_all(PictureMaps(np.asarray(X), self.encoder).pictures).grades
        return self.network_.grade_all(X.own_pictures(), lambda *counts: X.show("grading", *counts)).grades

    def _check_options(self) -> None:
        check_window(self.window)
        if not (self.blocks >= 1 and self.epochs >= 1 and self.rate > 0):
            raise InvalidInput("tuning needs at least one block and one epoch, and a rate above 0")
        if find_spec("torch") is None:
            raise InvalidInput(f"the ranker {self.name} needs torch: pip install 'cbir[deep]'")

    def _best_window(self, pictures: PictureMaps, grades: Floats, groups: NDArray[np.int64]) -> str:
        rows, errors = pictures.sample(SAMPLE, self.seed), {}
        for window in WINDOWS:
            vectors = pictures.vectors(window, rows).astype(np.float64)
            deviation = vectors.std(axis=0)
            standardised = (vectors - vectors.mean(axis=0)) / np.where(deviation > 0.0, deviation, np.inf)
            errors[window] = left_out_error(standardised, grades[rows], groups[rows])
        return min(errors, key=errors.__getitem__)

    def _tuned(self, pictures: PictureMaps, levels: Floats, positions: NDArray[np.int64]) -> GradingNetwork:
        from cbir.training.ordinal_tuning import TuningOptions, tune_on_grades

        weights, source = built_in.read_lite_weights(self.encoder)
        window = self.window_
        tensors = tune_on_grades(
            weights,
            source.deeper,
            lambda rows, mirrored: pictures.maps(window, rows, mirrored),
            -(-source.side // 16),
            positions[:, None] > np.arange(len(levels) - 1),
            TuningOptions(self.blocks, self.epochs, self.rate, self.mirror, self.seed),
            lambda done, total: pictures.show("training", done, total),
        )
        stored = {name: values.astype(np.float16) for name, values in tensors.items()}
        return GradingNetwork(self.encoder, stored, levels, window, self.mirror)

    def _learn(self, Z: Floats, grades: Floats, groups: NDArray[np.int64]) -> None:
        raise NotImplementedError  # `fit` does it all

    def _scores(self, Z: Floats) -> Floats:
        raise NotImplementedError  # `predict` does it all
