"""Queries of the Python API: images and regions to search with, their vectors, and why an image is a result."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir import descriptors, settings
from cbir.api.collection_images import CollectionImages
from cbir.descriptors.descriptor import describe_query, select_frame
from cbir.descriptors.network_descriptors import volume_grid
from cbir.errors import InvalidInput, NotFound
from cbir.images import Image, Limits, Region, crop, decode, from_array
from cbir.images.image import Window
from cbir.images.volume import VolumeGrid
from cbir.ingest.query_file import WHOLE_FILE, QueryOptions, decode_query_volume, read_query_file
from cbir.learn.severity.stored_images import read_stored_image
from cbir.search.explanation import Explanation, explain_parts, explaining_encoder, region_area
from cbir.search.feature_cells import WHOLE, best_match_maps, feature_cells, query_cells
from cbir.search.region_cells import RegionQuery, region_encoder
from cbir.search.search_options import image_id_of, is_array, list_examples
from cbir.store import Collection
from cbir.store.writing.default_profile import DEFAULT_PROFILE


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


def read_region_query(
    opened: CollectionImages, query: Any, region: Region | None, part: QueryOptions
) -> RegionQuery:
    """Return a region of one query image, with the whole image.

    Parameters
    ----------
    opened : CollectionImages
    query : str, path-like, bytes, array or Image
        File, samples or image id.
    region : (int, int, int, int) or None
        x, y, width, height in pixels.
    part : QueryOptions
        Frame and window of a file.

    Raises
    ------
    InvalidInput
        Without a region, for several images, and for a profile whose regions cannot be searched for.
    NotFound
        For an unknown image, and one without file and thumbnail.
    """
    region_encoder(opened.profile)
    examples = list_examples(query)
    if region is None or len(examples) != 1:
        raise InvalidInput("anywhere: needs one query image and region, the part of it to search for")
    image_id = require_id(examples[0], opened.collection)
    if image_id is None:
        image = read_example(examples[0], opened.limits, part=part)
    elif part.names():
        raise InvalidInput("frame, window: only of a file; an image of the collection has its own")
    else:
        image = _stored_image(opened, image_id)
    described = describe_query(image, opened.profile.load_descriptor(opened.settings.device))
    if image_id is not None:  # a thumbnail has other pixels, and another size
        record = opened.collection.record(image_id)
        described = replace(
            described, content_hash=record.content_hash, width=record.width, height=record.height
        )
    return RegionQuery(described, region_area(region, described.width, described.height))


def _stored_image(opened: CollectionImages, image_id: str) -> Image:
    record = opened.collection.record(image_id)
    image = read_stored_image(opened.collection, record, opened.limits.pixels)
    if image is None:
        raise NotFound(f"the file of image {image_id} is gone or has changed, and no thumbnail is stored")
    return image


def describe(
    image: Any,
    profile: str | os.PathLike[str] = DEFAULT_PROFILE,
    *,
    frame: int | None = None,
    region: Region | None = None,
    window: Window | None = None,
) -> NDArray[np.float32]:
    """Return the vector of an image; `db.describe` uses the profile of a collection.

    Parameters
    ----------
    image : str, path-like, bytes, array or Image
        File, content of a file, or samples; with an encoder of CT series the folder of a series, or a file.
    profile : str or path-like
        Descriptor, encoder, folder of a trained embedding, or NETWORK+DESCRIPTOR, as of `cbir index --profile`.
    frame : int, optional
        Frame of a file, from 1.
    region : (int, int, int, int), optional
        Part of the image: x, y, width, height in pixels.
    window : (float, float), optional
        Center and width for a grey DICOM file.

    Returns
    -------
    (d,) float32
        Raw values, before any normalisation of a collection.

    Raises
    ------
    InvalidInput
        For an unknown profile, and options that do not fit the image.
    UnreadableImage
        For a file or array that is no image.
    """
    in_force = settings.load()
    name, _, model = descriptors.resolve_descriptor(os.fspath(profile))
    limits, grid = Limits.from_settings(in_force), volume_grid(name)
    decoded = read_example(image, limits, grid, QueryOptions(frame, region, window))
    return np.asarray(descriptors.get(name, model, in_force.device)(decoded), np.float32)


def explain_result(
    opened: CollectionImages, query: Any, image_id: str, part: QueryOptions, region: Region | None
) -> Explanation:
    """Explain why an image of an open collection is similar to a query.

    Parameters
    ----------
    opened : CollectionImages
    query : str, path-like, bytes, array or Image
        File, samples or image id.
    image_id : str
        Id of the result.
    part : QueryOptions
        Frame and window of a file.
    region : (int, int, int, int), optional
        Part of the query to explain: x, y, width, height in pixels.

    Raises
    ------
    InvalidInput
        If the collection's profile has no explanation.
    NotFound
        For an unknown image, and one without file and thumbnail.
    """
    profile = opened.collection.profile
    encoder = explaining_encoder(profile)
    answer_raw = opened.collection.vector(image_id)
    query_id = require_id(query, opened.collection)
    if encoder is None and query_id is not None and region is None:
        raw = opened.collection.vector(query_id)
        return explain_parts(profile, opened.collection.normalisation(), raw, answer_raw)
    image = (
        read_example(query, opened.limits, part=part) if query_id is None else _stored_image(opened, query_id)
    )
    area = region_area(region, image.width, image.height) if region else WHOLE
    if encoder is None:
        raw = profile.load_descriptor()(crop(image, region) if region else image)
        return explain_parts(profile, opened.collection.normalisation(), raw, answer_raw)
    queries = query_cells(encoder, encoder.prepare(image), image.width, image.height, area)
    picture = _stored_image(opened, image_id)
    answer = feature_cells(encoder, encoder.prepare(picture), picture.width, picture.height)
    return Explanation(best_match_maps(queries, answer, area))
