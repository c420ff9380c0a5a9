"""Search for weights that an ONNX model keeps in other files."""

from typing import Any

from cbir.descriptors.encoders.onnx_messages import read_fields

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
