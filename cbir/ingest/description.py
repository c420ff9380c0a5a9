"""Decode and describe: from the frames of one file to records, vectors and thumbnails."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any

from cbir.descriptors.descriptor import Batched, Descriptor
from cbir.errors import NoPixels, UndescribableImage, UnreadableImage
from cbir.images import Image, Limits
from cbir.images.reading import is_out_of_memory, name_failure
from cbir.images.scaling import make_thumbnail
from cbir.images.volume import Volume
from cbir.ingest.object_store import StoreSilent
from cbir.ingest.process_pool import extend_deadline
from cbir.settings import Settings
from cbir.store.base.profile import Profile
from cbir.store.records.records import Entry, Record, describe_record
from cbir.system.device import Device

if TYPE_CHECKING:  # the database is not needed where images are described
    from cbir.store import Collection

FILE_FRAMES = 10  # frames' worth of time for a file, however many it has


class Refusal(Enum):
    """Reasons why a file has no images."""

    no_pixels = "no pixels"
    unreadable = "unreadable"
    out_of_memory = "out of memory"
    failed = "failed"
    burned_in = "burned-in text"
    store_silent = "the object store does not answer"
    not_here = "not on this machine"  # another one has the file


@dataclass(frozen=True)
class DescribeTask:
    """Settings that a process needs to describe images for one collection.

    profile, secret: of the collection; the secret is the key of the patient hashes. device: of a network.
    memory_bytes: that decoding and describing a file may take. seconds: that a frame may take.
    refuse_burned_in: refuse images that declare burned-in text. check_intake: look for damage and burned-in text.
    study_days: keep the days of studies. prepare_only: the process leaves the vectors to the one that started it, and
    gives the inputs of the network instead.
    """

    profile: Profile
    secret: bytes
    limits: Limits
    device: Device = "auto"
    memory_bytes: int = 512 * 2**20
    seconds: float = 60.0
    refuse_burned_in: bool = False
    check_intake: bool = False
    study_days: bool = True
    prepare_only: bool = False

    @staticmethod
    def of_collection(
        collection: "Collection", settings: Settings, limits: Limits, seconds: float
    ) -> "DescribeTask":
        """Return the task for a collection.

        Parameters
        ----------
        collection : Collection
            Its profile and secret are used.
        settings : Settings
            Device, memory, whether to refuse burned-in text, and whether to keep days of studies.
        limits : Limits
            Largest files and frames.
        seconds : float
            Time that a frame may take.
        """
        refuse = settings.burned_in == "refuse"
        profile, secret = collection.profile, collection.secret
        checks = settings.intake != "accept"
        return DescribeTask(
            profile,
            secret,
            limits,
            settings.device,
            settings.decoder_bytes,
            seconds,
            refuse,
            checks,
            settings.study_days,
        )

    def load_descriptor(self) -> Descriptor:
        """Load the descriptor, with its network if it has one."""
        return self.profile.load_descriptor(self.device)

    def load_compute(self) -> Callable[[Image], Any]:
        """Load what computes the vector of an image, or the input of the network."""
        descriptor = self.load_descriptor()
        return descriptor.prepare if self.prepare_only and isinstance(descriptor, Batched) else descriptor

    def share_gpu(self) -> tuple["DescribeTask", Batched | None]:
        """Return the task of processes, and the descriptor that describes here, on a GPU, what they prepare.

        None if there is no GPU for it: then the processes describe. One process sends larger batches than many do,
        and each would take memory of the GPU. Raises InvalidInput if the device is "cuda" and no GPU can be used.
        """
        descriptor = self.load_descriptor()
        if isinstance(descriptor, Batched) and descriptor.batches_on_gpu():
            return replace(self, prepare_only=True), descriptor
        return replace(self, device="cpu"), None


@dataclass(frozen=True, eq=False)
class DescribedFile:
    """Images of one file, one a frame, or the reason why there are none.

    records: without manifest labels. vectors: (d,) float32 each, raw, or inputs of a network. thumbnails: JPEG, or
    empty. inverted: vectors of their negatives, for the intake check, or empty.
    refused: a message for people, which never repeats what a DICOM header says of a patient.
    """

    records: tuple[Record, ...] = ()
    vectors: tuple[Any, ...] = ()
    thumbnails: tuple[bytes, ...] = ()
    inverted: tuple[Any, ...] = ()
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
    refuse_burned_in: bool = False,
    check_intake: bool = False,
    study_days: bool = True,
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
    refuse_burned_in : bool
        Refuse a file that declares burned-in text.
    check_intake : bool
        Label images that are blank or damaged or have text, and describe the negatives of all images but volumes.
    study_days : bool
        Keep the days of studies.

    Returns
    -------
    DescribedFile
        One record, vector and thumbnail a frame, or a refusal.
    """
    records: list[Record] = []
    vectors: list[Any] = []
    pictures: list[bytes] = []
    inverted: list[Any] = []
    try:
        for image in images:
            if refuse_burned_in and image.dicom is not None and image.dicom.burned_in:
                return refused_file("declares burned-in text (burned_in)", Refusal.burned_in)
            record = describe_record(
                image, source=source, source_stamp=stamp, secret=secret, study_days=study_days
            )
            records.append(_with_pixel_findings(record, image) if check_intake else record)
            vectors.append(compute(image))
            if check_intake and not isinstance(image, Volume):
                inverted.append(compute(replace(image, pixels=255 - image.pixels)))
            if thumbnails:
                pictures.append(make_thumbnail(image))
    except UnreadableImage as error:
        return refuse(error)
    return DescribedFile(tuple(records), tuple(vectors), tuple(pictures), tuple(inverted))


