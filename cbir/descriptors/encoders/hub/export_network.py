"""Export of torch networks and text towers to ONNX, and of tokenizers, compared with torch and the library."""

import hashlib
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, normalizers
from tokenizers.normalizers import Normalizer
from torch import nn

from cbir.descriptors.encoders import MASK, TOKENS, VECTOR
from cbir.descriptors.encoders.encoder_files import EncoderInput, TextCard, TextFiles
from cbir.descriptors.encoders.encoder_network import normalise_pixels, run_session
from cbir.descriptors.encoders.hub.hub_network import HubText
from cbir.descriptors.networks.model_card import LARGEST_NETWORK, open_onnx_session
from cbir.errors import InvalidInput

INPUT, OUTPUT = "images", "features"
GRAPH_SIZE = 1 << 24  # bytes beside the weights, at most
TOLERANCE = 1e-3  # of the greatest value


def trial_inputs(shape: EncoderInput) -> list[NDArray[np.float32]]:
    """Return two random images in the network's form."""
    generator = np.random.default_rng(0)
    sides = shape.height, shape.width, len(shape.mean)
    return [normalise_pixels(generator.integers(0, 256, sides, np.uint8), shape) for _ in range(2)]


def run_torch(network: nn.Module, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the output of a torch network for one image."""
    with torch.no_grad():
        return np.asarray(network(torch.from_numpy(values)).numpy(), np.float32)


def export_network(network: nn.Module, shape: EncoderInput) -> bytes:
    """Return a network as ONNX: INPUT, one image, to OUTPUT.

    Raises InvalidInput if it is too large for a file, or its ONNX form gives other values than torch.
    """
    inputs = trial_inputs(shape)
    content = write_onnx(network, {INPUT: inputs[0]}, OUTPUT)
    session = open_onnx_session(content)
    for values in inputs:
        check_equal(run_torch(network, values), run_session(session, [OUTPUT], values)[OUTPUT])
    return content


def write_onnx(network: nn.Module, inputs: Mapping[str, NDArray[Any]], output: str) -> bytes:
    """Write a torch network as ONNX.

    Parameters
    ----------
    network : nn.Module
        The network.
    inputs : mapping of str to array
        Names of its arguments, in their order, and examples of the shapes that it takes.
    output : str
        Name of its output.

    Returns
    -------
    bytes
        The ONNX file.

    Raises
    ------
    InvalidInput
        If it is too large for a file.
    """
    size = sum(parameter.numel() * 4 for parameter in network.parameters())
    if size > LARGEST_NETWORK - GRAPH_SIZE:
        raise InvalidInput(
            f"the network's weights have {size >> 20} MiB, and an ONNX file at most {LARGEST_NETWORK >> 20}"
        )
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            network, tuple(map(torch.from_numpy, inputs.values())), dynamo=True, verbose=False,
            input_names=list(inputs), output_names=[output],
        )  # fmt: skip
        if program is None:
            raise InvalidInput("torch exports no network")
        model = program.model_proto
    for node in (*model.graph.node, *(node for function in model.functions for node in function.node)):
        del node.metadata_props[:]  # stack traces, with paths of this machine
    return bytes(model.SerializeToString())


def check_equal(expected: NDArray[np.float32], values: NDArray[np.float32]) -> None:
    """Raise InvalidInput unless the values of an ONNX network are finite, and equal to those of torch."""
    if not np.isfinite(expected).all():
        raise InvalidInput("the network's values are not finite for a random image")
    if values.shape != expected.shape:
        raise InvalidInput(f"as ONNX the network gives {values.shape}, with torch {expected.shape}")
    difference = float(np.abs(values - expected).max() / max(float(np.abs(expected).max()), 1e-12))
    if not difference <= TOLERANCE:
        raise InvalidInput(
            f"as ONNX the network gives other values than with torch: they differ by {difference:.2g}"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what the exporter says about its own work."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# Upper case, marks, digits, white space, an accent, and a text that is cut
TRIAL_TEXTS = [
    "chest radiograph",
    "  MR of the left Knee,\n T2-weighted; axial_slice #3\t(5 mm) ",
    "Überlagerung: café, 5 µm – 50 %",
    "a b " * 1500,
]


def set_length(tokenizer: Tokenizer, length: int, padding: int) -> None:
    """Let a tokenizer cut and pad all texts to `length` tokens; `padding` is the token that fills them."""
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=padding, pad_token=tokenizer.id_to_token(padding) or "!")


def normalise_first(tokenizer: Tokenizer, steps: list[Normalizer]) -> None:
    """Let a tokenizer take `steps` before its own normalisation."""
    own = [tokenizer.normalizer] if tokenizer.normalizer is not None else []
    tokenizer.normalizer = normalizers.Sequence([*steps, *own])


def white_space() -> list[Normalizer]:
    """Return the steps that reduce white space to single blanks."""
    return [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]


def export_text(text: HubText, dimensions: int) -> tuple[TextCard, TextFiles]:
    """Export a text tower whose vectors have as many values as those of images, `dimensions`.

    Raises InvalidInput if its values as ONNX are not those of torch, or its tokens not those of the library.
    """
    encodings = text.tokenizer.encode_batch(TRIAL_TEXTS)
    tokens = np.array([encoding.ids for encoding in encodings], np.int64)
    if not np.array_equal(tokens, text.tokenize(TRIAL_TEXTS)):
        raise InvalidInput("its tokenizer gives other tokens than the library")
    masks = np.array([encoding.attention_mask for encoding in encodings], np.int64)
    arrays = {TOKENS: tokens, MASK: masks} if text.masked else {TOKENS: tokens}
    feeds = [{name: array[row : row + 1] for name, array in arrays.items()} for row in range(len(tokens))]
    network = write_onnx(text.network, feeds[0], VECTOR)
    session = open_onnx_session(network)
    names = [tensor.name for tensor in session.get_inputs()]
    for feed in feeds:
        with torch.no_grad():
            expected = text.network(*map(torch.from_numpy, feed.values())).numpy()
        if expected.shape != (1, dimensions):
            raise InvalidInput(f"it gives {expected.shape} values, and the image tower {dimensions}")
        check_equal(expected, session.run([VECTOR], {name: feed[name] for name in names})[0])
    tokenizer = text.tokenizer.to_str().encode()
    sha256, tokenizer_sha256 = (hashlib.sha256(file).hexdigest() for file in (network, tokenizer))
    card = TextCard(sha256=sha256, tokenizer_sha256=tokenizer_sha256, length=text.length)
    return card, TextFiles(network, tokenizer)
