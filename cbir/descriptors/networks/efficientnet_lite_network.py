"""EfficientNet-Lite as torch layers, by the names of its published weights, so that it can be trained further.

`cbir.descriptors.encoders.network_writers` writes the same network as ONNX, and says where it comes from.
"""

from typing import NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from cbir.descriptors.networks.model_card import DEVIATION, LITE0, LITE1, MEAN, PackagedWeights
from cbir.images.scaling import window_means

EPSILON, MOMENTUM = 1e-3, 0.01  # of the batch norms
STEM = 32  # channels

# Kernel, stride of the first block, expansion, channels and blocks of each stage
STAGES = ((3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3),
          (5, 2, 6, 192, 4), (3, 1, 6, 320, 1))  # fmt: skip


class PooledStage(NamedTuple):
    """A stage, from 1, whose map is averaged over grid x grid windows, each `window` of its sides long.

    is_max: the maximum of each channel of the whole map is taken instead. weight: factor of the values.
    """

    stage: int
    grid: int
    window: float
    is_max: bool = False
    weight: float = 1.0


class LiteNetwork(NamedTuple):
    """Weights of a network, and the stages that its vectors are taken from."""

    weights: PackagedWeights
    outputs: tuple[PooledStage, ...]


_MIDDLE, _LAST = PooledStage(5, 3, 0.5), PooledStage(7, 2, 0.6)
_MEANS = (PooledStage(5, 1, 1.0), PooledStage(7, 1, 1.0))
_MAXIMA = (PooledStage(6, 1, 1.0, is_max=True), PooledStage(7, 1, 1.0, is_max=True))

# By the names of the built-in encoders, whose cards have the same outputs
LITE_NETWORKS = {
    "lite0": LiteNetwork(LITE0, (_MIDDLE,)),
    "lite0-whole": LiteNetwork(LITE0, (_MIDDLE, _LAST)),
    "lite0-global": LiteNetwork(LITE0, _MEANS),
    "lite0-max": LiteNetwork(LITE0, (_MIDDLE._replace(weight=1.4), _LAST, *_MAXIMA)),
    "lite1": LiteNetwork(LITE1, (_MIDDLE,)),
    "lite1-whole": LiteNetwork(LITE1, (_MIDDLE, _LAST)),
}


class EfficientNetLiteNetwork(nn.Module):
    """Maps of some stages for images (n, 1 or 3, h, w) from 0 to 1; grey is repeated in all channels.

    Parameters
    ----------
    deeper : int
        Blocks that each stage has more than in Lite0, the first and last stage apart.
    stages : tuple of int
        Stages whose maps are returned, ascending; there are no layers behind the last.
    """

    def __init__(self, deeper: int, stages: tuple[int, ...]) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _SameConvolution(3, STEM, 3, 2), _batch_norm(STEM)
        blocks: list[nn.Module] = []
        channels, self._ends = STEM, []
        for stage, (kernel, stride, expansion, outputs, count) in enumerate(STAGES[: stages[-1]], start=1):
            for repeat in range(count + deeper * (stage not in (1, len(STAGES)))):
                blocks.append(_Block(channels, outputs, kernel, 1 if repeat else stride, expansion))
                channels = outputs
            if stage in stages:
                self._ends.append(len(blocks) - 1)
        self._blocks = nn.ModuleList(blocks)
        self._fixes_statistics = False

    def freeze(self, trained: int) -> None:
        """Train no more than the last blocks, so many, and fix the statistics of all batch norms."""
        first = len(self._blocks) - trained
        for layer in (self._conv_stem, self._bn0, *self._blocks)[: max(0, first + 2) if first > 0 else 0]:
            layer.requires_grad_(False)
        self._fixes_statistics = True
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Set the training mode, which batch norms with fixed statistics ignore."""
        super().train(mode)
        for module in self.modules() if self._fixes_statistics else ():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        current = ((images - MEAN) / DEVIATION).expand(-1, 3, -1, -1)
        current = functional.relu6(self._bn0(self._conv_stem(current)))
        maps = []
        for number, block in enumerate(self._blocks):
            current = block(current)
            if number in self._ends:
                maps.append(current)
        return tuple(maps)


class StagePooling(nn.Module):
    """Pooled maps of some stages, concatenated: (n, values), window by window, the channels of each."""

    def __init__(self, outputs: tuple[PooledStage, ...]) -> None:
        super().__init__()
        self._outputs = outputs
        self.stages = tuple(sorted({output.stage for output in outputs}))

    @property
    def values(self) -> int:
        """Length of a vector."""
        return sum(STAGES[output.stage - 1][3] * output.grid**2 for output in self._outputs)

    def forward(self, maps: tuple[Tensor, ...]) -> Tensor:
        vectors, by_stage = [], dict(zip(self.stages, maps, strict=True))
        for output in self._outputs:
            values = by_stage[output.stage]
            if output.is_max:
                vectors.append(output.weight * values.amax(dim=(2, 3)))
                continue
            height, width = int(values.shape[2]), int(values.shape[3])  # tensors while torch exports
            weights = torch.from_numpy(
                output.weight * window_means(height, width, output.grid, output.window)
            )
            vectors.append((weights.to(values) @ values.flatten(2).transpose(1, 2)).flatten(1))
        return torch.cat(vectors, dim=1)


def build_lite_network(name: str) -> tuple[EfficientNetLiteNetwork, StagePooling]:
    """Make the network and the pooling of a name in LITE_NETWORKS, with random weights."""
    weights, outputs = LITE_NETWORKS[name]
    pooling = StagePooling(outputs)
    return EfficientNetLiteNetwork(weights.deeper, pooling.stages), pooling


class _SameConvolution(nn.Conv2d):
    """Convolution with the padding of TensorFlow's SAME: where it is odd, more of it at the bottom and right."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, bias=False, groups=groups)

    def forward(self, input: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        pads: list[int] = []
        for side in (int(input.shape[3]), int(input.shape[2])):
            total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(functional.pad(input, pads) if any(pads) else input)


class _Block(nn.Module):
    """Block of MobileNetV2: expand 1 x 1, depthwise, project 1 x 1, and a shortcut where shapes allow."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self._has_shortcut = stride == 1 and inputs == outputs
        self._expands = expansion > 1
        if self._expands:
            self._expand_conv, self._bn0 = _SameConvolution(inputs, wide, 1), _batch_norm(wide)
        self._depthwise_conv = _SameConvolution(wide, wide, kernel, stride, groups=wide)
        self._bn1 = _batch_norm(wide)
        self._project_conv, self._bn2 = _SameConvolution(wide, outputs, 1), _batch_norm(outputs)

    def forward(self, source: Tensor) -> Tensor:
        current = source
        if self._expands:
            current = functional.relu6(self._bn0(self._expand_conv(current)))
        current = functional.relu6(self._bn1(self._depthwise_conv(current)))
        current = self._bn2(self._project_conv(current))
        return cast(Tensor, current + source if self._has_shortcut else current)


def _batch_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, EPSILON, MOMENTUM)
