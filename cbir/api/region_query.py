"""Region of a query of the Python API, to search for anywhere."""

from dataclasses import replace
from typing import Any

from cbir.api.collection_images import CollectionImages
from cbir.api.query_input import read_example, require_id
from cbir.descriptors.query_image import describe_query
from cbir.errors import InvalidInput, NotFound
from cbir.images import Image, Region
from cbir.ingest.query_file import QueryOptions
from cbir.learn.severity.grey_images import read_stored_image
from cbir.search.region_search import RegionQuery
from cbir.search.regions.explanation import region_area
from cbir.search.regions.region_cells import region_encoder
from cbir.search.search_options import list_examples


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
