"""Kernel expansions over all vectors of a device, block by block: nothing of n x k is kept."""

import numpy as np
import torch
from torch import Tensor

from cbir.gpu.vectors import ALIGNED, MOST_IN_HALF, WIDE, DeviceVectors, multiply
from cbir.rerank.expansion import KernelExpansion

SAFE = 60.0  # exponents up to this stay far from the end of float32, at 88


def values(expansion: KernelExpansion, vectors: DeviceVectors) -> Tensor:
    """Its value (n,) float32 at every vector, in one pass.

    sum_v a_v exp(2 g x.v - g |v|^2 - g |x|^2) + b. Where no |v| is extreme, exp(-g |v|^2) is part of the
    coefficient, which saves a pass over each block's results.
    """
    gamma, device = float(expansion.gamma), vectors.device
    pull = vectors.squared_norms * -gamma
    out = torch.empty(len(vectors), dtype=torch.float32, device=device)
    prepared: dict[torch.dtype, tuple[Tensor, Tensor | None, Tensor]] = {}
    for where, block in vectors.blocks(WIDE):
        if block.dtype not in prepared:
            prepared[block.dtype] = _prepared(expansion, block.dtype, device)
        columns, own, weights = prepared[block.dtype]
        exponents = multiply(block, columns)
        torch.add(pull[where, None], exponents, alpha=2.0 * gamma, out=exponents)
        if own is not None:
            exponents += own
        torch.mv(exponents.exp_(), weights, out=out[where])
    return out.add_(float(expansion.bias))


def _prepared(
    expansion: KernelExpansion, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Columns (d, k) in that precision, their -g |v|^2 (k,) where it is no part of the weights, weights (k,)."""
    missing = -len(expansion.vectors) % ALIGNED  # more of no weight
    images = np.pad(expansion.vectors, ((0, missing), (0, 0)))
    weights = np.pad(expansion.coefficients, (0, missing))
    if dtype == torch.float16:
        images = np.clip(images, -MOST_IN_HALF, MOST_IN_HALF).astype(np.float16)
    own = -expansion.gamma * np.square(images, dtype=np.float64).sum(axis=1)
    folded = bool(own.min(initial=0.0) > -SAFE)
    if folded:
        weights = weights * np.exp(own)
    return (
        torch.from_numpy(np.ascontiguousarray(images.T)).to(device),
        None if folded else torch.from_numpy(own.astype(np.float32)).to(device),
        torch.from_numpy(weights.astype(np.float32)).to(device),
    )
