"""A network that gives an image one score: the higher, the more it looks like the positives it was trained on."""

from torch import Tensor, nn

from cbir.models import backbones


class ScoringNetwork(nn.Module):
    """A backbone and a linear head: images (n, 1, side, side), float32 from 0 to 1, to scores (n,) of any range.

    backbone: one of `cbir.models.backbones.names()`; weights: a file, or an embedding's folder, it starts from.
    Raises InvalidInput and NotFound as `backbones.build` does.
    """

    def __init__(self, backbone: str = "toprank", side: int = 64, weights: str | None = None) -> None:
        super().__init__()
        self.options = {"backbone": backbone, "side": side}
        self.side = side
        self.backbone = backbones.build_backbone(backbone, dimensions=None, weights=weights)
        self.head = nn.Linear(self.backbone.features, 1)

    def features(self, images: Tensor) -> Tensor:
        """(n, k): what the head sees."""
        found: Tensor = self.backbone(images)
        return found

    def forward(self, images: Tensor) -> Tensor:
        """Scores (n,)."""
        found: Tensor = self.head(self.features(images))[:, 0]
        return found