def _with_pixel_findings(record: Record, image: Image) -> Record:
    from cbir.ingest.pixel_checks import (
        check_pixels,
        with_findings,
    )  # here, so that processes that check nothing start without it

    return with_findings(record, check_pixels(image))


def describe_prepared(files: Sequence[DescribedFile], descriptor: Batched) -> list[DescribedFile]:
    """Replace the inputs of a network by vectors; a file with an image at which the network fails is refused."""
    prepared = [value for file in files for value in (*file.vectors, *file.inverted)]
    try:
        vectors = iter(descriptor.describe_batch(prepared))
    except UndescribableImage as error:
        if len(files) == 1:
            return [refuse(error)]
        half = len(files) // 2
        return [
            *describe_prepared(files[:half], descriptor),
            *describe_prepared(files[half:], descriptor),
        ]
    return [
        replace(
            file,
            vectors=tuple(islice(vectors, len(file.vectors))),
            inverted=tuple(islice(vectors, len(file.inverted))),
        )
        for file in files
    ]


def with_deadline(frames: Iterable[Image], seconds: float) -> Iterator[Image]:
    """Yield `frames`; each has `seconds` until its process is killed, and all of them FILE_FRAMES times as long."""
    end = time.monotonic() + FILE_FRAMES * seconds
    extend_deadline(seconds)
    for frame in frames:
        yield frame
        if (left := end - time.monotonic()) > 0:
            extend_deadline(min(seconds, left))


def refuse(error: Exception) -> DescribedFile:
    """Turn what `error` says into a refusal."""
    if isinstance(error, StoreSilent):
        return refused_file(str(error), Refusal.store_silent)
    if isinstance(error, UnreadableImage):
        no_pixels = isinstance(error.__cause__, NoPixels)
        return refused_file(str(error), Refusal.no_pixels if no_pixels else Refusal.unreadable)
    if isinstance(error, OSError):
        return refused_file(name_failure(error), Refusal.failed)
    if is_out_of_memory(error):
        return refused_file("needs more memory than there is", Refusal.out_of_memory)
    return refused_file(f"could not be described ({type(error).__name__}); please report it", Refusal.failed)


def refused_file(reason: str, refusal: Refusal = Refusal.unreadable) -> DescribedFile:
    """Refuse a file for `reason`."""
    return DescribedFile(refusal=refusal, refused=reason)
