"""Networks that turn images into features, by name; a new one is a function and a line here."""

import re
from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from pickle import UnpicklingError
from typing import cast
from urllib.error import URLError

import torch
import torchvision.models
from torch import Tensor, nn
from torch.nn import functional

from cbir.descriptors.networks.efficientnet_lite_network import LITE_NETWORKS, build_lite_network
from cbir.descriptors.networks.model_files import (
    load_weights_into,
    parse_packaged_weights,
    read_state_dict,
)
from cbir.errors import InvalidInput

__all__ = ["Backbone", "build_backbone", "names"]

CHANNELS = (16, 32, 64)
POOLED_SIDE = 2  # positions per side after the convolutions
FEATURES = 128


class TopRankCnn(nn.Module):
    """Map images (n, channels, height, width) to features (n, 128); the second connected layer is the ranker's head.

    ReLU and max-pooling follow each convolution, as in the paper, which gives no widths. Batch normalisation and the
    pooling to 2 x 2 are ours: training from scratch needs fewer steps, and images may have any size.
    """

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in zip((channels, *CHANNELS), CHANNELS, strict=False):
            convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
        connected = nn.Linear(CHANNELS[-1] * POOLED_SIDE**2, FEATURES)
        pool = nn.AdaptiveAvgPool2d(POOLED_SIDE)
        self.layers = nn.Sequential(*layers, pool, nn.Flatten(), connected, nn.ReLU())

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.layers(images))


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


def _block(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]


class Residual(nn.Module):
    """Two convolutions with a shortcut (He et al. 2016); halves height and width."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        second = [nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)]
        self.body = nn.Sequential(*_block(before, after, stride=2), *second)
        self.short = nn.Sequential(nn.AvgPool2d(2, ceil_mode=True), nn.Conv2d(before, after, 1, bias=False))
        self.after = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.after(self.body(images) + self.short(images)))


def small(channels: int) -> tuple[nn.Module, int]:
    """Make a network for `channels`: a stride of 2, then three residual blocks; 192 features, 0.8 M weights."""
    widths = (32, 48, 96, 192)
    blocks = [Residual(before, after) for before, after in pairwise(widths)]
    return nn.Sequential(*_block(channels, widths[0], stride=2), *blocks), widths[-1]


def fcn10(channels: int) -> tuple[nn.Module, int]:
    """Make a network of ten 3 x 3 convolutions in pairs of stride 2, for `channels`.

    Zheng et al. use as many for mammograms (section 5.4, without widths).
    """
    widths = (32, 32, 48, 48, 64, 64, 96, 96, 128, 128)
    layers: list[nn.Module] = []
    for index, (inputs, outputs) in enumerate(zip((channels, *widths), widths, strict=False)):
        layers += _block(inputs, outputs, stride=2 if index % 2 == 0 else 1)
    return nn.Sequential(*layers), widths[-1]


MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as the weights expect
OLD_NAMES = re.compile(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)")  # of DenseNets before torch 0.4


class TorchvisionNetwork(nn.Module):
    """A network of torchvision up to its pooling; a grey image is repeated in all three channels."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None], persistent=False)
        self.register_buffer("deviation", torch.tensor(DEVIATION)[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.network((images - self.mean) / self.deviation))


def _select(network: nn.Module, *parts: str) -> nn.Sequential:
    """Chain parts of a network under their names, so that published weights fit."""
    return nn.Sequential(OrderedDict((name, getattr(network, name)) for name in parts))


def _densenet169() -> tuple[nn.Module, int]:
    network = torchvision.models.densenet169()
    features = _select(network, "features")
    features.add_module("after", nn.ReLU())
    return features, network.classifier.in_features


def _mobilenetv3() -> tuple[nn.Module, int]:
    network = torchvision.models.mobilenet_v3_large()
    return _select(network, "features"), int(network.classifier[0].in_features)


def _resnet(make: Callable[[], torchvision.models.ResNet]) -> Callable[[], tuple[nn.Module, int]]:
    def build() -> tuple[nn.Module, int]:
        network = make()
        first = ("conv1", "bn1", "relu", "maxpool")
        return _select(network, *first, "layer1", "layer2", "layer3", "layer4"), network.fc.in_features

    return build


TORCHVISION_NETWORKS: dict[str, Callable[[], tuple[nn.Module, int]]] = {
    "densenet169": _densenet169,
    "resnet18": _resnet(torchvision.models.resnet18),
    "resnet34": _resnet(torchvision.models.resnet34),
    "resnet50": _resnet(torchvision.models.resnet50),
    "mobilenetv3": _mobilenetv3,
}
PUBLISHED_AS = {"mobilenetv3": "mobilenet_v3_large"}


def download_weights(name: str) -> dict[str, Tensor]:
    """Load the weights that torchvision publishes for `name`, from its cache or from the network.

    Raises InvalidInput if they cannot be fetched.
    """
    weights = torchvision.models.get_model_weights(PUBLISHED_AS.get(name, name)).DEFAULT
    try:
        state: dict[str, Tensor] = weights.get_state_dict(progress=False, check_hash=True, weights_only=True)
    except (URLError, OSError, RuntimeError, UnpicklingError) as error:
        raise InvalidInput(
            f"the weights of {name} cannot be fetched from {weights.url}; fetch them elsewhere and name the file"
        ) from error
    return state


def modernise_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights `state` by the names of current torchvision."""
    return {OLD_NAMES.sub(r"\1\2", name): value for name, value in state.items()}


SMALL_NETWORKS = {"small": small, "fcn10": fcn10}
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
