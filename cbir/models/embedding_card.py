"""What a folder with an embedding says of itself; read without torch."""

import json
from pathlib import Path
from typing import Any

from cbir.errors import InvalidInput, NotFound

WEIGHTS, CARD = "embedding.safetensors", "embedding.json"
ONNX = "embedding.onnx"  # the same network for onnxruntime, where there is one
SIDES = (32, 1024)
DIMENSIONS = (2, 4096)
LARGEST = 1 << 20  # bytes of a card


def has_embedding(folder: Path) -> bool:
    """Whether there is an embedding in `folder`."""
    return (folder / CARD).is_file()


def read_embedding_card(folder: Path) -> dict[str, Any]:
    """The card of the embedding in `folder`: "model" (backbone, pooling, dimensions, side), "sha256", and more.

    Raises NotFound where there is none, InvalidInput for one that is something else.
    """
    path = folder / CARD
    if not path.is_file():
        raise NotFound(f"there is no {path}; `cbir train embedding --out {folder}` makes one")
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError
        found = json.loads(path.read_text())
        model, digest = found["model"], found["sha256"]
        texts = [model["backbone"], model["pooling"], digest]
        ranges = [(model["side"], SIDES), (model["dimensions"], DIMENSIONS)]
        known = all(isinstance(text, str) for text in texts) and len(digest) == 64
        known = known and all(isinstance(n, int) and least <= n <= most for n, (least, most) in ranges)
        int(digest, 16)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is not the card of an embedding") from error
    if not known:
        raise InvalidInput(f"{path} is not the card of an embedding")
    return dict(found)
