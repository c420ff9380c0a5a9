"""Exact ranks, not differentiable: the target of trained sorters."""

from collections.abc import Iterator

import torch
from torch import Tensor

from cbir.system.device_failure import rows_within

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
