"""Bayesian ranker on the values of a pretrained encoder, learned from comparisons."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.errors import InvalidInput
from cbir.learn.severity.sampled_ranker import SampledRanker
from cbir.learn.severity.value_network import ValueNetwork, ValueProjection, principal_projection

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
    dropout: float = 0.2
    passes: int = 30
    weight_decay: float = 3e-2
    epochs: int = 10
    steps: int = 300
    rate: float = 3e-3
    batch: int = 32
    projection: ValueProjection | None = None
    seed: int = 0
    device: str = "cpu"

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
