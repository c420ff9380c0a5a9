"""Last blocks of EfficientNet-Lite as products of matrices, which CPUs train five times as fast as convolutions.

The gradient of a depthwise convolution is slow on CPUs; on a map of few places it is a small matrix per channel.
Batch norms keep the statistics of their pretraining, and are folded into the layers before them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from cbir.descriptors.networks.backbones.efficientnet_lite_network import EPSILON, STAGES

FIRST_STAGE = 6  # of the tail, counted from 1; it takes the maps of the stage before


class LiteTail(nn.Module):
    """Stages 6 and 7: maps (112, n, side * side) to maps (320, n, places), with a channel per row.

    Parameters
    ----------
    weights : mapping
        Tensors of the network's state dict, by name.
    deeper : int
        Blocks that each stage has more than in Lite0, the first and last stage apart.
    side : int
        Height and width of the maps that go in.
    trained : int
        Last blocks to train; the others are frozen.
    """

    def __init__(self, weights: Mapping[str, NDArray[Any]], deeper: int, side: int, trained: int) -> None:
        super().__init__()
        counts = [
            count + deeper * (stage not in (1, len(STAGES))) for stage, (*_, count) in enumerate(STAGES, 1)
        ]
        number = sum(counts[: FIRST_STAGE - 1])
        self._first = number
        blocks = []
        for (_, stride, *_), count in zip(STAGES[FIRST_STAGE - 1 :], counts[FIRST_STAGE - 1 :], strict=True):
            for repeat in range(count):
                block = _MatrixBlock(weights, f"_blocks.{number}.", side, 1 if repeat else stride, repeat > 0)
                blocks.append(block)
                side, number = block.side, number + 1
        for block in blocks[: max(0, len(blocks) - trained)]:
            block.requires_grad_(False)
        self._blocks = nn.ModuleList(blocks)

    def forward(self, maps: Tensor) -> Tensor:
        for block in self._blocks:
            maps = block(maps)
        return maps

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights under the names of the state dict, with batch norms that only add a bias."""
        parts: dict[str, NDArray[np.float32]] = {}
        for number, block in enumerate(self._blocks, self._first):
            assert isinstance(block, _MatrixBlock)
            parts |= block.tensors(f"_blocks.{number}.")
        return parts


class _Layer(NamedTuple):
    """Names of a convolution, its batch norm and its parameters in `_MatrixBlock`."""

    convolution: str
    norm: str
    weight: str
    bias: str


_LAYERS = (
    _Layer("_expand_conv", "_bn0", "expand", "expand_bias"),
    _Layer("_depthwise_conv", "_bn1", "depthwise", "depthwise_bias"),
    _Layer("_project_conv", "_bn2", "project", "project_bias"),
)


class _MatrixBlock(nn.Module):
    """Block of MobileNetV2 on maps (channels, n, places)."""

    expand: Tensor
    expand_bias: Tensor
    depthwise: Tensor
    depthwise_bias: Tensor
    project: Tensor
    project_bias: Tensor
    taps: Tensor

    def __init__(
        self, weights: Mapping[str, NDArray[Any]], prefix: str, side: int, stride: int, has_shortcut: bool
    ) -> None:
        super().__init__()
        for layer in _LAYERS:
            weight, bias = _fold(weights, prefix + layer.convolution, prefix + layer.norm)
            setattr(self, layer.weight, nn.Parameter(weight.flatten(1)))
            setattr(self, layer.bias, nn.Parameter(bias))
        self._kernel = int(weights[f"{prefix}_depthwise_conv.weight"].shape[-1])
        self.side, self._has_shortcut = -(-side // stride), has_shortcut
        self.register_buffer("taps", _tap_matrices(side, self._kernel, stride), persistent=False)

    def forward(self, source: Tensor) -> Tensor:
        places = source.shape[2]
        wide = functional.relu6(self.expand @ source.flatten(1) + _column(self.expand_bias, source))
        matrices = (self.depthwise @ self.taps).view(len(wide), places, -1)
        wide = torch.bmm(wide.view(len(wide), -1, places), matrices)
        wide = functional.relu6(wide + _column(self.depthwise_bias, source)[:, :, None])
        maps = (self.project @ wide.flatten(1) + _column(self.project_bias, source)).view(
            -1, source.shape[1], self.side**2
        )
        return maps + source if self._has_shortcut else maps

    def tensors(self, prefix: str) -> dict[str, NDArray[np.float32]]:
        parts: dict[str, NDArray[np.float32]] = {}
        for layer in _LAYERS:
            weight = getattr(self, layer.weight).detach().numpy()
            bias = getattr(self, layer.bias).detach().numpy()
            kernel = self._kernel if layer.weight == "depthwise" else 1
            ones = np.ones_like(bias)
            parts[f"{prefix}{layer.convolution}.weight"] = weight.reshape(len(bias), -1, kernel, kernel)
            norm = {
                "weight": ones,
                "bias": bias,
                "running_mean": 0 * ones,
                "running_var": ones - np.float32(EPSILON),
            }
            parts |= {f"{prefix}{layer.norm}.{name}": values for name, values in norm.items()}
        return parts


def _fold(weights: Mapping[str, NDArray[Any]], layer: str, norm: str) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a convolution with the batch norm after it."""
    scale, shift, mean, variance = (
        torch.from_numpy(np.array(weights[f"{norm}.{name}"], np.float32))
        for name in ("weight", "bias", "running_mean", "running_var")
    )
    factor = scale / torch.sqrt(variance + EPSILON)
    weight = torch.from_numpy(np.array(weights[f"{layer}.weight"], np.float32))
    return weight * factor[:, None, None, None], shift - mean * factor


def _tap_matrices(side: int, kernel: int, stride: int) -> Tensor:
    """Return the matrix of each tap of a convolution with padding SAME: (kernel^2, places in x places out)."""
    out = -(-side // stride)
    padding = max((out - 1) * stride + kernel - side, 0)
    before, after = padding // 2, padding - padding // 2
    units = functional.pad(torch.eye(side**2).view(-1, 1, side, side), (before, after, before, after))
    taps = torch.eye(kernel**2).view(-1, 1, kernel, kernel)
    moved = functional.conv2d(units, taps, stride=stride)  # places in, taps, out, out
    return moved.permute(1, 0, 2, 3).reshape(kernel**2, -1)


def _column(bias: Tensor, like: Tensor) -> Tensor:
    return bias[:, None].to(like.dtype)
