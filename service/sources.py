"""The images of a collection as their files show them, for those who need more than the thumbnail that was kept."""

from pathlib import Path

from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, read
from cbir.search import query_frame
from cbir.store import Collection, Record, originals
from service.patience import Watch
from service.problems import SourceGone


def image_of(collection: Collection, record: Record, max_pixels: int, watch: Watch) -> Image:
    """The image a record is of; raises SourceGone where its file no longer shows it."""
    path = originals.path(collection.folder, record.source) or Path(record.source)
    if not path.is_file():
        raise SourceGone("the file of this image is not where it was when it was indexed")
    try:
        frames = watch.each(read(path, limits=Limits(pixels=max_pixels)))
        image = query_frame(frames, record.frame, "the file")
    except UnreadableImage as error:
        raise SourceGone("the file of this image can no longer be read as an image") from error
    if image.content_hash != record.content_hash:
        raise SourceGone("the file of this image shows another picture than when it was indexed")
    return image
