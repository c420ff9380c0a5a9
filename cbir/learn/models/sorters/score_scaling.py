"""Scaling of scores to the range that trained sorters expect."""

import torch
from torch import Tensor


def scale_to_range(scores: Tensor) -> Tensor:
    """Shift and scale each vector of `scores` (batch, d) to the range -1 to 1; a constant vector becomes 0.

    Ranks do not depend on shift and scale, so the gradient flows through the scores alone.
    """
    low, high = torch.aminmax(scores.detach(), dim=1, keepdim=True)
    half = high / 2 - low / 2  # their difference might overflow
    centre = low + half
    return (scores - centre) / torch.where(half > 0, half, torch.ones_like(half))
