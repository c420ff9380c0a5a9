"""Base of the sorters, exact ranks, and the sorters that need no training."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cbir.errors import InvalidInput
from cbir.system.device_failure import rows_within


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


FEW = 256  # scores; up to here comparing all pairs is faster than sorting
PAIRS_AT_ONCE = {"cpu": 1 << 20, "cuda": 64 << 20}  # bytes; 1 MiB stays in a core's cache


def exact_ranks(scores: Tensor) -> Tensor:
    """Compute the ranks (batch, d) of `scores` (batch, d): 1 for the largest; equal scores share their mean rank.

    The dtype is that of `scores`. A vector with NaN or infinity gives NaN.
    """
    values = scores.detach().contiguous()
    ranks = _by_pairs(values) if scores.shape[1] <= FEW else _by_sorting(values)
    return ranks + 0 * values.abs().amax(dim=1, keepdim=True)  # 0 * infinity is NaN


def pair_chunks(scores: Tensor) -> Iterator[slice]:
    """Return slices of the vectors of `scores` (batch, d) whose pairs fit into memory together; none is empty."""
    count, d = scores.shape
    step = rows_within(PAIRS_AT_ONCE.get(scores.device.type, 1 << 20), scores.element_size() * d * d)
    return (slice(first, first + step) for first in range(0, count, step))


def _by_pairs(values: Tensor) -> Tensor:
    ranks = torch.empty_like(values)
    middle = (values.shape[1] + 1) / 2
    for rows in pair_chunks(values):
        chunk = values[rows]
        ranks[rows] = middle + torch.sign(chunk[:, None, :] - chunk[:, :, None]).sum(dim=2) / 2
    return ranks


def _by_sorting(values: Tensor) -> Tensor:
    ascending = torch.sort(values, dim=1).values.contiguous()
    smaller = torch.searchsorted(ascending, values)
    not_larger = torch.searchsorted(ascending, values, right=True)
    return (2 * values.shape[1] + 1 - smaller - not_larger).to(values.dtype) / 2


NARROWEST = 1e-3  # least width of the sigmoids in score units, or equal scores would make gradients explode


class PairwiseSorter(Sorter):
    """Exact ranks, differentiated as if they were 1 + sum over j != i of sigmoid((y_j - y_i) / width).

    This is the handcrafted sorter (Engilberge et al. 2019, eqs. 11 and 12) with a width that follows the scores:
    `temperature` times the standard deviation of each vector, at least 1e-3. `exact=False` gives the sum of sigmoids
    itself. Supports any length; pairs are processed in chunks, so memory stays bounded.
    """

    name = "pairwise"

    def __init__(self, temperature: float = 0.7, exact: bool = True) -> None:
        super().__init__()
        if not 0 < temperature < math.inf:
            raise InvalidInput(f"the temperature of a sorter must be above 0 and finite, not {temperature}")
        self.temperature = temperature
        self.exact = exact

    def ranks(self, scores: Tensor) -> Tensor:
        values = scores.detach()
        spread = (values - values.mean(dim=1, keepdim=True)).square().mean(dim=1, keepdim=True).sqrt()
        scaled = scores / (self.temperature * spread).clamp(min=NARROWEST)
        if not self.exact:
            return torch.sigmoid(scaled[:, None, :] - scaled[:, :, None]).sum(dim=2) + 0.5
        ranks: Tensor = _Ranks.apply(scores, scaled)
        return ranks


class _Ranks(torch.autograd.Function):
    """Exact ranks of the scores, with the gradient of the relaxation for the scaled scores."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, scaled: Tensor) -> Tensor:
        ctx.save_for_backward(scaled)
        return exact_ranks(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        (scaled,) = ctx.saved_tensors
        (gradient,) = gradients
        scaled_gradient = torch.empty_like(gradient)
        for rows in pair_chunks(scaled):
            scaled_gradient[rows] = _relaxed_gradient(scaled[rows], gradient[rows])
        return None, scaled_gradient


def _relaxed_gradient(scaled: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient for the scaled scores; slopes are symmetric, so one matrix serves both sides of a pair."""
    larger = torch.sigmoid(scaled[:, None, :] - scaled[:, :, None])
    slope = larger.mul_(1 - larger)
    pulled = torch.bmm(slope, gradient[:, :, None])[:, :, 0]
    return pulled - gradient * slope.sum(dim=2)


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
