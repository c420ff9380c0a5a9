"""Handcrafted sorter: a sum of sigmoids of pairwise differences, without training."""

import math

import torch
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.learn.models.sorters.sorter import Sorter


class HandcraftedSorter(Sorter):
    """rank_i = 1 + sum over j != i of sigmoid(steepness (y_j - y_i)) (Engilberge et al. 2019, eqs. 11 and 12).

    The paper's sum starts at 0; ours adds 1 so that all sorters give ranks 1 to d. `steepness` is the paper's lambda,
    in units of 1 / score, for scores within [-1, 1].
    """

    name = "handcrafted"

    def __init__(self, steepness: float = 10.0) -> None:
        super().__init__()
        if not 0 < steepness < math.inf:
            raise InvalidInput(f"the steepness of a sorter must be above 0 and finite, not {steepness}")
        self.steepness = steepness

    def ranks(self, scores: Tensor) -> Tensor:
        larger = torch.sigmoid(self.steepness * (scores[:, None, :] - scores[:, :, None]))
        return larger.sum(dim=2) + 0.5  # comparing a score with itself contributes 0.5
