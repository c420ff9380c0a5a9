"""Queries of the Python API: files, contents of files, arrays and image ids become images to search with."""

import os
from pathlib import Path
from typing import Any

from cbir.descriptors.query_image import select_frame
from cbir.errors import InvalidInput, NotFound
from cbir.images import Image, Limits, Region, crop, decode, from_array
from cbir.images.volume import VolumeGrid
from cbir.ingest.query_file import WHOLE_FILE, QueryOptions, read_query_file
from cbir.ingest.query_volume import decode_query_volume
from cbir.learn.severity.grey_images import read_stored_image
from cbir.search.search_options import image_id_of, is_array
from cbir.store import Collection


def read_example(
    example: Any, limits: Limits, grid: VolumeGrid | None = None, part: QueryOptions = WHOLE_FILE
) -> Image:
    """Return the image of an example from outside of a collection.

    Parameters
    ----------
    example : str, path-like, bytes, Image or array
        File, content of a file, image, or samples as `cbir.images.from_array` takes them: (height, width),
        (height, width, 3) or (height, width, 4); arrays of NumPy, Pillow and torch.
    limits : Limits
        Largest size that is decoded.
    grid : VolumeGrid, optional
        Voxels of the profile's volumes; None where the profile describes images.
    part : QueryOptions
        Part of the image; an array has neither frame nor window.

    Raises
    ------
    InvalidInput
        For another type, and for an option that does not fit.
    UnreadableImage
        For files and arrays that are no image.
    """
    if isinstance(example, str | os.PathLike):
        return read_query_file(Path(example), limits, grid, part)
    part.check_volume(grid)
    if isinstance(example, bytes | bytearray) and grid is not None:
        return decode_query_volume(bytes(example), "the file", limits, grid)
    if grid is not None:
        raise InvalidInput(
            "the collection is of CT series; search with the folder of a series, a file, or an id"
        )
    if isinstance(example, bytes | bytearray):
        image = select_frame(
            decode(bytes(example), limits=limits, window=part.window), part.frame, "the file"
        )
    elif part.frame is not None or part.window is not None:
        raise InvalidInput("frame, window: only of a file; select and scale the values of an array")
    elif isinstance(example, Image):
        image = example
    elif is_array(example):
        image = from_array(example)
    else:
        raise InvalidInput(
            f"a query is a file, the content of one, an array or an image id, not {type(example).__name__}"
        )
    return crop(image, part.region) if part.region else image


def require_id(example: Any, collection: Collection) -> str | None:
    """Return the id that an example stands for, None for another example; raise NotFound for an unknown one."""
    image_id = image_id_of(example)
    if image_id is not None and not collection.records_by_id([image_id]):
        raise NotFound(f"{image_id!r} is neither a file nor the id of an image of {collection.folder}")
    return image_id


def read_region(image_id: str, region: Region, collection: Collection, limits: Limits) -> Image:
    """Return a part of an image of a collection, from its file.

    Parameters
    ----------
    image_id : str
    region : (int, int, int, int)
        x, y, width, height in pixels.
    collection : Collection
    limits : Limits
        Largest size that is decoded.

    Raises
    ------
    InvalidInput
        For a region outside of the image, and in a collection of CT series.
    NotFound
        If the file is gone or shows another image.
    """
    if collection.profile.volume_grid is not None:
        raise InvalidInput("region: is for single images, and the collection is of CT series; leave it out")
    record = collection.record(image_id)
    image = read_stored_image(collection, record, limits.pixels)
    if image is None or (image.width, image.height) != (record.width, record.height):  # of a thumbnail
        raise NotFound(
            f"the file of image {image_id} is gone or has changed, and a part of it cannot be shown"
        )
    return crop(image, region)
