"""A network that gives an image one score: the higher, the more it looks like the positives it was trained on."""

import torch
from torch import Tensor, nn

from cbir.errors import InvalidInput
from cbir.models.toprank_cnn import TopRankCnn

BACKBONES = {"toprank": TopRankCnn}


class Ranker(nn.Module):
    """A backbone and a linear head: images (n, 1, side, side), float32 from 0 to 1, to scores (n,) of any range."""

    def __init__(self, backbone: str = "toprank", side: int = 64) -> None:
        super().__init__()
        if backbone not in BACKBONES:
            raise InvalidInput(f"there is no backbone {backbone!r}; there are: {', '.join(BACKBONES)}")
        self.options = {"backbone": backbone, "side": side}
        self.side = side
        self.backbone = BACKBONES[backbone]()
        with torch.no_grad():
            features = self.backbone.eval()(torch.zeros(1, 1, side, side)).shape[1]
        self.backbone.train()
        self.head = nn.Linear(features, 1)

    def features(self, images: Tensor) -> Tensor:
        """(n, k): what the head sees."""
        found: Tensor = self.backbone(images)
        return found

    def forward(self, images: Tensor) -> Tensor:
        """Scores (n,)."""
        found: Tensor = self.head(self.features(images))[:, 0]
        return found
