"""ONNX export of embedders and their inference by onnxruntime: twice as fast on a CPU as torch, which it replaces."""

import hashlib
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.networks.embedding_card import ONNX, OUTPUT
from cbir.descriptors.networks.model_card import read_verified
from cbir.descriptors.networks.onnx_session import open_onnx_session
from cbir.system.files import write_bytes

if TYPE_CHECKING:
    from torch import nn

LARGEST_NETWORK = (1 << 31) - 1  # bytes; ONNX files have no more

OnnxNetwork = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def export_onnx(network: "nn.Module", side: int, channels: int, folder: Path) -> dict[str, str]:
    """Write an embedder as ONNX.

    Parameters
    ----------
    network : nn.Module
        Takes images (n, channels, side, side).
    side : int
        Height and width of an image in pixels.
    channels : int
        1 or 3.
    folder : Path
        Existing folder to write to.

    Returns
    -------
    dict
        Fields for the card: the hash of the file; empty if the library onnx is missing.
    """
    if find_spec("onnx") is None:
        return {}
    import torch

    was_training = network.training
    example = torch.zeros(2, channels, side, side, device=next(network.parameters()).device)
    axes = {"images": {0: "n"}, OUTPUT: {0: "n"}}
    buffer: Any = BytesIO()  # which torch accepts, though its annotations name paths alone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is deprecated; the newer one needs more libraries
        torch.onnx.export(network.eval(), (example,), buffer, dynamo=False, dynamic_axes=axes,
                          input_names=["images"], output_names=[OUTPUT])  # fmt: skip
    network.train(was_training)
    write_bytes(folder / ONNX, buffer.getvalue())
    return {"onnx_sha256": hashlib.sha256(buffer.getvalue()).hexdigest()}


def load_onnx_network(folder: Path, card: dict[str, Any]) -> OnnxNetwork | None:
    """Load the ONNX network that `card` describes in `folder`: (n, channels, height, width) float32 to vectors.

    Returns None if there is no export or no onnxruntime. Raises InvalidInput if the file is not the one of the card.
    """
    path = folder / ONNX
    if "onnx_sha256" not in card or not path.is_file() or find_spec("onnxruntime") is None:
        return None
    session = open_onnx_session(read_verified(path, card["onnx_sha256"], LARGEST_NETWORK))
    name = session.get_inputs()[0].name
    return lambda images: np.asarray(session.run([OUTPUT], {name: images})[0], np.float32)
