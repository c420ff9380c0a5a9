"""Severity from comparisons as a ranking function (Kadota et al.; see `service.features.annotate.active`)."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.models.linear.ranking_estimator import LinearRanker
from cbir.learn.models.linear.ranking_lists import ListSize

Floats = NDArray[np.float64]


class SeverityRanker(LinearRanker):
    """Order images by their severity, which is the only feature; grades are not used.

    `X` is (n, 1): the label `severity` of images in the collection, and for a new image the output of the
    collection's severity ranker. `list_size` and `seed` are for the lists of `score`.
    """

    name: ClassVar[str] = "severity"

    def __init__(self, list_size: ListSize = 20, seed: int = 0) -> None:
        self.list_size, self.seed = list_size, seed

    def _learn(self, Z: Floats, grades: Floats, groups: NDArray[np.int64]) -> None:
        if Z.shape[1] != 1:
            raise InvalidInput(f"{self.name} orders images by one value each, not by {Z.shape[1]}")
        self.coef_ = np.ones(1)
