"""Rankers of severity from pictures and from an encoder's values: made, loaded, given their inputs."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.descriptors.network_descriptors import encoder_descriptor_name, encoder_of
from cbir.descriptors.networks.model_card import read_model_card
from cbir.descriptors.networks.model_files import load_weights
from cbir.errors import InvalidInput
from cbir.learn.models.scoring_network import to_network_input
from cbir.learn.severity.sampled_ranker import CARD, WEIGHTS, SampledRanker
from cbir.learn.severity.severity_networks import (
    BayesianNetwork,
    SampledNetwork,
    ValueNetwork,
    ValueProjection,
    principal_projection,
)
from cbir.learn.severity.stored_images import OF_PICTURES, Show, StoredImages, read_grey_images, read_values
from cbir.learn.training.samplers import augment_images
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import Condition

Pictures = NDArray[np.uint8]


@dataclass(eq=False)
class BayesianRanker(SampledRanker):
    """Learns severity from pictures (n, h, w) uint8; all layers of its network are trained.

    Parameters
    ----------
    backbone : str
        One of `cbir.descriptors.networks.backbones.names()`.
    side : int
        Side length in pixels that images are scaled to.
    weights : str, optional
        File, or folder of a trained embedding, with the initial weights of the backbone.
    dropout, passes, weight_decay, epochs, steps, rate, batch, seed, device
        As of `SampledRanker`.
    """

    backbone: str = "small"
    side: int = 64
    weights: str | None = None

    sampled_batch: ClassVar[int] = 120

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 32 <= self.side <= 1024:
            raise InvalidInput(f"side must be from 32 to 1024 pixels, not {self.side}")

    def prepare(self, images: NDArray[Any]) -> Pictures:
        return _resize_all(images, self.side)

    def build_network(self, inputs: NDArray[Any]) -> BayesianNetwork:
        return BayesianNetwork(self.backbone, self.dropout, self.weights)

    def to_device(self, network: SampledNetwork) -> SampledNetwork:
        return network.to(self.device).to(memory_format=torch.channels_last)

    def batch_tensor(self, inputs: NDArray[Any]) -> Tensor:
        return _input(inputs, self.device)

    def training_batch(self, inputs: NDArray[Any], generator: torch.Generator) -> Tensor:
        augmented = augment_images(_input(inputs, "cpu"), generator).to(self.device)
        return augmented.contiguous(memory_format=torch.channels_last)


def _resize_all(images: Pictures, side: int) -> Pictures:
    """Scale `images` to (n, side, side) uint8; raise InvalidInput for other types or shapes."""
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.ndim != 3:
        raise InvalidInput(
            f"images must be uint8 of shape (images, height, width), not {images.dtype} {images.shape}"
        )
    if images.shape[1:] == (side, side) or not len(images):
        return images
    interpolation = cv2.INTER_AREA if min(images.shape[1:]) > side else cv2.INTER_LINEAR
    resized = [cv2.resize(image, (side, side), interpolation=interpolation) for image in images]
    return np.stack(resized).astype(np.uint8, copy=False)


def _input(pictures: Pictures, device: str) -> Tensor:
    """Return (n, 1, side, side) float32 from 0 to 1, channels last."""
    images = to_network_input(np.ascontiguousarray(pictures), device)
    return images.contiguous(memory_format=torch.channels_last)


Values = NDArray[np.float32]


@dataclass(eq=False)
class ValueRanker(SampledRanker):
    """Learns severity from values (n, d) of a descriptor or encoder, which is not trained itself.

    The few weights of its network are trained in about a second. Its weight decay is larger than that of Kadota et
    al., whose network has many layers: with 1e-4 it learns single pairs by heart.

    Parameters
    ----------
    descriptor : str
        Name of the descriptor that the values are of; "" if unknown.
    directions : int
        Principal directions of the values that the network takes.
    hidden : int
        Units between its two layers.
    projection : ValueProjection, optional
        Projection to the directions, fitted before, so that rankers of the same images share it.
    dropout, passes, weight_decay, epochs, steps, rate, batch, seed, device
        As of `SampledRanker`.
    """

    descriptor: str = ""
    directions: int = 256
    hidden: int = 64
    projection: ValueProjection | None = None
    _: KW_ONLY
    weight_decay: float = 3e-2
    epochs: int = 10
    steps: int = 300
    rate: float = 3e-3
    batch: int = 32

    sampled_batch: ClassVar[int] = 8192

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.directions < 1 or self.hidden < 1:
            raise InvalidInput("directions and hidden must be 1 or more")

    def prepare(self, images: NDArray[Any]) -> Values:
        values = np.asarray(images)
        if values.ndim != 2 or values.dtype.kind != "f":
            raise InvalidInput(
                f"values must be floats of shape (images, values), not {values.dtype} {values.shape}"
            )
        network = getattr(self, "network_", None)
        if isinstance(network, ValueNetwork) and values.shape[1] != network.values:
            raise InvalidInput(
                f"the ranker takes {network.values} values per image, not {values.shape[1]}; use the "
                "descriptor that it was trained with"
            )
        if not np.isfinite(values).all():
            raise InvalidInput("values must be finite numbers; at least one is not")
        return values.astype(np.float32, copy=False)

    def build_network(self, inputs: NDArray[Any]) -> ValueNetwork:
        network = ValueNetwork(inputs.shape[1], self.directions, self.hidden, self.dropout)
        self.projection_ = self.projection or principal_projection(inputs, self.directions)
        network.set_projection(self.projection_)
        return network

    def copies(self, images: NDArray[Any]) -> Callable[[int], Self]:
        projection = principal_projection(self.prepare(images), self.directions)
        return lambda number: replace(self, projection=projection)

    def fixed_part(self, inputs: NDArray[Any]) -> NDArray[Any]:
        return self.projection_(inputs)

    def encoder_features(self, images: NDArray[Any]) -> Values:
        with torch.inference_mode():
            projected: Tensor = self.network_.layers[0](self.batch_tensor(self.prepare(images)))
        return projected.cpu().numpy()

    def network_facts(self) -> dict[str, Any]:
        return {"values": self.network_.values}

    def batch_tensor(self, inputs: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(inputs)).to(self.device)


def new_ranker(encoder: str | None, options: dict[str, Any]) -> SampledRanker:
    """Return a ranker of the values of `encoder`, or of pictures without one; `options` that are None are defaults.

    Raises InvalidInput if there is no such encoder or an option is out of range.
    """
    options_set = {name: value for name, value in options.items() if value is not None}
    if encoder is None:
        return BayesianRanker(**options_set)
    of_values = {name: value for name, value in options_set.items() if name not in OF_PICTURES}
    return ValueRanker(descriptor=encoder_descriptor_name(encoder), **of_values)


def load_severity_ranker(folder: Path) -> SampledRanker:
    """Load the ranker in `folder`, ready for use on the CPU.

    Raises NotFound if there is none, InvalidInput if weights and card do not match.
    """
    command = "`cbir annotate simulate --write`"
    card = read_model_card(folder / CARD, "a ranker", command, _is_severity_card)
    settings = card["ranker"]
    kind = ValueRanker if "descriptor" in settings else BayesianRanker

    def build() -> SampledNetwork:
        ranker = kind(**settings)
        if isinstance(ranker, ValueRanker):
            return ValueNetwork(int(card["values"]), ranker.directions, ranker.hidden, ranker.dropout)
        return BayesianNetwork(ranker.backbone, ranker.dropout)

    network = load_weights(folder / WEIGHTS, card["sha256"], build)
    ranker: SampledRanker = kind(**settings)
    ranker.network_ = ranker.to_device(network).eval()
    ranker.calibrated_ = card["calibrated"]
    return ranker


def _is_severity_card(card: Any) -> bool:
    kinds = {"ranker": dict, "sha256": str, "calibrated": bool}
    return all(isinstance(card[name], kind) for name, kind in kinds.items())


def read_ranker_inputs(
    collection: Collection,
    ranker: SampledRanker,
    where: Sequence[Condition] = (),
    keep: Callable[[Record], bool] = lambda record: True,
    show: Show = lambda done, total: None,
) -> StoredImages:
    """Read what a ranker needs of matching images.

    Parameters
    ----------
    collection : Collection
    ranker : SampledRanker
        Pictures of its side, or values of its encoder.
    where : sequence of Condition
        Conditions on the images.
    keep : callable
        Further condition on the record.
    show : callable
        Progress callback with done and total.

    Returns
    -------
    StoredImages

    Raises
    ------
    InvalidInput
        If there are images but none can be read.
    """
    if isinstance(ranker, ValueRanker):
        encoder = encoder_of(ranker.descriptor)
        if encoder is None:
            raise InvalidInput(f"the ranker learned from {ranker.descriptor!r}, which is not an encoder")
        return read_values(collection, encoder.name, where, keep, show)
    assert isinstance(ranker, BayesianRanker)
    return read_grey_images(collection, ranker.side, where, keep, show)
