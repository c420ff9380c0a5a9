"""Networks that turn images into features, by name; a new one is a function and a line in its module."""

from pathlib import Path
from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from cbir.descriptors.networks.backbones import small_networks
from cbir.descriptors.networks.backbones.backbone_weights import (
    load_weights_into,
    parse_packaged_weights,
    read_state_dict,
)
from cbir.descriptors.networks.backbones.efficientnet_lite_network import LITE_NETWORKS, build_lite_network
from cbir.descriptors.networks.backbones.pooling import build_pooling
from cbir.descriptors.networks.backbones.torchvision_networks import (
    TORCHVISION_NETWORKS,
    TorchvisionNetwork,
    download_weights,
    modernise_names,
)
from cbir.descriptors.networks.toprank_cnn import FEATURES, TopRankCnn
from cbir.errors import InvalidInput

__all__ = ["Backbone", "build_backbone", "names"]

SMALL_NETWORKS = {"small": small_networks.small, "fcn10": small_networks.fcn10}
TOPRANK = "toprank"  # has a fully connected layer in place of pooling
IMAGENET = "imagenet"


class Backbone(nn.Module):
    """Map images (n, channels, h, w) to unit vectors (n, dimensions), or to pooled features (n, features).

    Parameters
    ----------
    network : nn.Module
        Images to feature maps.
    pool : nn.Module
        Feature maps to (n, features).
    features : int
        Number of feature maps.
    dimensions : int, optional
        Length of a vector; None: pooled features.
    channels : int
        Channels of an image.
    """

    def __init__(
        self, network: nn.Module, pool: nn.Module, features: int, dimensions: int | None, channels: int
    ) -> None:
        super().__init__()
        self.network, self.pool = network, pool
        self.features, self.channels = features, channels
        self.projection: nn.Module | None = None if dimensions is None else nn.Linear(features, dimensions)

    def forward(self, images: Tensor) -> Tensor:
        pooled = cast(Tensor, self.pool(self.network(images)))
        if self.projection is None:
            return pooled
        return functional.normalize(self.projection(pooled).float(), dim=1)


def names() -> tuple[str, ...]:
    """Return the names that `build_backbone` accepts."""
    return (*SMALL_NETWORKS, TOPRANK, *TORCHVISION_NETWORKS, *LITE_NETWORKS)


def build_backbone(
    name: str,
    *,
    dimensions: int | None = 128,
    channels: int = 1,
    pooling: str = "gem",
    weights: Path | str | None = None,
) -> Backbone:
    """Build a network for images from 0 to 1, of 32 x 32 pixels or more.

    Parameters
    ----------
    name : str
        One of `names()`.
    dimensions : int, optional
        Length of the vectors, which are normalised; None: pooled features.
    channels : int
        1 or 3.
    pooling : str
        gem or average; toprank and the built-in encoders (lite0, ...) have their own.
    weights : Path or str, optional
        Initial weights: a file, the folder of an embedding with this backbone, or "imagenet" for those of
        torchvision, and of the built-in encoders; None: random.

    Raises
    ------
    InvalidInput
        If an option is unknown or the weights do not fit.
    NotFound
        If the weights are missing.
    """
    if name not in names():
        raise InvalidInput(f"there is no backbone {name!r}; there are: {', '.join(names())}")
    if channels not in (1, 3) or (dimensions is not None and dimensions < 2):
        raise InvalidInput("a backbone takes 1 or 3 channels, and an embedding has at least 2 dimensions")
    pool = build_pooling(pooling)
    from_torchvision = name in TORCHVISION_NETWORKS
    if weights == IMAGENET and not (from_torchvision or name in LITE_NETWORKS):
        published = ", ".join((*TORCHVISION_NETWORKS, *LITE_NETWORKS))
        raise InvalidInput(f"there are no published weights of {name}; choose one of {published}")
    network: nn.Module
    if from_torchvision:
        network, features = TORCHVISION_NETWORKS[name]()
    elif name in LITE_NETWORKS:
        network, pool = build_lite_network(name)
        features = pool.values
    elif name == TOPRANK:
        network, features, pool = TopRankCnn(channels), FEATURES, nn.Identity()
    else:
        network, features = SMALL_NETWORKS[name](channels)
    if weights is not None:
        state = _published_weights(name) if weights == IMAGENET else read_state_dict(Path(weights))
        load_weights_into(network, modernise_names(state) if from_torchvision else state, str(weights))
    if from_torchvision:
        network = TorchvisionNetwork(network)
    return Backbone(network, pool, features, dimensions, channels)


def _published_weights(name: str) -> dict[str, Tensor]:
    if name not in LITE_NETWORKS:
        return download_weights(name)
    packaged = LITE_NETWORKS[name].weights
    return parse_packaged_weights(packaged.path(name), packaged.sha256)
