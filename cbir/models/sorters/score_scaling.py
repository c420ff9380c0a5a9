"""Scores into the range that learned sorters know."""

import torch
from torch import Tensor


def scale_to_range(scores: Tensor) -> Tensor:
    """Each vector of (batch, d) shifted and scaled to run from -1 to 1; a constant one becomes 0.

    Ranks do not change with shift and scale, so no gradient flows through the two: only through the scores.
    """
    low, high = torch.aminmax(scores.detach(), dim=1, keepdim=True)
    half = high / 2 - low / 2  # their difference might overflow
    centre = low + half
    return (scores - centre) / torch.where(half > 0, half, torch.ones_like(half))
