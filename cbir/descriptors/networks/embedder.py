"""Embedding networks: images to vectors of length 1, close together for images of one class; and their folders."""

from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from torch import Tensor, nn
from torch.nn import functional

from cbir.descriptors.networks.backbones import build_backbone
from cbir.descriptors.networks.model_card import (
    EMBEDDING_CARD,
    EMBEDDING_WEIGHTS,
    export_onnx,
    read_embedding_card,
)
from cbir.descriptors.networks.model_files import load_weights, save_model

KEPT = 0.7  # of the squared length: see bench/results/embeddings.md
TINY = 1e-12
SMOOTHING = 0.1  # of the variance within classes, as a share of its mean


class EmbeddingHead(nn.Module):
    """Map an encoder's values (n, features) to unit vectors (n, size).

    The values are centred and projected to the directions of linear discriminant analysis, in which images of a class
    vary equally. A linear layer, which `start_from` sets to the first `dimensions` of them, learns from classes. What
    it does not need for these it forgets, so that classes which it has not seen become less distinct: beside its
    output a vector has the projected values themselves, with the share `kept` of the squared length. In training mode
    they are left out: (n, dimensions).

    Parameters
    ----------
    features : int
        Values of the encoder.
    dimensions : int
        Outputs of the linear layer; fewer where there are fewer directions.
    directions : int
        Directions; fewer where there are fewer values.
    kept : float
        0 (the linear layer alone) to below 1.
    """

    mean: Tensor
    rotation: Tensor

    def __init__(
        self, features: int, dimensions: int = 128, directions: int = 512, kept: float = 0.0
    ) -> None:
        super().__init__()
        directions = min(directions, features)
        self.features, self.dimensions = features, min(dimensions, directions)
        self.directions, self.kept = directions, kept
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("rotation", torch.zeros(directions, features))
        self.linear = nn.Linear(directions, self.dimensions)

    @property
    def options(self) -> dict[str, int | float]:
        """Arguments that make a head of this form."""
        return {"features": self.features, "dimensions": self.dimensions, "directions": self.directions,
                "kept": self.kept}  # fmt: skip

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.dimensions + (self.directions if self.kept else 0)

    def start_from(self, values: NDArray[np.floating], classes: NDArray[np.int64]) -> Self:
        """Compute centre and directions of `values` (n, features) with their `classes` (n,).

        Directions are principal ones, scaled to equal variance within the average class; the first separate the
        classes best (R. A. Fisher 1936; C. R. Rao 1948).
        """
        centred = values.astype(np.float32)
        mean = centred.mean(axis=0)
        centred -= mean
        last = self.features - 1
        _, principal = eigh(centred.T @ centred, subset_by_index=(last - self.directions + 1, last))
        projected = centred @ principal
        numbers = np.unique(classes)
        within = np.mean(
            [np.atleast_2d(np.cov(projected[classes == c].T, bias=True)) for c in numbers], axis=0
        )
        smooth = max(SMOOTHING * np.trace(within) / self.directions, TINY)
        variances, axes = np.linalg.eigh(within + smooth * np.eye(self.directions))
        whitening = axes / np.sqrt(variances)
        scatter, separating = np.linalg.eigh(np.cov((projected @ whitening).T, bias=True))
        # A mean squared length of 1, so that one learning rate suits all encoders
        directions = principal @ whitening @ separating[:, ::-1] / np.sqrt(max(scatter.sum(), TINY))
        with torch.no_grad():
            self.mean.copy_(torch.from_numpy(mean))
            self.rotation.copy_(torch.from_numpy(np.ascontiguousarray(directions.T, np.float32)))
            self.linear.weight.copy_(torch.eye(self.dimensions, self.directions))
            self.linear.bias.zero_()
        return self

    def forward(self, values: Tensor) -> Tensor:
        projected = (values - self.mean) @ self.rotation.T
        learnt = functional.normalize(self.linear(projected), dim=1)
        if self.training or not self.kept:
            return learnt
        parts = learnt * (1 - self.kept) ** 0.5, functional.normalize(projected, dim=1) * self.kept**0.5
        return torch.cat(parts, dim=1)


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
    save_model(
        embedder,
        folder / EMBEDDING_WEIGHTS,
        folder / EMBEDDING_CARD,
        {"model": embedder.options, **exported, **facts},
    )


def load_embedder(folder: Path) -> Embedder:
    """Load the embedder in `folder`, in evaluation mode.

    Raises NotFound if there is none, InvalidInput if weights and card do not match.
    """
    card = read_embedding_card(folder)
    return load_weights(folder / EMBEDDING_WEIGHTS, card["sha256"], lambda: Embedder(**card["model"])).eval()
