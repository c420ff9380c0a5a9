"""Training of a pretrained network further, from the head that its frozen values gave."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from cbir import settings
from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.fit_image import fit_image
from cbir.descriptors.networks.backbones import IMAGENET
from cbir.descriptors.networks.efficientnet_lite_network import (
    LITE_NETWORKS,
    EfficientNetLiteNetwork,
)
from cbir.descriptors.networks.embedder import Embedder, EmbeddingHead
from cbir.errors import InvalidInput
from cbir.images import Limits
from cbir.learn.training.picture_loading import StageCallback, TrainingImages, load_described


@dataclass(frozen=True)
class FineTuning:
    """Options of fine-tuning.

    blocks: last blocks of the network to train; more than it has: all of it. epochs: passes through the images.
    rate: highest learning rate of the head. trunk: factor of the rate for the blocks.
    """

    blocks: int
    epochs: int = 3
    rate: float = 5e-4
    trunk: float = 0.2

    def __post_init__(self) -> None:
        if self.blocks < 1 or self.epochs < 1 or not self.rate > 0 or not 0 < self.trunk <= 1:
            raise InvalidInput("fine-tuning needs at least one block and one epoch, and rates above 0")

    def recipe(self, head: Any) -> Any:
        """Return the recipe of `head`, an EmbeddingRecipe, with these options."""
        return replace(head, epochs=self.epochs, patience=self.epochs, rate=self.rate, trunk=self.trunk)


def check_trainable(encoder: str) -> None:
    """Raise InvalidInput unless there is a torch form of the encoder."""
    if encoder not in LITE_NETWORKS:
        raise InvalidInput(
            f"the encoder {encoder} can be used frozen only: its ONNX form cannot be trained. Use it with "
            f"`cbir train embedding` without --fine-tune, or choose one of {', '.join(LITE_NETWORKS)}"
        )


def build_trainable(encoder: Encoder, head: nn.Module, blocks: int) -> Embedder:
    """Join a built-in encoder and a head that was trained on its values, for colour images of the encoder's size.

    Parameters
    ----------
    encoder : Encoder
        A built-in encoder.
    head : EmbeddingHead
        The head; copied.
    blocks : int
        Last blocks to train; the others are frozen. So are the statistics of all batch norms: batches of a few
        classes would distort them.
    """
    assert isinstance(head, EmbeddingHead)
    shape = encoder.image_input
    embedder = Embedder(
        encoder.name, side=shape.width, weights=IMAGENET, head=head.options, channels=len(shape.mean)
    )
    projection, network = embedder.backbone.projection, embedder.backbone.network
    assert isinstance(projection, EmbeddingHead)
    assert isinstance(network, EfficientNetLiteNetwork)
    projection.load_state_dict(head.state_dict())
    network.freeze(blocks)
    return embedder


def load_trainable_pictures(
    images: TrainingImages[Any], encoder: Encoder, show: StageCallback
) -> NDArray[np.uint8]:
    """Load images again, as the encoder takes them: (n, side, side, 3).

    Raises InvalidInput if one has become unreadable.
    """
    shape, paths = encoder.image_input, [example.path for example in images.examples]
    pixels = np.zeros((len(paths), shape.height, shape.width, len(shape.mean)), np.uint8)
    limits = Limits.from_settings(settings.load())
    loaded = load_described(paths, lambda image: fit_image(image, shape), pixels, limits,
                            lambda done: show("reading again", done, len(paths), ""))  # fmt: skip
    if loaded.refused:
        raise InvalidInput(f"an image has become unreadable: {loaded.refused[0]}")
    return pixels


def trained_encoder(encoder: Encoder) -> dict[str, Any]:
    """Return the card's facts about the encoder that was trained further: its card, and its input from 0 to 1."""
    shape = encoder.image_input
    zeros, ones = (0.0,) * len(shape.mean), (1.0,) * len(shape.mean)
    plain = shape.model_copy(update={"mean": zeros, "deviation": ones})
    return {"encoder": encoder.card.model_dump(mode="json"), "input": plain.model_dump(mode="json")}


def parameter_groups(network: nn.Module, trunk: float) -> list[dict[str, Any]]:
    """Return the parameters to train: those of an embedder's network at `trunk` times the rate of the others."""
    first = (
        {id(value) for value in network.backbone.network.parameters()}
        if isinstance(network, Embedder)
        else set()
    )
    trained = [value for value in network.parameters() if value.requires_grad]
    groups: list[dict[str, Any]] = [{"params": [value for value in trained if id(value) not in first]}]
    if slower := [value for value in trained if id(value) in first]:
        groups.append({"params": slower, "rate_factor": trunk})
    return groups
