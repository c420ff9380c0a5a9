"""Networks that turn images into features, by name. A new one is a function and a line in `plain` or `published`."""

from pathlib import Path

from torch import Tensor, nn
from torch.nn import functional

from cbir.errors import InvalidInput
from cbir.models.backbones import plain, published
from cbir.models.backbones import weights as stored
from cbir.models.backbones.pooling import pooling as pooling_called
from cbir.models.toprank_cnn import FEATURES, TopRankCnn

__all__ = ["Backbone", "build", "names"]

PLAIN = {"small": plain.small, "fcn10": plain.fcn10}
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
    return (*PLAIN, TOPRANK, *published.MAKERS)


def build(
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
    pool = pooling_called(pooling)
    if name in published.MAKERS:
        network, features = published.MAKERS[name]()
        if weights == IMAGENET:
            stored.put(network, published.of_today(published.download(name)), IMAGENET)
        elif weights is not None:
            stored.put(network, published.of_today(stored.read(Path(weights))), str(weights))
        return Backbone(published.Published(network), pool, features, dimensions, channels)
    if weights == IMAGENET:
        raise InvalidInput(f"nobody publishes weights of {name}; choose one of {', '.join(published.MAKERS)}")
    if name == TOPRANK:
        network, features, pool = TopRankCnn(channels), FEATURES, nn.Identity()
    else:
        network, features = PLAIN[name](channels)
    if weights is not None:
        stored.put(network, stored.read(Path(weights)), str(weights))
    return Backbone(network, pool, features, dimensions, channels)
