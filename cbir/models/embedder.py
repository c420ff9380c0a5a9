"""Embedding networks: images to vectors of length 1, close together for images of one class; and their folders."""

from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from cbir.models.backbones import build_backbone
from cbir.models.embedding_card import CARD, WEIGHTS, read_embedding_card
from cbir.models.model_files import load_weights, save_model
from cbir.models.onnx_network import export_onnx


class Embedder(nn.Module):
    """Map grey images (n, 1, side, side), values 0 to 1, to unit vectors (n, dimensions).

    `cbir.images.pad_resize` makes such images.

    Parameters
    ----------
    backbone : str
        A name from `cbir.models.backbones.names()`.
    pooling : str
        gem or average.
    dimensions : int
        Length of a vector.
    side : int
        Height and width of an image in pixels.
    weights : Path or str, optional
        Initial weights, see `build_backbone`.
    """

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
        return cast(Tensor, self.backbone(images))


def save_embedder(embedder: Embedder, folder: Path, facts: dict[str, Any]) -> None:
    """Write the weights, the ONNX export and the card of an embedder.

    Parameters
    ----------
    embedder : Embedder
        The network.
    folder : Path
        Existing folder to write to.
    facts : dict
        Further fields of the card.
    """
    exported = export_onnx(embedder, embedder.side, folder)
    save_model(embedder, folder / WEIGHTS, folder / CARD, {"model": embedder.options, **exported, **facts})


def load_embedder(folder: Path) -> Embedder:
    """Load the embedder in `folder`, in evaluation mode.

    Raises NotFound if there is none, InvalidInput if weights and card do not match.
    """
    card = read_embedding_card(folder)
    return load_weights(folder / WEIGHTS, card["sha256"], lambda: Embedder(**card["model"])).eval()
