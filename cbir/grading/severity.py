"""The severity that was learnt from comparisons as a ranking function (Kadota et al.; see `cbir.active`)."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.models.linear.ranking_estimator import LinearRanker
from cbir.models.linear.ranking_lists import ListSize

Floats = NDArray[np.float64]


class SeverityRanker(LinearRanker):
    """Orders images by their severity, the only feature there is; nothing of it is learnt from grades.

    For whoever fits and predicts: X is (n, 1), the label `severity` of images in the collection, and of a new image
    what the ranker that lies in the collection says. list_size: of the lists that `score` measures NDCG on.
    """

    name: ClassVar[str] = "severity"

    def __init__(self, list_size: ListSize = 20, seed: int = 0) -> None:
        self.list_size = list_size
        self.seed = seed

    def _learn(self, Z: Floats, grades: Floats, groups: NDArray[np.int64]) -> None:
        if Z.shape[1] != 1:
            raise InvalidInput(f"{self.name} orders images by one value each, not by {Z.shape[1]}")
        self.coef_ = np.ones(1)
