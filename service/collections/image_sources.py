"""Full-size images of a collection, read from their source files."""

from pathlib import Path

from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, read_images
from cbir.search import select_frame
from cbir.store import Collection, Record, originals
from service.http.problems import SourceGone
from service.http.timeouts import Deadline


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
    path = originals.original_path(collection.folder, record.source) or Path(record.source)
    if not path.is_file():
        raise SourceGone("the file of this image is no longer where it was when it was indexed")
    try:
        frames = deadline.iterate(read_images(path, limits=Limits(pixels=max_pixels), window=window))
        image = select_frame(frames, record.frame, "the file")
    except UnreadableImage as error:
        raise SourceGone("the file of this image can no longer be read as an image") from error
    if window is None and image.content_hash != record.content_hash:
        raise SourceGone("the file of this image shows another picture than when it was indexed")
    return image
