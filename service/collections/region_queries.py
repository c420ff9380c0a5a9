"""Regions of images of requests, to search for anywhere in the images of a collection."""

from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.images import decode
from cbir.search.region_search import RegionQuery
from cbir.search.regions.explanation import region_area
from cbir.search.regions.region_cells import region_encoder
from cbir.store import Collection
from service.collections.app_state import AppState
from service.collections.thumbnail_response import load_thumbnail
from service.collections.uploads import describe_upload
from service.http.search_parameters import ByImage, SearchBody

NEEDS_REGION = "anywhere: needs one image and region, the part of it to search for"


def region_of_id(state: AppState, collection: Collection, params: SearchBody) -> RegionQuery:
    """Return the region of an image of the collection that a request names; raises SourceGone without its file."""
    if not (params.image_id and params.region) or params.vector is not None or params.text is not None:
        raise InvalidInput(NEEDS_REGION)
    encoder = region_encoder(collection.profile)
    record = collection.record(params.image_id)
    area = region_area(params.region, record.width, record.height)
    picture = next(iter(decode(load_thumbnail(state, collection, record))))
    image = QueryImage(
        encoder.prepare(picture),
        record.content_hash,
        record.width,
        record.height,
        record.format,
        record.frame,
    )
    return RegionQuery(image, area)


def region_of_upload(
    state: AppState, collection: Collection, files: list[bytes], params: ByImage
) -> RegionQuery:
    """Return the region of an uploaded image, with the whole image."""
    if params.region is None or len(files) != 1:
        raise InvalidInput(NEEDS_REGION)
    region_encoder(collection.profile)
    whole = params.model_copy(update={"region": None})
    image = describe_upload(state.decoders, collection, files[0], whole)
    return RegionQuery(image, region_area(params.region, image.width, image.height))
