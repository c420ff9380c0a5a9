"""Sessions of onnxruntime on the CPU, and embedders in them: twice as fast there as torch, which they replace."""

import hashlib
import os
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.networks.model_card import EMBEDDING_ONNX, EMBEDDING_OUTPUT, read_verified
from cbir.errors import InvalidInput
from cbir.system.files import write_bytes

if TYPE_CHECKING:
    from torch import nn

# onnxruntime 1.32 reports its use to its maker, and keeps an id of the machine, unless this is set before its import.
NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"


def check_onnxruntime() -> None:
    """Raise InvalidInput, with the remedy, if onnxruntime is not installed."""
    if find_spec("onnxruntime") is None:
        raise InvalidInput("networks need onnxruntime, which is missing: pip install onnxruntime")


def open_onnx_session(content: bytes, threads: int | None = None) -> Any:
    """Return an InferenceSession of an ONNX file.

    It has so many `threads`, by default as many as OMP_NUM_THREADS says, else a core each. Raises InvalidInput if
    onnxruntime is missing or cannot load the file.
    """
    check_onnxruntime()
    os.environ[NO_TELEMETRY] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if threads is None:
        text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]  # may list a number per nesting level
        threads = int(text) if text.isdecimal() else 0  # 0: all cores
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # its errors are raised as well
    try:
        # a fallback would print its reason and try the same again
        return onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # its exceptions have no common base, and no public names
        reason = str(error).strip().splitlines()[0][:300]
        raise InvalidInput(f"onnxruntime cannot load the network: {reason}") from error


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
    axes = {"images": {0: "n"}, EMBEDDING_OUTPUT: {0: "n"}}
    buffer: Any = BytesIO()  # which torch accepts, though its annotations name paths alone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is deprecated; the newer one needs more libraries
        torch.onnx.export(network.eval(), (example,), buffer, dynamo=False, dynamic_axes=axes,
                          input_names=["images"], output_names=[EMBEDDING_OUTPUT])  # fmt: skip
    network.train(was_training)
    write_bytes(folder / EMBEDDING_ONNX, buffer.getvalue())
    return {"onnx_sha256": hashlib.sha256(buffer.getvalue()).hexdigest()}


def load_onnx_network(folder: Path, card: dict[str, Any]) -> OnnxNetwork | None:
    """Load the ONNX network that `card` describes in `folder`: (n, channels, height, width) float32 to vectors.

    Returns None if there is no export or no onnxruntime. Raises InvalidInput if the file is not the one of the card.
    """
    path = folder / EMBEDDING_ONNX
    if "onnx_sha256" not in card or not path.is_file() or find_spec("onnxruntime") is None:
        return None
    session = open_onnx_session(read_verified(path, card["onnx_sha256"], LARGEST_NETWORK))
    name = session.get_inputs()[0].name
    return lambda images: np.asarray(session.run([EMBEDDING_OUTPUT], {name: images})[0], np.float32)
