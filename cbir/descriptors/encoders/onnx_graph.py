"""Reading of the layers and weights of an ONNX network, so that another library than onnxruntime can compute it."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders.onnx_messages import FLOAT, GRAPH, INITIALIZER, read_fields, read_varint

_NODE, _INPUT = 1, 11  # fields of GraphProto; others as in `onnx_messages`
_INT, _INTS = 3, 8  # fields of AttributeProto
_RAW = 9  # field of TensorProto


class OnnxNode(NamedTuple):
    """A layer with one output. attributes: integers; None for an attribute of another kind."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, tuple[int, ...] | None]


class OnnxGraph(NamedTuple):
    """Layers in the order of computation, float32 weights by name, and the name of the only input."""

    nodes: tuple[OnnxNode, ...]
    weights: Mapping[str, NDArray[np.float32]]
    input: str


def read_graph(content: bytes) -> OnnxGraph:
    """Return the layers of an ONNX network.

    Raises ValueError if it has several inputs, layers with several outputs, or weights that are not float32.
    """
    graph = next(value for number, value in read_fields(content) if number == GRAPH)
    nodes: list[OnnxNode] = []
    weights: dict[str, NDArray[np.float32]] = {}
    inputs: list[str] = []
    for number, value in read_fields(graph):
        if number == _NODE:
            nodes.append(_read_node(value))
        elif number == INITIALIZER:
            name, weights[name] = _read_weights(value)
        elif number == _INPUT:
            inputs += [_decoded(name) for field, name in read_fields(value) if field == 1]
    (source,) = [name for name in inputs if name not in weights]
    return OnnxGraph(tuple(nodes), weights, source)


def _read_node(message: bytes) -> OnnxNode:
    fields = list(read_fields(message))
    (output,) = [_decoded(value) for number, value in fields if number == 2]
    return OnnxNode(
        operator=_decoded(dict(fields).get(4, b"")),
        inputs=tuple(_decoded(value) for number, value in fields if number == 1),
        output=output,
        attributes=dict(_read_attribute(value) for number, value in fields if number == 5),
    )


def _read_attribute(message: bytes) -> tuple[str, tuple[int, ...] | None]:
    fields = list(read_fields(message))
    numbers = [item for number, value in fields if number in (_INT, _INTS) for item in _integers(value)]
    return _decoded(dict(fields)[1]), tuple(numbers) if numbers else None


def _read_weights(message: bytes) -> tuple[str, NDArray[np.float32]]:
    fields = list(read_fields(message))
    by_number = dict(fields)
    name = _decoded(by_number[8])
    if by_number.get(2) != FLOAT or _RAW not in by_number:
        raise ValueError(f"the weights {name} are not float32")
    shape = [item for number, value in fields if number == 1 for item in _integers(value)]
    return name, np.frombuffer(by_number[_RAW], "<f4").reshape(shape)


def _integers(value: Any) -> Iterator[int]:
    """Yield a number, or those of a packed field; negative ones have 64 bits."""
    if isinstance(value, int):
        yield value - (1 << 64) if value >> 63 else value
        return
    position = 0
    while position < len(value):
        number, position = read_varint(value, position)
        yield from _integers(number)


def _decoded(value: Any) -> str:
    return bytes(value).decode()
