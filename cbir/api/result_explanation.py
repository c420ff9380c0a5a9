"""Why an image is a result of a query."""

from typing import Any

from cbir.api.collection_images import CollectionImages
from cbir.api.query_input import read_example, require_id
from cbir.errors import NotFound
from cbir.images import Image, Region, crop
from cbir.ingest.query_file import QueryOptions
from cbir.learn.severity.stored_images import read_stored_image
from cbir.search.regions.explanation import Explanation, explain_parts, explaining_encoder, region_area
from cbir.search.regions.feature_cells import WHOLE, feature_cells
from cbir.search.regions.query_scales import best_match_maps, query_cells


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
    image = read_example(query, opened.limits, part=part) if query_id is None else _stored(opened, query_id)
    area = region_area(region, image.width, image.height) if region else WHOLE
    if encoder is None:
        raw = profile.load_descriptor()(crop(image, region) if region else image)
        return explain_parts(profile, opened.collection.normalisation(), raw, answer_raw)
    queries = query_cells(encoder, encoder.prepare(image), image.width, image.height, area)
    picture = _stored(opened, image_id)
    answer = feature_cells(encoder, encoder.prepare(picture), picture.width, picture.height)
    return Explanation(best_match_maps(queries, answer, area))


def _stored(opened: CollectionImages, image_id: str) -> Image:
    record = opened.collection.record(image_id)
    image = read_stored_image(opened.collection, record, opened.limits.pixels)
    if image is None:
        raise NotFound(f"the file of image {image_id} is gone or has changed, and no thumbnail is stored")
    return image
