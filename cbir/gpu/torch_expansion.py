"""Kernel expansions over all vectors on a device, block by block: no n x k matrix in memory."""

import numpy as np
import torch
from torch import Tensor

from cbir.gpu.torch_vectors import ALIGNED, MOST_IN_HALF, TorchVectors, multiply
from cbir.rerank.kernel_expansion import KernelExpansion

SAFE = 60.0  # exponents up to this stay far from the end of float32, at 88


def expansion_values(expansion: KernelExpansion, vectors: TorchVectors) -> Tensor:
    """Return the values (n,) float32 of `expansion` at all `vectors`, in one pass.

    sum_v a_v exp(2 g x.v - g |v|^2 - g |x|^2) + b. Where no |v| is extreme, exp(-g |v|^2) is part of the
    coefficient, which saves a pass over each block's results.
    """
    gamma, device = float(expansion.gamma), vectors.device
    pull = vectors.squared_norms * -gamma
    out = torch.empty(len(vectors), dtype=torch.float32, device=device)
    prepared: dict[torch.dtype, tuple[Tensor, Tensor | None, Tensor]] = {}

    def fill(rows: slice, block: Tensor) -> None:
        if block.dtype not in prepared:
            prepared[block.dtype] = _prepared(expansion, block.dtype, device)
        columns, offsets, weights = prepared[block.dtype]
        exponents = multiply(block, columns)
        torch.add(pull[rows, None], exponents, alpha=2.0 * gamma, out=exponents)
        if offsets is not None:
            exponents += offsets
        torch.mv(exponents.exp_(), weights, out=out[rows])

    vectors.for_each_block(len(expansion.vectors), fill)
    return out.add_(float(expansion.bias))


def _prepared(
    expansion: KernelExpansion, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return columns (d, k) in `dtype`, their -g |v|^2 (k,) where it is not part of the weights, weights (k,)."""
    missing = -len(expansion.vectors) % ALIGNED  # padding of weight 0
    images = np.pad(expansion.vectors, ((0, missing), (0, 0)))
    weights = np.pad(expansion.coefficients, (0, missing))
    if dtype == torch.float16:
        images = np.clip(images, -MOST_IN_HALF, MOST_IN_HALF).astype(np.float16)
    offsets = -expansion.gamma * np.square(images, dtype=np.float64).sum(axis=1)
    folded = bool(offsets.min(initial=0.0) > -SAFE)
    if folded:
        weights = weights * np.exp(offsets)
    return (
        torch.from_numpy(np.ascontiguousarray(images.T)).to(device),
        None if folded else torch.from_numpy(offsets.astype(np.float32)).to(device),
        torch.from_numpy(weights.astype(np.float32)).to(device),
    )
