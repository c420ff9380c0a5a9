"""What turns a map of features into one vector."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from cbir.errors import InvalidInput

LEAST = 1e-6  # of a feature: below, the power has no slope


class Average(nn.Module):
    """(n, c, h, w) to (n, c): the mean over all places."""

    def forward(self, features: Tensor) -> Tensor:
        return features.mean(dim=(2, 3))


class GeneralisedMean(nn.Module):
    """(n, c, h, w) to (n, c): (mean x^p)^(1/p), p learnt from 3 on; p = 1 is the mean, infinity the maximum.

    F. Radenovic, G. Tolias, O. Chum: Fine-tuning CNN image retrieval with no human annotation, 2019, eq. 3.
    In float32 whatever the autocast, since powers leave the range of float16.
    """

    def __init__(self) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.tensor(3.0))

    def forward(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            raised = features.float().clamp(min=LEAST) ** self.power
            found: Tensor = functional.adaptive_avg_pool2d(raised, 1).flatten(1) ** (1.0 / self.power)
        return found


MAKERS: dict[str, type[nn.Module]] = {"gem": GeneralisedMean, "average": Average}


def build_pooling(name: str) -> nn.Module:
    """The pooling called `name`. Raises InvalidInput, which lists the names, for another."""
    if name not in MAKERS:
        raise InvalidInput(f"there is no pooling {name!r}; there are: {', '.join(MAKERS)}")
    return MAKERS[name]()
