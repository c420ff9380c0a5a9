"""EfficientNet-Lite as ONNX, from the state dict of its PyTorch form.

The networks: https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite. Blocks of MobileNetV2
(expand 1 x 1, depthwise, project 1 x 1; a shortcut where shapes allow) with ReLU6. Weights come from TensorFlow, so
padding is that of its SAME mode: where a stride of 2 makes it odd, the larger part is at the bottom and right.
Batch norms are folded into their convolutions.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders.onnx_messages import write_model, write_node, write_tensor

LITE_EPSILON = 1e-3  # of the batch norms
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


class EfficientNetLite:
    """Layers of one network, collected for an ONNX file."""

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
        self._weights, self._side = weights, side
        self._repeats = [
            count + deeper * (stage not in (1, 7)) for stage, count in enumerate(REPEATS, start=1)
        ]
        self._nodes: list[bytes] = []
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
                self._nodes.append(write_node("Identity", [current.name], OUTPUTS[stage]))
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
        self._nodes.append(write_node("Add", [current.name, source.name], f"{prefix}sum"))
        return current._replace(name=f"{prefix}sum")

    def _convolve(self, layer: str, norm: str, source: _Map, stride: int = 1, activate: bool = True) -> _Map:
        """Add a convolution with its batch norm, and ReLU6 unless `activate` is False."""
        weight, bias = self._fold(layer, norm)
        kernel, side = weight.shape[-1], -(-source.side // stride)
        padding = max((side - 1) * stride + kernel - source.side, 0)
        before, after = padding // 2, padding - padding // 2
        self._tensors += [write_tensor(f"{layer}.weight", weight), write_tensor(f"{layer}.bias", bias)]
        self._nodes.append(
            write_node(
                "Conv",
                [source.name, f"{layer}.weight", f"{layer}.bias"],
                layer,
                group=source.channels // weight.shape[1],
                kernel_shape=(kernel, kernel),
                pads=(before, before, after, after),
                strides=(stride, stride),
            )
        )
        if activate:
            self._nodes.append(write_node("Clip", [layer, "zero", "six"], f"{layer}.relu6"))
        return _Map(f"{layer}.relu6" if activate else layer, len(weight), side)

    def _fold(self, layer: str, norm: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weight and bias of a convolution with the batch norm after it."""
        weight = self._weights[f"{layer}.weight"].astype(np.float64)
        scale, shift, mean, variance = (
            self._weights[f"{norm}.{name}"].astype(np.float64)
            for name in ("weight", "bias", "running_mean", "running_var")
        )
        scale /= np.sqrt(variance + LITE_EPSILON)
        return weight * scale[:, None, None, None], shift - mean * scale
