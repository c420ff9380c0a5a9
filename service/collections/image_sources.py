"""Full-size images of a collection, read from their source files."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, Region, read_images
from cbir.ingest.decoder_tasks import ImageChoice, OtherPicture
from cbir.search import select_frame
from cbir.store import Collection, Record, originals
from service.http.problems import SourceGone
from service.http.timeouts import Deadline
from service.ingest.decoders import Decoders

Result = TypeVar("Result")

NO_FILE = "the file of this image is no longer where it was when it was indexed"
UNREADABLE = "the file of this image can no longer be read as an image"
CHANGED = "the file of this image shows another picture than when it was indexed"


def decode_source(
    decoders: Decoders,
    collection: Collection,
    record: Record,
    function: Callable[[ImageChoice], Result],
    region: Region | None = None,
) -> Result:
    """Decode the image of a record from its source file, in a decoder process.

    Parameters
    ----------
    decoders : Decoders
        Processes to decode in.
    collection : Collection
        Collection of the record.
    record : Record
        Record of the image.
    function : callable
        Task of `cbir.ingest.decoder_tasks`, called with the choice of the image.
    region : tuple of int, optional
        Part of the image: x, y, width, height.

    Raises
    ------
    SourceGone
        If the file is missing, unreadable, or shows another picture than when it was indexed.
    """
    limits, content = decoders.limits, record.content_hash
    file = _source_path(collection, record)
    choice = ImageChoice(file, "the file", limits, record.frame, region, content_hash=content)
    try:
        return decoders.run(partial(function, choice), Deadline().check)
    except OtherPicture as error:
        raise SourceGone(CHANGED) from error
    except UnreadableImage as error:
        raise SourceGone(UNREADABLE) from error


def _source_path(collection: Collection, record: Record) -> Path:
    path = originals.original_path(collection.folder, record.source) or Path(record.source)
    if not path.is_file():
        raise SourceGone(NO_FILE)
    return path


def read_source_image(
    collection: Collection,
    record: Record,
    max_pixels: int,
    deadline: Deadline,
    window: tuple[float, float] | None = None,
) -> Image:
    """Read the image of a record from its source file.

    Parameters
    ----------
    collection : Collection
        Collection of the record.
    record : Record
        Record of the image.
    max_pixels : int
        Largest image that is decoded.
    deadline : Deadline
        Checked after each decoded frame.
    window : (float, float), optional
        Center and width for a grey DICOM frame, else as it was indexed.

    Raises
    ------
    SourceGone
        If the file is missing, unreadable, or shows another picture than when it was indexed.
    """
    path = _source_path(collection, record)
    try:
        frames = deadline.iterate(read_images(path, limits=Limits(pixels=max_pixels), window=window))
        image = select_frame(frames, record.frame, "the file")
    except UnreadableImage as error:
        raise SourceGone(UNREADABLE) from error
    if window is None and image.content_hash != record.content_hash:
        raise SourceGone(CHANGED)
    return image
