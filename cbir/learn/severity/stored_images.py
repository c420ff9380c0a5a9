"""Images of a collection as what a ranker learns from: grey pictures, or values of an encoder."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cbir import settings
from cbir.descriptors import encoders
from cbir.descriptors.encoders.feature_cache import FeatureCache
from cbir.descriptors.network_descriptors import encoder_descriptor_name, encoder_of
from cbir.errors import CbirError, InvalidInput
from cbir.images import Image, Limits, decode
from cbir.images.scaling import pad_resize
from cbir.ingest.object_store import read_images_at
from cbir.search import select_frame
from cbir.store import Collection, Record
from cbir.store.records import originals
from cbir.store.records.filter_conditions import Condition
from cbir.system.threads import cores

PAGE = 2000  # records read at a time

Show = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class StoredImages:
    """Images with their records, and the ids of images that could not be read.

    inputs: pictures (n, side, side) uint8 or values (n, d) float32.
    """

    inputs: NDArray[Any]
    records: list[Record]
    missing: list[str]


def matching_records(
    collection: Collection,
    where: Sequence[Condition],
    keep: Callable[[Record], bool] = lambda record: True,
) -> list[tuple[int, Record]]:
    """Return number and record of the images that meet the conditions `where` and that `keep` accepts."""
    matching: list[tuple[int, Record]] = []
    after = 0
    while page := collection.page(after, PAGE, where):
        matching += [(number, record) for number, record in page if keep(record)]
        after = page[-1][0]
    return matching


def read_images_of(
    records: Sequence[Record],
    read: Callable[[Record], NDArray[Any] | None],
    shape: tuple[int, ...],
    dtype: DTypeLike,
    show: Show,
) -> StoredImages:
    """Read images on all cores.

    Parameters
    ----------
    records : sequence of Record
        Images to read.
    read : callable
        Returns the input of one image, of this shape; None without file and thumbnail.
    shape : tuple of int
        Of one input.
    dtype : dtype
        Of the inputs.
    show : callable
        Progress callback with done and total.

    Raises
    ------
    InvalidInput
        If there are records but no image can be read.
    """
    inputs = np.zeros((len(records), *shape), dtype)
    readable = np.zeros(len(records), bool)
    with ThreadPoolExecutor(cores()) as executor:
        for row, values in enumerate(executor.map(read, records)):
            show(row + 1, len(records))
            if values is not None:
                inputs[row], readable[row] = values, True
    if records and not readable.any():
        raise InvalidInput(
            f"none of {len(records)} images has a picture: their files were moved or deleted, and there are no "
            "thumbnails; restore the files, or index them at their new path"
        )
    missing = [record.image_id for record in compress(records, ~readable)]
    return StoredImages(inputs[readable], list(compress(records, readable)), missing)


Picture = NDArray[np.uint8]


def read_grey_image(collection: Collection, record: Record, side: int, pixels: int) -> Picture | None:
    """Read a picture from the file of an image, or else from its thumbnail.

    Parameters
    ----------
    collection : Collection
    record : Record
    side : int
        Side length of the picture in pixels.
    pixels : int
        Maximum number of pixels in a file.

    Returns
    -------
    (side, side) uint8 or None
        None without file and thumbnail; a file whose content has changed does not count.
    """
    image = read_stored_image(collection, record, pixels)
    return None if image is None else pad_resize(image, side)


def read_stored_image(collection: Collection, record: Record, pixels: int) -> Image | None:
    """Read an image of `collection` from its file of at most so many `pixels`, or else from its thumbnail.

    Returns None without file and thumbnail; a file whose content has changed does not count.
    """
    image = _from_file(collection, record, pixels)
    if image is None and (thumbnail := collection.thumbnail(record.image_id)):
        image = next(iter(decode(thumbnail)))
    return image


def read_grey_images(
    collection: Collection,
    side: int,
    where: Sequence[Condition] = (),
    keep: Callable[[Record], bool] = lambda record: True,
    show: Show = lambda done, total: None,
) -> StoredImages:
    """Read the pictures of matching images, in parallel.

    Parameters
    ----------
    collection : Collection
    side : int
        Side length of the pictures in pixels.
    where : sequence of Condition
        Conditions on the images.
    keep : callable
        Further condition on the record.
    show : callable
        Progress callback with done and total.

    Returns
    -------
    StoredImages
        Pictures (n, side, side) uint8.

    Raises
    ------
    InvalidInput
        If there are images but none has a picture.
    """
    max_pixels = settings.load().max_pixels
    records = [record for _, record in matching_records(collection, where, keep)]
    return read_images_of(
        records,
        lambda record: read_grey_image(collection, record, side, max_pixels),
        (side, side),
        np.uint8,
        show,
    )


def _from_file(collection: Collection, record: Record, pixels: int) -> Image | None:
    source = str(originals.original_path(collection.folder, record.source) or record.source)
    try:
        image = select_frame(read_images_at(source, Limits(pixels=pixels)), record.frame, "the file")
    except CbirError:
        return None
    return image if image.content_hash == record.content_hash else None


def read_values(
    collection: Collection,
    encoder: str,
    where: Sequence[Condition] = (),
    keep: Callable[[Record], bool] = lambda record: True,
    show: Show = lambda done, total: None,
) -> StoredImages:
    """Read or compute the values of matching images.

    Parameters
    ----------
    collection : Collection
    encoder : str
        Name of an encoder. If the vectors of the collection are its values, they are used; else the files are
        described, in parallel, each image once (setting `feature_folder`).
    where : sequence of Condition
        Conditions on the images.
    keep : callable
        Further condition on the record.
    show : callable
        Progress callback with done and total.

    Returns
    -------
    StoredImages
        Values (n, d) float32.

    Raises
    ------
    InvalidInput
        If there is no such encoder, or there are images but none can be described.
    """
    numbered = matching_records(collection, where, keep)
    records = [record for _, record in numbered]
    if collection.profile.descriptor == encoder_descriptor_name(encoder):
        vectors = collection.raw_vectors(np.array([number for number, _ in numbered], np.int64))
        show(len(records), len(records))
        return StoredImages(vectors, records, [])
    return _describe_files(collection, encoder, records, show)


def _describe_files(collection: Collection, encoder: str, records: list[Record], show: Show) -> StoredImages:
    loaded, described = settings.load(), encoders.get(encoder)
    with FeatureCache(described, loaded.feature_folder) as cache:

        def describe(record: Record) -> NDArray[np.float16] | None:
            image = read_stored_image(collection, record, loaded.max_pixels)
            return None if image is None else cache.describe(image)

        return read_images_of(records, describe, (described.dimensions,), np.float32, show)


DEFAULT = "lite0-whole"  # for collections of a descriptor
NO_ENCODER = "none"
OF_PICTURES = ("backbone", "side", "weights")


def default_encoder(collection: Collection) -> str:
    """Return the encoder of a collection, so that nothing needs to be described again, or `lite0-whole`."""
    encoder = encoder_of(collection.profile.descriptor)
    return encoder.name if encoder is not None else DEFAULT


def choose_encoder(collection: Collection, encoder: str | None, options: dict[str, Any]) -> str | None:
    """Return the encoder to learn from, None for pictures.

    Parameters
    ----------
    collection : Collection
    encoder : str, optional
        Its name, or "none". By default the collection's own or `lite0-whole`, unless an option of pictures is given.
    options : dict
        Options of the ranker; None where not given.

    Raises
    ------
    InvalidInput
        If there is no such encoder, or the options are those of pictures.
    """
    of_pictures = [name for name in OF_PICTURES if options.get(name) is not None]
    if encoder == NO_ENCODER or (encoder is None and of_pictures):
        return None
    if of_pictures:
        raise InvalidInput(
            f"--{of_pictures[0]} is for a network that learns from pictures; give --encoder {NO_ENCODER} with it"
        )
    name = encoder or default_encoder(collection)
    encoder_descriptor_name(name)
    return name
