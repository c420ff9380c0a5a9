"""Encoders' networks on a GPU, in torch: layers and weights of their ONNX files.

The layers are those of the built-in encoders, and of added networks that have no others. Biases are float32 in half
precision too, and inputs are normalised and maps pooled in it.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from cbir.descriptors.encoders.encoder_files import EncoderCard, EncoderOutput, VolumeInput
from cbir.descriptors.encoders.encoder_network import (
    Prepared,
    normalise_voxels,
    pixel_factors,
    pooling_matrix,
)
from cbir.descriptors.encoders.onnx_messages import OnnxGraph, OnnxNode, read_graph
from cbir.system.device_failure import IMAGES_TOGETHER, full_precision, in_pieces
from cbir.system.threads import checkpoint, locked

LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}  # by the number of a tensor's sides
# Attributes that layers may have; the others must have their default
READ = {
    "Conv": {"kernel_shape", "pads", "strides", "dilations", "group"},
    "MaxPool": {"kernel_shape", "pads", "strides"},
}
DEFAULTS = {"axis": 1, "ceil_mode": 0, "dilations": 1, "storage_order": 0}


def read_known_graph(content: bytes) -> OnnxGraph:
    """Return the layers of an ONNX network; raise ValueError if some cannot be computed here."""
    try:
        graph = read_graph(content)
    except (KeyError, StopIteration) as error:
        raise ValueError("its file lacks something") from error
    for node in graph.nodes:
        _check_node(node)
    return graph


class DeviceNetwork:
    """A network with normalisation and pooling by a card. Thread-safe.

    Parameters
    ----------
    graph : OnnxGraph
        From `read_known_graph`.
    card : EncoderCard
        Its card.
    device : str
        A device of torch.
    dtype : torch.dtype
        That layers compute in.
    """

    def __init__(self, graph: OnnxGraph, card: EncoderCard, device: str, dtype: torch.dtype) -> None:
        self._card, self._device, self._dtype = card, device, dtype
        self._nodes, self._source = graph.nodes, graph.input
        self._last_uses = _last_uses(graph, {output.tensor for output in card.outputs})
        self._weights = {name: self._place(values) for name, values in graph.weights.items()}
        self._factors = (
            None
            if isinstance(card.input, VolumeInput)
            else tuple(torch.from_numpy(values).to(device) for values in pixel_factors(card.input))
        )
        self._matrices: dict[int, Tensor | None] = {}
        self._one_batch = Lock()  # each is planned for all of the memory

    def describe(self, inputs: Sequence[Prepared]) -> NDArray[np.float32]:
        """Describe n prepared images or volumes: (n, dimensions) float32, which may not be finite."""
        with locked(self._one_batch), torch.inference_mode(), full_precision():
            size = IMAGES_TOGETHER if self._factors else 1
            pieces = in_pieces(lambda rows: self._describe(inputs[rows]), len(inputs), size)
            return np.concatenate([np.empty((0, self._card.dimensions), np.float32), *pieces])

    def _describe(self, inputs: Sequence[Prepared]) -> NDArray[np.float32]:
        checkpoint()
        maps = self._run(self.normalise(inputs))
        pooled = [
            output.weight * self._pool(number, output, maps[output.tensor].float())
            for number, output in enumerate(self._card.outputs)
        ]
        return np.asarray(torch.cat(pooled, dim=1).cpu().numpy())

    def normalise(self, inputs: Sequence[Prepared]) -> Tensor:
        """Bring prepared images to the network's form on the device, float32: bit by bit that of the CPU."""
        if self._factors is None:
            assert isinstance(self._card.input, VolumeInput)
            voxels = np.concatenate([normalise_voxels(volume, self._card.input) for volume in inputs])
            return torch.from_numpy(voxels).to(self._device)
        factor, offset = self._factors
        # (n, height, width, channels) in memory is what torch calls channels last
        pixels = torch.from_numpy(np.stack(inputs)).to(self._device).permute(0, 3, 1, 2)
        return pixels.float() * factor - offset

    def _run(self, source: Tensor) -> dict[str, Tensor]:
        """Return the outputs of the network by name; other values are dropped after their last use."""
        layout = LAYOUTS[source.ndim]
        values: dict[str, Any] = {self._source: source.to(self._dtype).contiguous(memory_format=layout)}
        del source
        for node, unused in zip(self._nodes, self._last_uses, strict=True):
            operands = [
                self._weights[name] if name in self._weights else values[name] for name in node.inputs
            ]
            values[node.output] = OPERATORS[node.operator](node, *operands)
            del operands
            for name in unused:
                del values[name]
        return values

    def _pool(self, number: int, output: EncoderOutput, values: Tensor) -> Tensor:
        """Pool a map (n, channels, height, width) as `cbir.descriptors.encoders.encoder_network` does."""
        if number not in self._matrices:
            matrix = pooling_matrix(output, (1, *values.shape[1:]))
            self._matrices[number] = None if matrix is None else torch.from_numpy(matrix).to(self._device)
        weights = self._matrices[number]
        if weights is not None:
            return (weights @ values.flatten(2).transpose(1, 2)).flatten(1)
        return values.amax(dim=(2, 3)) if values.ndim == 4 else values

    def _place(self, values: NDArray[np.float32]) -> Tensor | float:
        if not values.ndim:  # a limit of Clip
            return float(values)
        weight = torch.tensor(values)
        if weight.ndim not in LAYOUTS:  # a bias
            return weight.to(self._device)
        return weight.to(self._device, self._dtype).contiguous(memory_format=LAYOUTS[weight.ndim])


