"""The network of an embedding for onnxruntime, which on a processor is twice as fast as torch and needs no torch."""

import hashlib
import os
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.models.embedding_card import ONNX

OnnxNetwork = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def export_onnx(network: Any, side: int, folder: Path) -> dict[str, str]:
    """Write a torch module into `folder`; what its card says of that, nothing where the library onnx is missing."""
    if find_spec("onnx") is None:
        return {}
    import torch

    was_training = network.training
    example = torch.zeros(2, 1, side, side, device=next(network.parameters()).device)
    axes = {"images": {0: "n"}, "vectors": {0: "n"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this exporter is the older one; the newer needs more libraries
        torch.onnx.export(network.eval(), (example,), str(folder / ONNX), dynamo=False, dynamic_axes=axes,
                          input_names=["images"], output_names=["vectors"])  # fmt: skip
    network.train(was_training)
    return {"onnx_sha256": hashlib.sha256((folder / ONNX).read_bytes()).hexdigest()}


def load_onnx_network(folder: Path, card: dict[str, Any]) -> OnnxNetwork | None:
    """The network in `folder`, (n, 1, side, side) float32 to (n, dimensions); None where torch must do.

    Raises InvalidInput for a file that is not the one of the card.
    """
    path = folder / ONNX
    if "onnx_sha256" not in card or not path.is_file() or find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != card["onnx_sha256"]:
        raise InvalidInput(f"{path} is not the file that its card describes; fetch both again")
    options = onnxruntime.SessionOptions()
    threads = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]  # it may have a number for each level
    options.intra_op_num_threads = int(threads) if threads.isdecimal() else 0  # 0: all cores
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda images: np.asarray(session.run(["vectors"], {"images": images})[0], np.float32)
