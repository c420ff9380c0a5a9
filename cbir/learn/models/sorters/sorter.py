"""Base of the sorters."""

from abc import abstractmethod
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from cbir.errors import InvalidInput


class Sorter(nn.Module):
    """Map scores (batch, d) to ranks (batch, d): about 1 for the largest score, d for the smallest.

    Equal scores share the mean of their ranks. Scores in float16 or bfloat16 give float32 ranks, and autocast has no
    effect inside: differences of close scores do not survive half precision. A vector with NaN or infinity gives NaN
    ranks, so that a gradient scaler skips the step.
    """

    name: ClassVar[str]
    longest: int | None = None  # None: any length

    def __init__(self) -> None:
        super().__init__()
        self.frozen = False

    def forward(self, scores: Tensor) -> Tensor:
        """Return the ranks of `scores` (batch, d), floating point; float64 stays float64.

        Raises InvalidInput for another number of axes, no scores, or more than the sorter supports.
        """
        if scores.ndim != 2 or scores.shape[1] == 0 or not scores.is_floating_point():
            shape = "x".join(map(str, scores.shape)) or "a single number"
            raise InvalidInput(f"a sorter takes floating-point scores (batch, d), not {shape} {scores.dtype}")
        if self.longest is not None and scores.shape[1] > self.longest:
            raise InvalidInput(
                f"the sorter {self.name!r} takes up to {self.longest} scores, not {scores.shape[1]}; "
                "train a longer one, or use 'pairwise'"
            )
        with torch.autocast(scores.device.type, enabled=False):
            return self.ranks(scores if scores.dtype == torch.float64 else scores.float())

    @abstractmethod
    def ranks(self, scores: Tensor) -> Tensor:
        """Return the ranks of `scores` (batch, d), d at least 1, float32 or float64."""

    def freeze(self) -> Self:
        """Fix weights and statistics; gradients still reach the scores."""
        self.frozen = True
        self.requires_grad_(False)
        self.train(False)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set training mode as in torch; a frozen sorter stays in evaluation mode."""
        return super().train(mode and not self.frozen)
