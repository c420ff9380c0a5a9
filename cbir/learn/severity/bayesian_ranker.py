"""Bayesian ranker of pictures learned from comparisons (Kadota et al., Deep Bayesian active learning-to-rank)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.learn.models.scoring_network import to_network_input
from cbir.learn.severity.bayesian_network import BayesianNetwork
from cbir.learn.severity.sampled_network import SampledNetwork
from cbir.learn.severity.sampled_ranker import SampledRanker
from cbir.learn.training.samplers import augment_images

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
    dropout: float = 0.2
    passes: int = 30
    weight_decay: float = 1e-4
    epochs: int = 20
    steps: int = 1000
    rate: float = 1e-3
    batch: int = 16
    weights: str | None = None
    seed: int = 0
    device: str = "cpu"

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
