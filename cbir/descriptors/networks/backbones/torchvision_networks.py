"""Networks of torchvision without their classifiers, for grey or colour images."""

import re
from collections import OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import cast
from urllib.error import URLError

import torch
import torchvision.models
from torch import Tensor, nn

from cbir.errors import InvalidInput

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
