"""Writing and reading of the few protobuf messages that an ONNX file consists of.

Numbers of fields and types are those of onnx.proto3 (https://github.com/onnx/onnx). The package onnx, which does the
same, needs 33 MB.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
