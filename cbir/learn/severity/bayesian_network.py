"""Ranking network with dropout for pictures: a backbone and a dense layer with one score."""

from torch import nn

from cbir.descriptors.networks import backbones
from cbir.learn.severity.sampled_network import SampledNetwork


class BayesianNetwork(SampledNetwork):
    """Maps grey images (n, 1, side, side), float32 from 0 to 1, to scores (n,) and features (n, k).

    Raises InvalidInput and NotFound like `backbones.build_backbone`.
    """

    def __init__(self, backbone: str = "small", dropout: float = 0.2, weights: str | None = None) -> None:
        built = backbones.build_backbone(backbone, dimensions=None, pooling="average", weights=weights)
        super().__init__(nn.Sequential(*_flatten(built.network), built.pool), built.features, dropout)


def _flatten(network: nn.Module) -> list[nn.Module]:
    """Return the layers of nested `nn.Sequential` modules as one list."""
    if type(network) is nn.Sequential:
        return [layer for part in network for layer in _flatten(part)]
    return [network]
