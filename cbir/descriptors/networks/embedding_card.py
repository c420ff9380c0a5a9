"""Cards of trained embeddings; read without torch."""

from pathlib import Path
from typing import Any

from cbir.descriptors.networks.model_card import read_model_card

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
