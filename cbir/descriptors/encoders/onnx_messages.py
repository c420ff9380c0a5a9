"""Writing and reading of the few protobuf messages that an ONNX file consists of.

Reading gives the layers and weights, so that another library than onnxruntime can compute the network, and says
whether weights are in other files. Numbers of fields and types are those of onnx.proto3
(https://github.com/onnx/onnx). The package onnx, which does the same, needs 33 MB.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

OPSET, IR_VERSION = 13, 8
FLOAT = 1  # TensorProto.DataType
INT, INTS = 2, 7  # AttributeProto.AttributeType
GRAPH, INITIALIZER = 7, 5  # fields of ModelProto and GraphProto

_BYTES = 2  # wire type of strings, bytes and messages


def write_node(operator: str, inputs: Sequence[str], output: str, **attributes: int | Sequence[int]) -> bytes:
    """Encode a NodeProto with one output.

    Parameters
    ----------
    operator : str
        Operator of ONNX, such as Conv.
    inputs : sequence of str
        Names of its inputs.
    output : str
        Name of its output, and of the node.
    **attributes
        Integers or sequences of integers.
    """
    node = (
        b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(3, output) + _text(4, operator)
    )
    return node + b"".join(_field(5, _attribute(name, value)) for name, value in attributes.items())


def write_tensor(name: str, values: NDArray[np.floating[Any]]) -> bytes:
    """Encode a TensorProto; its values become float32."""
    dims = b"".join(_integer(1, length) for length in values.shape)
    content = np.ascontiguousarray(values, "<f4").tobytes()
    return dims + _integer(2, FLOAT) + _text(8, name) + _field(9, content)


def write_model(
    nodes: Sequence[bytes],
    tensors: Sequence[bytes],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
) -> bytes:
    """Encode a ModelProto.

    Parameters
    ----------
    nodes : sequence of bytes
        From `write_node`, in the order of computation.
    tensors : sequence of bytes
        Weights, from `write_tensor`.
    inputs, outputs : mapping
        Shapes of the float32 tensors that go in and out, by name.
    """
    graph = b"".join(_field(1, node) for node in nodes) + _text(2, "encoder")
    graph += b"".join(_field(INITIALIZER, tensor) for tensor in tensors)
    graph += b"".join(_field(11, _value(name, shape)) for name, shape in inputs.items())
    graph += b"".join(_field(12, _value(name, shape)) for name, shape in outputs.items())
    opset = _field(8, _text(1, "") + _integer(2, OPSET))
    return _integer(1, IR_VERSION) + _text(2, "cbir") + _field(GRAPH, graph) + opset


def read_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: int for integers, bytes for the rest; ValueError if damaged."""
    content, position = memoryview(message), 0
    while position < len(content):
        key, position = read_varint(content, position)
        wire = key & 7
        if wire == 0:
            value, position = read_varint(content, position)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            length, position = read_varint(content, position)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError("unknown wire type")
        if position + length > len(content):
            raise ValueError("truncated")
        yield key >> 3, content[position : position + length]
        position += length


def read_varint(content: memoryview, position: int) -> tuple[int, int]:
    """Return the integer at a position, and the position behind it; ValueError if damaged."""
    value = shift = 0
    while position < len(content) and shift < 70:
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise ValueError("truncated")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _attribute(name: str, value: int | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _integer(3, value) + _integer(20, INT)
    return _text(1, name) + b"".join(_integer(8, item) for item in value) + _integer(20, INTS)


def _value(name: str, shape: Sequence[int]) -> bytes:
    dims = b"".join(_field(1, _integer(1, length)) for length in shape)
    return _text(1, name) + _field(2, _field(1, _integer(1, FLOAT) + _field(2, dims)))


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


DATA_LOCATION, EXTERNAL = 14, 1  # field of TensorProto and its value for data in another file

# Messages of onnx.proto3 that can have tensors inside, by the number of their field
_INSIDE = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor",
        6: "graph",
        10: "tensor",
        11: "graph",
        22: "sparse tensor",
        23: "sparse tensor",
    },
    "sparse tensor": {1: "tensor", 2: "tensor"},
}


def has_external_data(model: bytes) -> bool:
    """Return whether any tensor of an ONNX model is in another file, also in nodes, subgraphs and functions.

    Raises ValueError if it is not a protobuf.
    """
    pending: list[tuple[str, Any]] = [
        ("model", model)
    ]  # no recursion: a hostile file nests as deep as it likes
    while pending:
        kind, message = pending.pop()
        for number, value in read_fields(message):
            if isinstance(value, int):
                # Enumerations have 32 bits; protobuf ignores those above
                if kind == "tensor" and number == DATA_LOCATION and value & 0xFFFFFFFF == EXTERNAL:
                    return True
            elif inside := _INSIDE.get(kind, {}).get(number):
                pending.append((inside, value))
    return False
