"""Pairwise sorter: exact ranks forward, the slope of a sum of sigmoids backward."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cbir.errors import InvalidInput
from cbir.learn.models.sorters.exact import exact_ranks, pair_chunks
from cbir.learn.models.sorters.sorter import Sorter

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
