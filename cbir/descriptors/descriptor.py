"""Interface of descriptors."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cbir.images import Image


@dataclass(frozen=True)
class Part:
    """A named range of dimensions, [start, stop), that can have a weight of its own.

    half: the values are stored as float16; of encoders, whose other digits are noise.
    """

    name: str
    start: int
    stop: int
    half: bool = False


Parts = tuple[Part, ...]


class Descriptor(Protocol):
    """A function from one image to one vector."""

    name: str
    dimensions: int
    parts: Parts

    def __call__(self, image: Image) -> NDArray[np.float32]:
        """Describe `image`: shape (dimensions,), float32, all finite."""
        ...


@runtime_checkable
class Batched(Descriptor, Protocol):
    """A descriptor that describes many images faster in a batch than one by one."""

    def prepare(self, image: Image) -> Any:
        """Reduce `image` to the input of `describe_batch`, which is far smaller."""
        ...

    def describe_batch(self, inputs: list[Any]) -> NDArray[np.float32]:
        """Describe n prepared images: shape (n, dimensions), float32."""
        ...

    def batches_on_gpu(self) -> bool:
        """Return whether batches of many are described on a GPU: then better in one process than in many."""
        ...
