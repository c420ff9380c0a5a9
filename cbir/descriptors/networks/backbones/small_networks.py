"""Convolutional networks small enough for a CPU."""

from itertools import pairwise
from typing import cast

from torch import Tensor, nn


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
