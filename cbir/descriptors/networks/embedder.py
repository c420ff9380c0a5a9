"""Embedding networks: images to vectors of length 1, close together for images of one class; and their folders."""

from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from cbir.descriptors.networks.backbones import build_backbone
from cbir.descriptors.networks.embedding_card import CARD, WEIGHTS, read_embedding_card
from cbir.descriptors.networks.embedding_head import EmbeddingHead
from cbir.descriptors.networks.model_files import load_weights, save_model
from cbir.descriptors.networks.onnx_network import export_onnx


class Embedder(nn.Module):
    """Map images (n, channels, side, side), values 0 to 1, to unit vectors (n, dimensions).

    `cbir.images.scaling` makes grey ones.

    Parameters
    ----------
    backbone : str
        A name from `cbir.descriptors.networks.backbones.names()`.
    pooling : str
        gem or average.
    dimensions : int
        Length of a vector.
    side : int
        Height and width of an image in pixels.
    weights : Path or str, optional
        Initial weights, see `build_backbone`.
    head : dict, optional
        Options of an `EmbeddingHead` that follows the pooling in place of a linear layer with `dimensions`.
    channels : int
        1 or 3.
    """

    def __init__(
        self,
        backbone: str = "small",
        pooling: str = "gem",
        dimensions: int = 128,
        side: int = 64,
        weights: Path | str | None = None,
        head: dict[str, Any] | None = None,
        channels: int = 1,
    ) -> None:
        super().__init__()
        self.options: dict[str, Any] = {
            "backbone": backbone,
            "pooling": pooling,
            "dimensions": dimensions,
            "side": side,
        }
        self.side, self.channels = side, channels
        self.dimensions = dimensions  # in training mode
        layer = dimensions if head is None else None
        self.backbone = build_backbone(
            backbone, pooling=pooling, dimensions=layer, channels=channels, weights=weights
        )
        if head is not None:
            self.backbone.projection = EmbeddingHead(**head)
            self.dimensions = self.backbone.projection.dimensions
            self.options |= {"dimensions": self.backbone.projection.size, "head": head, "channels": channels}

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
    exported = export_onnx(embedder, embedder.side, embedder.channels, folder)
    save_model(embedder, folder / WEIGHTS, folder / CARD, {"model": embedder.options, **exported, **facts})


def load_embedder(folder: Path) -> Embedder:
    """Load the embedder in `folder`, in evaluation mode.

    Raises NotFound if there is none, InvalidInput if weights and card do not match.
    """
    card = read_embedding_card(folder)
    return load_weights(folder / WEIGHTS, card["sha256"], lambda: Embedder(**card["model"])).eval()
