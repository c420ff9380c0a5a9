"""Cards of trained models and embeddings, and files that a card describes by their hash; read without torch."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cbir.errors import InvalidInput, NotFound

LARGEST_FILE = 1 << 30  # bytes
LARGEST_CARD = 1 << 20


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
EMBEDDING_ONNX = "embedding.onnx"  # the same network for onnxruntime, if the library onnx was there
EMBEDDING_OUTPUT = "vectors"  # of that network
SIDES = (32, 1024)
DIMENSIONS = (2, 4096)


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
