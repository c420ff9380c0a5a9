"""Networks as ONNX, from the state dicts of their PyTorch forms: EfficientNet-Lite and an inflated 3-D ResNet.

EfficientNet-Lite: https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite. Blocks of
MobileNetV2 (expand 1 x 1, depthwise, project 1 x 1; a shortcut where shapes allow) with ReLU6. Weights come from
TensorFlow, so padding is that of its SAME mode: where a stride of 2 makes it odd, the larger part is at the bottom
and right.

The 3-D ResNet is the image encoder of Merlin (Blankemeier et al., arXiv:2406.06512): bottleneck blocks (He et al.,
2016) whose filters were inflated to three dimensions (Carreira and Zisserman, 2017). The three equal channels of the
original's input are one: its first filters are summed over them.

Batch norms are folded into their convolutions.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders.onnx_messages import write_model, write_node, write_tensor
from cbir.errors import InvalidInput

STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage
REPEATS = (1, 2, 2, 3, 3, 4, 1)  # blocks of each stage

# By stage, with 112 channels, 192 and 320; sides of their maps are 1/16 of the input's, 1/32 and 1/32
OUTPUTS = {5: "middle", 6: "late", 7: "last"}
LITE_INPUT = "images"


class _Map(NamedTuple):
    """Output of a layer: (1, channels, side, side)."""

    name: str
    channels: int
    side: int


class _NetworkWriter:
    """Layers of one network, collected for an ONNX file. `weights`: tensors of the state dict by name."""

    epsilon: float  # of the batch norms

    def __init__(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self._weights = weights
        self._nodes: list[bytes] = []
        self._tensors: list[bytes] = []

    def _add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(write_node(operator, inputs, output, **attributes))
        return output

    def _add_weights(self, layer: str, weight: NDArray[Any], bias: NDArray[Any]) -> list[str]:
        """Add the tensors of a convolution, and return their names."""
        names = [f"{layer}.weight", f"{layer}.bias"]
        self._tensors += map(write_tensor, names, (weight, bias))
        return names

    def _norm(self, norm: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return by what a batch norm multiplies the output of a layer, and what it adds."""
        scale, shift, mean, variance = (
            self._weights[f"{norm}.{name}"].astype(np.float64)
            for name in ("weight", "bias", "running_mean", "running_var")
        )
        scale /= np.sqrt(variance + self.epsilon)
        return scale, shift - mean * scale


