"""What every descriptor is."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cbir.images import Image


@dataclass(frozen=True)
class Part:
    """A named range of dimensions, [start, stop), that may be weighted on its own."""

    name: str
    start: int
    stop: int


class Descriptor(Protocol):
    """A function from one image to one vector."""

    name: str
    dimensions: int
    parts: tuple[Part, ...]

    def __call__(self, image: Image) -> NDArray[np.float32]:
        """The descriptor of `image`: shape (dimensions,), float32, all finite."""
        ...


@runtime_checkable
class Batched(Descriptor, Protocol):
    """A descriptor that describes many images faster together than one by one."""

    def prepared(self, image: Image) -> Any:
        """What it needs of an image, far smaller than the image."""
        ...

    def all_of(self, prepared: list[Any]) -> NDArray[np.float32]:
        """The descriptors (n, dimensions), float32, of n prepared images."""
        ...
