"""Full-size images of a collection, read from their source files."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from cbir.errors import UnreadableImage
from cbir.images import Limits, Region
from cbir.ingest.decoder_tasks import ImageChoice, OtherPicture
from cbir.ingest.object_store import ObjectStoreFailed, is_object_url, read_url
from cbir.ingest.process_memory import SharedBytes
from cbir.store import Collection, Record
from cbir.store.records import originals
from service.collections.decoders import Decoders
from service.http.problems import SourceGone
from service.http.timeouts import Deadline

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
        If the file is missing, unreadable, or shows another picture than when it was indexed; or the object store
        that has it does not deliver it.
    """
    # Of a series the file shows one slice, and the hash is that of its voxels
    content = None if collection.profile.volume_grid else record.content_hash
    limits = decoders.limits
    file = _source_file(collection, record, limits)
    choice = ImageChoice(file, "the file", limits, record.frame, region, content_hash=content)
    try:
        return decoders.run(partial(function, choice), Deadline().check)
    except OtherPicture as error:
        raise SourceGone(CHANGED) from error
    except UnreadableImage as error:
        raise SourceGone(UNREADABLE) from error


def _source_file(collection: Collection, record: Record, limits: Limits) -> SharedBytes | Path:
    if is_object_url(record.source):
        try:
            return read_url(record.source, limits)
        except ObjectStoreFailed as error:
            raise SourceGone(str(error)) from None
        except UnreadableImage as error:
            raise SourceGone(UNREADABLE) from error
    path = originals.original_path(collection.folder, record.source) or Path(record.source)
    if not path.is_file():
        raise SourceGone(NO_FILE)
    return path
