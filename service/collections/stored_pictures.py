"""Pictures of stored images: thumbnails, stored or rendered, and regions to search for anywhere."""

from flask import Response

from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.images import decode
from cbir.images.scaling import SIDE
from cbir.ingest.decoder_tasks import render_thumbnail
from cbir.search.explanation import region_area
from cbir.search.region_cells import RegionQuery, region_encoder
from cbir.store import Collection, Record
from service.collections.app_state import AppState
from service.collections.image_sources import decode_source
from service.collections.uploads import describe_upload
from service.http.problems import SourceGone
from service.http.responses import picture_response
from service.http.search_parameters import ByImage, SearchBody

NEEDS_REGION = "anywhere: needs one image and region, the part of it to search for"


def thumbnail_response(state: AppState, collection: Collection, image_id: str) -> Response:
    """Answer with the thumbnail of an image, or 304 if the client has it.

    Parameters
    ----------
    state : AppState
        Its cache of thumbnails is used and filled.
    collection : Collection
        Collection of the image.
    image_id : str
        Id of the image.

    Raises
    ------
    NotFound
        If the collection has no such image.
    SourceGone
        If no thumbnail is stored and its source is not available.
    """
    record = collection.record(image_id)

    def render(response: Response) -> None:
        response.mimetype = "image/jpeg"
        picture = _stored(state, collection, record)
        if picture is None:
            with state.concurrency.admit():
                picture = load_thumbnail(state, collection, record)
        response.set_data(picture)

    return picture_response(f"{record.content_hash}-{SIDE}", render)


def load_thumbnail(state: AppState, collection: Collection, record: Record) -> bytes:
    """Return the JPEG of an image, rendered if none is stored, for an admitted request; raises SourceGone.

    Parameters
    ----------
    state : AppState
        Its cache of thumbnails is used and filled.
    collection : Collection
        Collection of the image.
    record : Record
        Record of the image.
    """
    picture = _stored(state, collection, record)
    if picture is None:
        picture = _render(state, collection, record)
        state.thumbnails.put(record.content_hash, picture)
    return picture


def _stored(state: AppState, collection: Collection, record: Record) -> bytes | None:
    """Return the JPEG of an image from the cache or the collection, None where it must be rendered."""
    picture = state.thumbnails.get(record.content_hash) or collection.thumbnail(record.image_id)
    if picture is not None:
        state.thumbnails.put(record.content_hash, picture)
    return picture


def _render(state: AppState, collection: Collection, record: Record) -> bytes:
    """Render from the source file, else by the archive."""
    try:
        return decode_source(state.decoders, collection, record, render_thumbnail)
    except SourceGone:
        rendered = state.archive_thumbnails.render(record, SIDE, render_thumbnail)
        if rendered is None:
            raise
        return rendered


def region_of_id(state: AppState, collection: Collection, params: SearchBody) -> RegionQuery:
    """Return the region of an image of the collection that a request names; raises SourceGone without its file.

    Parameters
    ----------
    state : AppState
    collection : Collection
    params : SearchBody
        Names the image and its region.
    """
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
    """Return the region of an uploaded image, with the whole image.

    Parameters
    ----------
    state : AppState
    collection : Collection
    files : list of bytes
        The image alone.
    params : ByImage
        Names the region.
    """
    if params.region is None or len(files) != 1:
        raise InvalidInput(NEEDS_REGION)
    region_encoder(collection.profile)
    whole = params.model_copy(update={"region": None})
    image = describe_upload(state.decoders, collection, files[0], whole)
    return RegionQuery(image, region_area(params.region, image.width, image.height))
