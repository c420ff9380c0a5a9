"""Six features of the lens in slit-lamp images, a descriptor named after the hash of its shape model."""

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.descriptor import Part, Parts
from cbir.descriptors.lens_files import read_lens_card
from cbir.errors import InvalidInput
from cbir.images import Image

if TYPE_CHECKING:
    from cbir.descriptors.slit_lamp import LensFinder

SLIT_LAMP = re.compile(r"slit-lamp:([0-9a-f]{16})")


def slit_lamp_name(folder: Path) -> str:
    """Return the name of the descriptor whose model is in `folder`; raises as `read_lens_card` does."""
    return f"slit-lamp:{read_lens_card(folder)['sha256'][:16]}"


class SlitLampDescriptor:
    """Mean intensity, colour of the posterior reflex, and sulcus and lentils of a lens: (6,) float32.

    The model is read with the first image; InvalidInput is raised then if it is not the one that the name gives.
    Huang et al. 2010, IV.A.
    """

    dimensions = 6
    parts: Parts = (Part("mean_intensity", 0, 1), Part("reflex", 1, 4), Part("axis_profile", 4, 6))

    def __init__(self, name: str, model: Path | None = None) -> None:
        """Set up the descriptor `name`, from `slit_lamp_name`, whose model is in the folder `model`."""
        self.name = name
        self._model = model

    def __call__(self, image: Image) -> NDArray[np.float32]:
        """Describe `image`; raises UnreadableImage if it is grey, or no lens is found."""
        if self._model is None:
            raise InvalidInput(f"the model of {self.name} is not available; name its folder as the profile")
        return _load_finder(self.name, self._model).measure(image).astype(np.float32)


@lru_cache(maxsize=2)
def _load_finder(name: str, folder: Path) -> "LensFinder":
    from cbir.descriptors.slit_lamp import load_lens_finder  # scipy loads slowly

    if slit_lamp_name(folder) != name:
        raise InvalidInput(f"{folder} now holds another model than {name}")
    return load_lens_finder(folder)
