"""Embedding of a frozen encoder and a trained head as one ONNX network, compared with both."""

import hashlib
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.encoder_network import normalise_pixels, pooling_matrix, run_session
from cbir.descriptors.networks.embedder import EmbeddingHead
from cbir.descriptors.networks.model_card import (
    EMBEDDING_CARD,
    EMBEDDING_ONNX,
    EMBEDDING_OUTPUT,
    EMBEDDING_WEIGHTS,
)
from cbir.descriptors.networks.model_files import save_model
from cbir.descriptors.networks.onnx_session import open_onnx_session
from cbir.errors import InvalidInput
from cbir.system.files import write_bytes

TOLERANCE = 1e-4  # of vectors of length 1
LARGEST = 2**31 - 2**24  # bytes of an encoder's network; an ONNX file has at most 2 GiB


def save_encoder_embedding(
    head: EmbeddingHead, encoder: Encoder, folder: Path, facts: dict[str, Any]
) -> None:
    """Write the head's weights, encoder and head as ONNX, and the card.

    Parameters
    ----------
    head : EmbeddingHead
        Trained on the values of `encoder`.
    encoder : Encoder
        Any encoder.
    folder : Path
        Existing folder to write to.
    facts : dict
        Further fields of the card.

    Raises
    ------
    InvalidInput
        If the encoder is missing or too large, or the written network gives other vectors.
    """
    content = _append_head(encoder, head.eval())
    _compare(content, encoder, head)
    write_bytes(folder / EMBEDDING_ONNX, content)
    card = {
        "model": {"encoder": encoder.name, "head": head.options, "dimensions": head.size},
        "encoder": encoder.card.model_dump(mode="json"),
        "input": encoder.image_input.model_dump(mode="json"),
        "onnx_sha256": hashlib.sha256(content).hexdigest(),
    }
    save_model(head, folder / EMBEDDING_WEIGHTS, folder / EMBEDDING_CARD, {**card, **facts})


def _append_head(encoder: Encoder, head: EmbeddingHead) -> bytes:
    """Return the encoder's ONNX network with its pooling and the head behind it as the only output."""
    source = encoder.store().read_bytes()
    if len(source) > LARGEST:
        raise InvalidInput(f"the network of {encoder.name} is too large to get a head")
    model = onnx.load_from_string(source)
    graph, numbers = model.graph, count()

    def add(operator: str, *inputs: str | np.ndarray[Any, Any], **options: Any) -> str:
        names = []
        for value in inputs:
            if not isinstance(value, str):
                graph.initializer.append(numpy_helper.from_array(value, name := f"head.{next(numbers)}"))
                value = name
            names.append(value)
        output = f"head.{next(numbers)}"
        graph.node.append(helper.make_node(operator, names, [output], **options))
        return output

    def unit(name: str, length: int) -> str:
        # Operators that are the same in all versions of ONNX; as in torch, a vector of zeros stays one
        squares = add("MatMul", add("Mul", name, name), np.ones((length, 1), np.float32))
        return add("Div", name, add("Max", add("Sqrt", squares), np.array([1e-12], np.float32)))

    shapes = _output_shapes(source, encoder)
    parts = []
    for output in encoder.card.outputs:
        weights = pooling_matrix(output, shapes[output.tensor])
        if weights is None:  # a vector, or the maximum of each channel
            is_map = output.pooling == "max"
            source_name = add("GlobalMaxPool", output.tensor) if is_map else output.tensor
            vector = add("Reshape", source_name, np.array([1, -1]))
            parts.append(add("Mul", vector, np.array([output.weight], np.float32)))
            continue
        channels = shapes[output.tensor][1]
        places = add("Reshape", output.tensor, np.array([channels, -1]))
        pooled = add("MatMul", output.weight * weights, add("Transpose", places, perm=[1, 0]))
        parts.append(add("Reshape", pooled, np.array([1, -1])))
    rotation, mean = head.rotation.numpy(), head.mean.numpy()
    projected = add("MatMul", add("Sub", add("Concat", *parts, axis=1), mean), rotation.T.copy())
    weight, bias = head.linear.weight.detach().numpy(), head.linear.bias.detach().numpy()
    vector = unit(add("Add", add("MatMul", projected, weight.T.copy()), bias), head.dimensions)
    if head.kept:
        kept = add("Mul", unit(projected, head.directions), np.array([head.kept**0.5], np.float32))
        learnt = add("Mul", vector, np.array([(1 - head.kept) ** 0.5], np.float32))
        vector = add("Concat", learnt, kept, axis=1)
    graph.node.append(helper.make_node("Identity", [vector], [EMBEDDING_OUTPUT]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(EMBEDDING_OUTPUT, TensorProto.FLOAT, [1, head.size]))
    return bytes(model.SerializeToString())


def _output_shapes(source: bytes, encoder: Encoder) -> dict[str, tuple[int, ...]]:
    tensors = list({output.tensor for output in encoder.card.outputs})
    values = run_session(open_onnx_session(source, threads=1), tensors, _trial(encoder, 0))
    return {tensor: array.shape for tensor, array in values.items()}


def _compare(content: bytes, encoder: Encoder, head: EmbeddingHead) -> None:
    session, network = open_onnx_session(content, threads=1), encoder.open_network(threads=1)
    for seed in range(2):
        vector = run_session(session, [EMBEDDING_OUTPUT], _trial(encoder, seed))[EMBEDDING_OUTPUT]
        values = network.describe(_trial_pixels(encoder, seed))
        with torch.inference_mode():
            expected = head(torch.from_numpy(values)[None]).numpy()
        if not np.abs(vector - expected).max() <= TOLERANCE:
            raise InvalidInput(f"{encoder.name} with its head gives other vectors as ONNX than with torch")


def _trial(encoder: Encoder, seed: int) -> np.ndarray[Any, Any]:
    return normalise_pixels(_trial_pixels(encoder, seed), encoder.image_input)


def _trial_pixels(encoder: Encoder, seed: int) -> np.ndarray[Any, Any]:
    shape = encoder.image_input
    sides = shape.height, shape.width, len(shape.mean)
    return np.random.default_rng(seed).integers(0, 256, sides, np.uint8)
