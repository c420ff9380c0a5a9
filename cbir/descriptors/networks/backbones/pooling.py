"""Pooling of feature maps into vectors."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from cbir.errors import InvalidInput

LEAST = 1e-6  # least value of a feature; below, the power has no slope


class Average(nn.Module):
    """Mean over all positions, (n, c, h, w) to (n, c)."""

    def forward(self, features: Tensor) -> Tensor:
        return features.mean(dim=(2, 3))


class GeneralisedMean(nn.Module):
    """Generalised mean (mean x^p)^(1/p), (n, c, h, w) to (n, c); 1 is the mean, infinity the maximum; p is trained.

    F. Radenovic, G. Tolias, O. Chum: Fine-tuning CNN image retrieval with no human annotation, 2019, eq. 3. Always in
    float32: powers leave the range of float16.
    """

    def __init__(self) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.tensor(3.0))

    def forward(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            raised = features.float().clamp(min=LEAST) ** self.power
            pooled: Tensor = functional.adaptive_avg_pool2d(raised, 1).flatten(1) ** (1.0 / self.power)
        return pooled


POOLINGS: dict[str, type[nn.Module]] = {"gem": GeneralisedMean, "average": Average}


def build_pooling(name: str) -> nn.Module:
    """Make the pooling called `name`. Raises InvalidInput, with the known names, for another."""
    if name not in POOLINGS:
        raise InvalidInput(f"there is no pooling {name!r}; there are: {', '.join(POOLINGS)}")
    return POOLINGS[name]()