class EfficientNetLite(_NetworkWriter):
    """Layers of one network, collected for an ONNX file."""

    epsilon = 1e-3

    def __init__(self, weights: Mapping[str, NDArray[Any]], side: int, deeper: int) -> None:
        """Set up the network.

        Parameters
        ----------
        weights : mapping
            Tensors of the state dict by name.
        side : int
            Height and width of its input in pixels.
        deeper : int
            Blocks that each stage has more than in Lite0, the first and last stage apart.
        """
        super().__init__(weights)
        self._side = side
        self._repeats = [
            count + deeper * (stage not in (1, 7)) for stage, count in enumerate(REPEATS, start=1)
        ]
        self._tensors = [write_tensor("zero", np.array(0.0)), write_tensor("six", np.array(6.0))]

    def write(self, outputs: Collection[str], after: str | None = None) -> bytes:
        """Return the ONNX model with these outputs, values of OUTPUTS, and no layers behind them.

        With `after`, one of OUTPUTS too, the model begins behind that output, which is its input.
        """
        shapes: dict[str, tuple[int, ...]] = {}
        first = {name: stage for stage, name in OUTPUTS.items()}.get(after or "", 0) + 1
        block = sum(self._repeats[: first - 1])
        if after is None:
            source = _Map(LITE_INPUT, 3, self._side)
            current = self._convolve("_conv_stem", "_bn0", source, stride=2)
        else:
            channels = self._weights[f"_blocks.{block - 1}._project_conv.weight"].shape[0]
            total = math.prod(STRIDES[: first - 1]) * 2  # the stem halves the sides too
            current = source = _Map(after, channels, -(-self._side // total))
        for stage, (repeats, stride) in enumerate(zip(self._repeats, STRIDES, strict=True), start=1):
            for repeat in range(repeats if stage >= first else 0):
                current = self._add_block(f"_blocks.{block}.", current, 1 if repeat else stride)
                block += 1
            if stage >= first and OUTPUTS.get(stage) in outputs:
                self._add("Identity", [current.name], OUTPUTS[stage])
                shapes[OUTPUTS[stage]] = (1, current.channels, current.side, current.side)
            if len(shapes) == len(outputs):
                break
        inputs = {source.name: (1, source.channels, source.side, source.side)}
        return write_model(self._nodes, self._tensors, inputs, shapes)

    def _add_block(self, prefix: str, source: _Map, stride: int) -> _Map:
        current = source
        if f"{prefix}_expand_conv.weight" in self._weights:
            current = self._convolve(f"{prefix}_expand_conv", f"{prefix}_bn0", current)
        current = self._convolve(f"{prefix}_depthwise_conv", f"{prefix}_bn1", current, stride)
        current = self._convolve(f"{prefix}_project_conv", f"{prefix}_bn2", current, activate=False)
        if stride > 1 or current.channels != source.channels:
            return current
        return current._replace(name=self._add("Add", [current.name, source.name], f"{prefix}sum"))

    def _convolve(self, layer: str, norm: str, source: _Map, stride: int = 1, activate: bool = True) -> _Map:
        """Add a convolution with its batch norm, and ReLU6 unless `activate` is False."""
        scale, bias = self._norm(norm)
        weight = self._weights[f"{layer}.weight"].astype(np.float64) * scale[:, None, None, None]
        kernel, side = weight.shape[-1], -(-source.side // stride)
        padding = max((side - 1) * stride + kernel - source.side, 0)
        before, after = padding // 2, padding - padding // 2
        self._add(
            "Conv",
            [source.name, *self._add_weights(layer, weight, bias)],
            layer,
            group=source.channels // weight.shape[1],
            kernel_shape=(kernel, kernel),
            pads=(before, before, after, after),
            strides=(stride, stride),
        )
        if activate:
            self._add("Clip", [layer, "zero", "six"], f"{layer}.relu6")
        return _Map(f"{layer}.relu6" if activate else layer, len(weight), side)


RESNET_INPUT, RESNET_OUTPUT = "voxels", "mean"
LAYERS = 4  # the first block of each but the first halves the sides


class InflatedResNet(_NetworkWriter):
    """Layers of one network, collected for an ONNX file.

    Parameters
    ----------
    weights : mapping
        Tensors of the state dict by name.
    shape : (int, int, int)
        Depth, width and height of its input in voxels.
    """

    epsilon = 1e-5

    def __init__(self, weights: Mapping[str, NDArray[Any]], shape: tuple[int, int, int]) -> None:
        super().__init__(weights)
        self._shape = shape

    def write(self) -> bytes:
        """Return the ONNX model, with the mean of the last maps as its output.

        Raises InvalidInput if a tensor of the network is missing.
        """
        try:
            current = self._convolve("conv1", "bn1", RESNET_INPUT, stride=(1, 2, 2))
            current = self._add(
                "MaxPool", [current], "maxpool", kernel_shape=(3,) * 3, pads=(1,) * 6, strides=(2,) * 3
            )
            for layer in range(1, LAYERS + 1):
                block = 0
                while f"layer{layer}.{block}.conv1.weight" in self._weights:
                    stride = 2 if layer > 1 and block == 0 else 1
                    current = self._add_block(f"layer{layer}.{block}.", current, stride)
                    block += 1
            values = len(self._weights[f"layer{LAYERS}.0.conv3.weight"])
        except KeyError as error:
            raise InvalidInput(f"the weights lack the tensor {error.args[0]}") from error
        pooled = self._add("GlobalAveragePool", [current], "pooled")
        self._add("Flatten", [pooled], RESNET_OUTPUT)
        return write_model(
            self._nodes, self._tensors, {RESNET_INPUT: (1, 1, *self._shape)}, {RESNET_OUTPUT: (1, values)}
        )

    def _add_block(self, prefix: str, source: str, stride: int) -> str:
        current = self._convolve(f"{prefix}conv1", f"{prefix}bn1", source)
        current = self._convolve(f"{prefix}conv2", f"{prefix}bn2", current, (stride,) * 3)
        current = self._convolve(f"{prefix}conv3", f"{prefix}bn3", current, activate=False)
        if f"{prefix}downsample.0.weight" in self._weights:
            names = f"{prefix}downsample.0", f"{prefix}downsample.1"
            source = self._convolve(*names, source, (stride,) * 3, activate=False)
        return self._add("Relu", [self._add("Add", [current, source], f"{prefix}sum")], f"{prefix}relu")

    def _convolve(
        self,
        layer: str,
        norm: str,
        source: str,
        stride: tuple[int, ...] = (1, 1, 1),
        activate: bool = True,
    ) -> str:
        """Add a convolution with its batch norm, and ReLU unless `activate` is False; return its output."""
        scale, bias = self._norm(norm)
        weight = self._weights[f"{layer}.weight"] * scale.astype(np.float32).reshape(-1, 1, 1, 1, 1)
        if source == RESNET_INPUT:
            weight = weight.sum(axis=1, keepdims=True)
        names = self._add_weights(layer, weight, bias)
        kernel = weight.shape[2:]
        pads = tuple(side // 2 for side in kernel) * 2
        self._add("Conv", [source, *names], layer, kernel_shape=kernel, pads=pads, strides=stride)
        return self._add("Relu", [layer], f"{layer}.relu") if activate else layer
