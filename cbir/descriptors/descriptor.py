"""Interface of descriptors, and a query image from outside, described where it was decoded."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import Image
from cbir.images.image import Windowing


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


@dataclass(frozen=True, eq=False)
class QueryImage:
    """Features and facts of an image to search with, without its pixels: small enough to come from another process.

    features: raw vector (d,) float32, or the input of the network for a descriptor that works in batches, unless
    the image `is_described`.
    content_hash, width, height, format, frame, windowing: as of the `Image`. decode_ms, describe_ms: time that it
    took elsewhere.
    patient_id, study: of the DICOM header; empty where there is none.
    """

    features: Any
    content_hash: str
    width: int
    height: int
    format: str
    frame: int | None = None
    windowing: Windowing | None = None
    decode_ms: float = 0.0
    describe_ms: float = 0.0
    is_described: bool = False
    patient_id: str = field(default="", repr=False)
    study: str = ""

    def vector(self, descriptor: Descriptor) -> NDArray[np.float32]:
        """Return the raw vector (d,); `descriptor` is the one that described the image."""
        if isinstance(descriptor, Batched) and not self.is_described:
            return np.asarray(descriptor.describe_batch([self.features])[0])
        return np.asarray(self.features)

    def described(self, descriptor: Descriptor) -> "QueryImage":
        """Return the image with its vector in place of the input of the network, which may be large."""
        started = time.perf_counter()
        vector = self.vector(descriptor)
        spent = self.describe_ms + (time.perf_counter() - started) * 1000
        return replace(self, features=vector, describe_ms=spent, is_described=True)


def describe_query(image: Image, descriptor: Descriptor) -> QueryImage:
    """Describe `image`; a network itself runs only in `QueryImage.vector`."""
    started = time.perf_counter()
    features = descriptor.prepare(image) if isinstance(descriptor, Batched) else descriptor(image)
    return QueryImage(
        features,
        image.content_hash,
        image.width,
        image.height,
        image.format,
        image.frame,
        image.windowing,
        describe_ms=(time.perf_counter() - started) * 1000,
        patient_id=image.dicom.patient_id if image.dicom else "",
        study=image.dicom.study if image.dicom else "",
    )


def select_frame(frames: Iterable[Image], number: int | None, name: str) -> Image:
    """Return one frame of a query file.

    Parameters
    ----------
    frames : iterable of Image
        Frames of the file; no more of them than needed are decoded.
    number : int or None
        Frame, counted from 1; None for the first.
    name : str
        Name of the file, for messages.

    Raises
    ------
    InvalidInput
        If `number` is below 1.
    UnreadableImage
        If there is no such frame.
    """
    if number is not None and number < 1:
        raise InvalidInput(f"frames are counted from 1; there is no frame {number}")
    for count, image in enumerate(frames, start=1):
        if count == (number or 1):
            return image
    raise UnreadableImage(f"{name} has no frame {number or 1}")