def _check_node(node: OnnxNode) -> None:
    """Raise ValueError for a layer that cannot be computed here."""
    if node.operator not in OPERATORS or "" in node.inputs:
        raise ValueError(f"it has layers of the kind {node.operator}")
    for name, value in node.attributes.items():
        is_default = value is not None and set(value) == {DEFAULTS.get(name)}
        if not is_default and (value is None or name not in READ.get(node.operator, ())):
            raise ValueError(f"its layer {node.output} has the attribute {name}")


def _last_uses(graph: OnnxGraph, kept: set[str]) -> list[list[str]]:
    """Return, after each layer, the names of the values that no other reads."""
    seen = kept | graph.weights.keys()
    unused: list[list[str]] = []
    for node in reversed(graph.nodes):
        unused.append([name for name in dict.fromkeys((*node.inputs, node.output)) if name not in seen])
        seen = seen.union(unused[-1])
    return unused[::-1]


def _convolve(node: OnnxNode, source: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    sides = weight.ndim - 2
    source, padding = _pad(node, source, sides, 0.0)
    ones = (1,) * sides
    convolution = functional.conv2d if sides == 2 else functional.conv3d
    strides, dilations = _sides(node, "strides", ones), _sides(node, "dilations", ones)
    groups = _sides(node, "group", (1,))[0]
    values = convolution(source, weight, None, strides, padding, dilations, groups)
    return values if bias is None else values.add_(bias.view(-1, *ones))


def _max_pool(node: OnnxNode, source: Tensor) -> Tensor:
    kernel = _sides(node, "kernel_shape", ())
    source, padding = _pad(node, source, len(kernel), -torch.inf)
    pool = functional.max_pool2d if len(kernel) == 2 else functional.max_pool3d
    return pool(source, kernel, _sides(node, "strides", (1,) * len(kernel)), padding)


def _pad(node: OnnxNode, source: Tensor, sides: int, value: float) -> tuple[Tensor, tuple[int, ...]]:
    """Return the tensor, padded if its ends are padded differently, and the padding that is left to the layer."""
    pads = _sides(node, "pads", (0,) * 2 * sides)
    before, after = pads[:sides], pads[sides:]
    if before == after:
        return source, before
    pairs = [side for pair in zip(before[::-1], after[::-1], strict=True) for side in pair]
    return functional.pad(source, pairs, value=value), (0,) * sides


def _sides(node: OnnxNode, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    return node.attributes.get(name) or default


OPERATORS: dict[str, Callable[..., Tensor]] = {
    "Add": lambda node, first, second: first + second,
    "Clip": lambda node, source, low, high: source.clamp(low, high),
    "Conv": _convolve,
    "Flatten": lambda node, source: source.flatten(1),
    "GlobalAveragePool": lambda node, source: source.float().mean(
        dim=tuple(range(2, source.ndim)), keepdim=True
    ),
    "Identity": lambda node, source: source,
    "MaxPool": _max_pool,
    "Relu": lambda node, source: source.relu(),
}
