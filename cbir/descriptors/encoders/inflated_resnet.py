"""Inflated 3-D ResNet as ONNX, from the state dict of its PyTorch form.

The image encoder of Merlin (Blankemeier et al., arXiv:2406.06512): a ResNet of bottleneck blocks (He et al., 2016)
whose filters were inflated to three dimensions (Carreira and Zisserman, 2017). Batch norms are folded into their
convolutions. The three equal channels of the original's input are one: its first filters are summed over them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders.onnx_messages import write_model, write_node, write_tensor
from cbir.errors import InvalidInput

RESNET_EPSILON = 1e-5  # of the batch norms
RESNET_INPUT, RESNET_OUTPUT = "voxels", "mean"
LAYERS = 4  # the first block of each but the first halves the sides


class InflatedResNet:
    """Layers of one network, collected for an ONNX file.

    Parameters
    ----------
    weights : mapping
        Tensors of the state dict by name.
    shape : (int, int, int)
        Depth, width and height of its input in voxels.
    """

    def __init__(self, weights: Mapping[str, NDArray[Any]], shape: tuple[int, int, int]) -> None:
        self._weights, self._shape = weights, shape
        self._nodes: list[bytes] = []
        self._tensors: list[bytes] = []

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
        weight, bias = self._fold(layer, norm)
        if source == RESNET_INPUT:
            weight = weight.sum(axis=1, keepdims=True)
        names = f"{layer}.weight", f"{layer}.bias"
        self._tensors += [
            write_tensor(name, values) for name, values in zip(names, (weight, bias), strict=True)
        ]
        kernel = weight.shape[2:]
        pads = tuple(side // 2 for side in kernel) * 2
        self._add("Conv", [source, *names], layer, kernel_shape=kernel, pads=pads, strides=stride)
        return self._add("Relu", [layer], f"{layer}.relu") if activate else layer

    def _add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(write_node(operator, inputs, output, **attributes))
        return output

    def _fold(self, layer: str, norm: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return weight and bias of a convolution with the batch norm after it."""
        scale, shift, mean, variance = (
            self._weights[f"{norm}.{name}"].astype(np.float64)
            for name in ("weight", "bias", "running_mean", "running_var")
        )
        scale /= np.sqrt(variance + RESNET_EPSILON)
        weight = self._weights[f"{layer}.weight"] * scale.astype(np.float32).reshape(-1, 1, 1, 1, 1)
        return weight, (shift - mean * scale).astype(np.float32)
