"""torchvision's networks without their classifiers, for grey or coloured images."""

import re
from collections.abc import Callable
from urllib.error import URLError

import torch
import torchvision.models as published
from torch import Tensor, nn

from cbir.errors import InvalidInput

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, which published weights expect
OLD_NAMES = re.compile(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)")  # of DenseNets before torch 0.4


class Published(nn.Module):
    """One of torchvision's networks up to its pooling; a grey image is seen in all three channels."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None], persistent=False)
        self.register_buffer("deviation", torch.tensor(DEVIATION)[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.network((images - self.mean) / self.deviation)
        return found


def _kept(whole: nn.Module, parts: tuple[str, ...]) -> nn.Sequential:
    """Those parts one after the other, by their own names, so that published weights fit."""
    kept = nn.Sequential()
    for name in parts:
        kept.add_module(name, getattr(whole, name))
    return kept


def _densenet169() -> tuple[nn.Module, int]:
    whole = published.densenet169()
    kept = _kept(whole, ("features",))
    kept.add_module("after", nn.ReLU())
    return kept, whole.classifier.in_features


def _mobilenetv3() -> tuple[nn.Module, int]:
    whole = published.mobilenet_v3_large()
    return _kept(whole, ("features",)), int(whole.classifier[0].in_features)


def _resnet(make: Callable[[], published.ResNet]) -> Callable[[], tuple[nn.Module, int]]:
    def made() -> tuple[nn.Module, int]:
        whole = make()
        parts = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")
        return _kept(whole, parts), whole.fc.in_features

    return made


MAKERS: dict[str, Callable[[], tuple[nn.Module, int]]] = {
    "densenet169": _densenet169,
    "resnet18": _resnet(published.resnet18),
    "resnet34": _resnet(published.resnet34),
    "resnet50": _resnet(published.resnet50),
    "mobilenetv3": _mobilenetv3,
}
PUBLISHED_AS = {"mobilenetv3": "mobilenet_v3_large"}


def download_weights(name: str) -> dict[str, Tensor]:
    """The weights that torchvision publishes for `name`, by its own loader; from its cache where they are there.

    Raises InvalidInput where this machine cannot reach them.
    """
    weights = published.get_model_weights(PUBLISHED_AS.get(name, name)).DEFAULT
    try:
        found: dict[str, Tensor] = weights.get_state_dict(progress=False, check_hash=True)
    except (URLError, OSError, RuntimeError) as error:
        raise InvalidInput(
            f"the weights of {name} cannot be fetched from {weights.url}; fetch them elsewhere and name the file"
        ) from error
    return found


def modernise_names(held: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights by the names that torchvision has today."""
    return {OLD_NAMES.sub(r"\1\2", name): value for name, value in held.items()}
