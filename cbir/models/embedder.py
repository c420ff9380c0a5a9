"""A network that gives an image a vector of length 1: its class lies near, others far. And its folder."""

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors
from torch import Tensor, nn

from cbir.errors import InvalidInput
from cbir.models import embedding_card
from cbir.models.backbones import build_backbone
from cbir.models.embedding_card import CARD, WEIGHTS
from cbir.models.model_card import read_verified
from cbir.models.onnx_network import export_onnx


class Embedder(nn.Module):
    """Grey images (n, 1, side, side) from 0 to 1 to vectors (n, dimensions) of length 1; see `cbir.images.pad_resize`."""

    def __init__(
        self,
        backbone: str = "small",
        pooling: str = "gem",
        dimensions: int = 128,
        side: int = 64,
        weights: Path | str | None = None,
    ) -> None:
        super().__init__()
        self.options = {"backbone": backbone, "pooling": pooling, "dimensions": dimensions, "side": side}
        self.side, self.dimensions = side, dimensions
        self.backbone = build_backbone(backbone, pooling=pooling, dimensions=dimensions, weights=weights)

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.backbone(images)
        return found


def save_embedder(embedder: Embedder, folder: Path, facts: dict[str, Any]) -> None:
    """Write weights and card (what the embedder is, the hash of its weights, and `facts`) into `folder`."""
    content = write_tensors({name: value.cpu().contiguous() for name, value in embedder.state_dict().items()})
    card = {"model": embedder.options, "sha256": hashlib.sha256(content).hexdigest()}
    card |= export_onnx(embedder, embedder.side, folder) | facts
    (folder / WEIGHTS).write_bytes(content)
    (folder / CARD).write_text(json.dumps(card, indent=2, allow_nan=False) + "\n")


def load_embedder(folder: Path) -> Embedder:
    """The embedder in `folder`, for use; nothing is unpickled.

    Raises NotFound where there is none, InvalidInput where weights and card do not belong together.
    """
    card, weights = embedding_card.read_embedding_card(folder), folder / WEIGHTS
    content = read_verified(weights, card["sha256"])
    try:
        embedder = Embedder(**card["model"])
        embedder.load_state_dict(read_tensors(content))
    except (RuntimeError, TypeError, SafetensorError) as error:
        raise InvalidInput(f"{weights} does not fit what its card says") from error
    return embedder.eval()
