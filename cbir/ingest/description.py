"""Decode and describe: from the frames of one file to records, vectors and thumbnails."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cbir.descriptors.descriptor import Descriptor
from cbir.errors import NoPixels, UnreadableImage
from cbir.hardware import Device
from cbir.images import Image, Limits
from cbir.images.thumbnail import make_thumbnail
from cbir.store.profile import Profile
from cbir.store.records import Entry, Record, describe_record


class Refusal(Enum):
    """Reasons why a file has no images."""

    no_pixels = "no pixels"
    unreadable = "unreadable"
    out_of_memory = "out of memory"
    failed = "failed"


@dataclass(frozen=True)
class DescribeTask:
    """Settings that a process needs to describe images for one collection.

    profile, secret: of the collection; the secret is the key of the patient hashes. device: of a network.
    """

    profile: Profile
    secret: bytes
    limits: Limits
    device: Device = "auto"

    def load_descriptor(self) -> Descriptor:
        """Load the descriptor, with its network if it has one."""
        return self.profile.load_descriptor(self.device)


@dataclass(frozen=True, eq=False)
class DescribedFile:
    """Images of one file, one a frame, or the reason why there are none.

    records: without manifest labels. vectors: (d,) float32 each, raw. thumbnails: JPEG, or empty.
    refused: a message for people, which never repeats what a DICOM header says of a patient.
    """

    records: tuple[Record, ...] = ()
    vectors: tuple[Any, ...] = ()
    thumbnails: tuple[bytes, ...] = ()
    refusal: Refusal | None = None
    refused: str | None = None

    @property
    def entries(self) -> list[Entry]:
        """Records with their vectors, as `Writer.add` takes them."""
        return list(zip(self.records, self.vectors, strict=True))


def describe_images(
    images: Iterable[Image],
    compute: Callable[[Image], Any],
    secret: bytes,
    source: str,
    stamp: str,
    thumbnails: bool = False,
) -> DescribedFile:
    """Describe the frames of one file; one that cannot be decoded is refused.

    Parameters
    ----------
    images : iterable of Image
        Frames, decoded one at a time.
    compute : callable
        Vector of an image, or `Batched.prepare`. Its exceptions pass through.
    secret : bytes
        Key of the patient hashes.
    source : str
        Path or address of the file.
    stamp : str
        Changes when the file does.
    thumbnails : bool
        Also make a thumbnail of every frame.

    Returns
    -------
    DescribedFile
        One record, vector and thumbnail a frame, or a refusal.
    """
    records: list[Record] = []
    vectors: list[Any] = []
    pictures: list[bytes] = []
    try:
        for image in images:
            records.append(describe_record(image, source=source, source_stamp=stamp, secret=secret))
            vectors.append(compute(image))
            if thumbnails:
                pictures.append(make_thumbnail(image))
    except UnreadableImage as error:
        return refuse(error)
    return DescribedFile(tuple(records), tuple(vectors), tuple(pictures))


def refuse(error: Exception) -> DescribedFile:
    """Turn what `error` says into a refusal."""
    if isinstance(error, UnreadableImage):
        no_pixels = isinstance(error.__cause__, NoPixels)
        return refused_file(str(error), Refusal.no_pixels if no_pixels else Refusal.unreadable)
    if isinstance(error, OSError):
        return refused_file(f"cannot be read: {error.strerror or error}", Refusal.failed)
    if isinstance(error, MemoryError):
        return refused_file("needs more memory than there is", Refusal.out_of_memory)
    return refused_file(f"could not be described ({type(error).__name__}); please report it", Refusal.failed)


def refused_file(reason: str, refusal: Refusal = Refusal.unreadable) -> DescribedFile:
    """Refuse a file for `reason`."""
    return DescribedFile(refusal=refusal, refused=reason)
