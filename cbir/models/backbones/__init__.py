"""Networks that turn images into features, by name. A new one is a function and a line in `plain` or `published`."""

from pathlib import Path

from torch import Tensor, nn
from torch.nn import functional

from cbir.errors import InvalidInput
from cbir.models.backbones import backbone_weights as stored
from cbir.models.backbones import small_networks, torchvision_networks
from cbir.models.backbones.pooling import build_pooling
from cbir.models.toprank_cnn import FEATURES, TopRankCnn

__all__ = ["Backbone", "build_backbone", "names"]

PLAIN = {"small": small_networks.small, "fcn10": small_networks.fcn10}
TOPRANK = "toprank"  # which has a connected layer in place of pooling
IMAGENET = "imagenet"


class Backbone(nn.Module):
    """Images (n, channels, h, w) to embeddings (n, dimensions) of length 1, or to pooled features (n, features)."""

    def __init__(
        self, network: nn.Module, pool: nn.Module, features: int, dimensions: int | None, channels: int
    ) -> None:
        super().__init__()
        self.network = network
        self.pool = pool
        self.features = features
        self.channels = channels
        self.projection = None if dimensions is None else nn.Linear(features, dimensions)

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.pool(self.network(images))
        if self.projection is None:
            return found
        return functional.normalize(self.projection(found).float(), dim=1)


def names() -> tuple[str, ...]:
    """What `build` knows."""
    return (*PLAIN, TOPRANK, *torchvision_networks.MAKERS)


def build_backbone(
    name: str,
    *,
    dimensions: int | None = 128,
    channels: int = 1,
    pooling: str = "gem",
    weights: Path | str | None = None,
) -> Backbone:
    """The network called `name`, for images of 1 or 3 `channels` from 0 to 1, of 32 x 32 or more.

    dimensions: of the embedding, which has length 1; None: the pooled features as they are. pooling: gem or average
    (toprank has its own). weights: what to start from, a file or an embedding's folder, of this network; "imagenet":
    those that torchvision publishes; None: random ones. Raises InvalidInput for what there is not and for weights
    that do not fit, NotFound for a missing file.
    """
    if name not in names():
        raise InvalidInput(f"there is no backbone {name!r}; there are: {', '.join(names())}")
    if channels not in (1, 3) or (dimensions is not None and dimensions < 2):
        raise InvalidInput("a backbone takes 1 or 3 channels, and an embedding has at least 2 dimensions")
    pool = build_pooling(pooling)
    if name in torchvision_networks.MAKERS:
        network, features = torchvision_networks.MAKERS[name]()
        if weights == IMAGENET:
            stored.load_weights_into(
                network,
                torchvision_networks.modernise_names(torchvision_networks.download_weights(name)),
                IMAGENET,
            )
        elif weights is not None:
            stored.load_weights_into(
                network,
                torchvision_networks.modernise_names(stored.read_state_dict(Path(weights))),
                str(weights),
            )
        return Backbone(torchvision_networks.Published(network), pool, features, dimensions, channels)
    if weights == IMAGENET:
        raise InvalidInput(
            f"nobody publishes weights of {name}; choose one of {', '.join(torchvision_networks.MAKERS)}"
        )
    if name == TOPRANK:
        network, features, pool = TopRankCnn(channels), FEATURES, nn.Identity()
    else:
        network, features = PLAIN[name](channels)
    if weights is not None:
        stored.load_weights_into(network, stored.read_state_dict(Path(weights)), str(weights))
    return Backbone(network, pool, features, dimensions, channels)
