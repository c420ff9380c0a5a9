"""Kernel expansions over all vectors of a device, block by block: nothing of n x k is kept."""

import numpy as np
import torch
from torch import Tensor

from cbir.device.vectors import ALIGNED, WIDE, DeviceVectors, multiply
from cbir.rerank.expansion import KernelExpansion

SAFE = 60.0  # exponents up to this stay far from the end of float32, at 88


def values(expansion: KernelExpansion, vectors: DeviceVectors) -> Tensor:
    """Its value (n,) float32 at every vector, in one pass.

    sum_v a_v exp(2 g x.v - g |v|^2 - g |x|^2) + b. Where no |v| is extreme, exp(-g |v|^2) is part of the
    coefficient, which saves a pass over each block's results.
    """
    device, gamma = vectors.device, float(expansion.gamma)
    missing = -len(expansion.vectors) % ALIGNED  # more of no weight
    coefficients = torch.from_numpy(np.pad(expansion.coefficients, (0, missing))).to(device)
    pull = vectors.squared_norms * -gamma
    out = torch.empty(len(vectors), dtype=torch.float32, device=device)
    exact = torch.from_numpy(np.pad(expansion.vectors, ((0, missing), (0, 0)))).to(device)
    prepared: dict[torch.dtype, tuple[Tensor, Tensor | None, Tensor]] = {}
    for where, block in vectors.blocks(WIDE):
        if block.dtype not in prepared:
            stored = exact.to(block.dtype)
            own = stored.double().square().sum(dim=1) * -gamma
            folded = float(own.min()) > -SAFE if len(own) else True
            weights = (coefficients * own.exp() if folded else coefficients).float()
            prepared[block.dtype] = stored.T.contiguous(), None if folded else own.float(), weights
        columns, own_exponents, weights = prepared[block.dtype]
        exponents = multiply(block, columns)
        torch.add(pull[where, None], exponents, alpha=2.0 * gamma, out=exponents)
        if own_exponents is not None:
            exponents += own_exponents
        torch.mv(exponents.exp_(), weights, out=out[where])
    return out.add_(float(expansion.bias))
