"""Networks of our own make, small enough for a CPU."""

from itertools import pairwise

from torch import Tensor, nn


def _block(before: int, after: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(after), nn.ReLU()]


class Residual(nn.Module):
    """Two convolutions beside a short cut (He et al. 2016), halving the sides."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        second = [nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)]
        self.body = nn.Sequential(*_block(before, after, stride=2), *second)
        self.short = nn.Sequential(nn.AvgPool2d(2, ceil_mode=True), nn.Conv2d(before, after, 1, bias=False))
        self.after = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.after(self.body(images) + self.short(images))
        return found


def small(channels: int) -> tuple[nn.Module, int]:
    """For a CPU: a step of 2 at once, then three residual blocks; 1/16 of the sides, 192 features, 0.8 M weights."""
    widths = (32, 48, 96, 192)
    blocks = [Residual(before, after) for before, after in pairwise(widths)]
    return nn.Sequential(*_block(channels, widths[0], stride=2), *blocks), widths[-1]


def fcn10(channels: int) -> tuple[nn.Module, int]:
    """Ten convolutions and nothing else, as many as Zheng et al. have for mammograms (section 5.4, without widths).

    Pairs of 3 x 3, each pair a step of 2.
    """
    widths = (32, 32, 48, 48, 64, 64, 96, 96, 128, 128)
    layers: list[nn.Module] = []
    for place, (before, after) in enumerate(zip((channels, *widths), widths, strict=False)):
        layers += _block(before, after, stride=2 if place % 2 == 0 else 1)
    return nn.Sequential(*layers), widths[-1]
