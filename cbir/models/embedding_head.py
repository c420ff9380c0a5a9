"""Head of an embedding on the values of a pretrained encoder: centre, directions and a linear layer, to length 1."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class EmbeddingHead(nn.Module):
    """Map an encoder's values (n, features) to unit vectors (n, dimensions).

    The values are centred and scaled along principal directions, so that one learning rate suits them all, and a
    linear layer follows, which starts as the first `dimensions` of them. `start` computes both.

    Parameters
    ----------
    features : int
        Values of the encoder.
    dimensions : int
        Length of a vector, at most `directions`.
    directions : int
        Principal directions, at most `features`.
    """

    mean: Tensor
    rotation: Tensor

    def __init__(self, features: int, dimensions: int = 128, directions: int = 512) -> None:
        super().__init__()
        self.options = {"features": features, "dimensions": dimensions, "directions": directions}
        self.features, self.dimensions, self.directions = features, dimensions, directions
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("rotation", torch.zeros(directions, features))
        self.linear = nn.Linear(directions, dimensions)

    def forward(self, values: Tensor) -> Tensor:
        return functional.normalize(self.linear((values - self.mean) @ self.rotation.T), dim=1)
