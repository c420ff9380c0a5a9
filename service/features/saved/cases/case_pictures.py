"""Pictures of a case as JPEG files without metadata."""

from functools import partial
from io import BytesIO

from PIL import Image

from cbir.images import Region
from cbir.ingest.decoder_tasks import render_choice
from cbir.store import Collection, Record
from service.collections.app_state import AppState
from service.collections.image_sources import decode_source
from service.http.problems import SourceGone

QUALITY = 88


def picture_of_record(
    state: AppState, collection: Collection, record: Record, side: int, region: Region | None = None
) -> bytes | None:
    """Return an image of a collection, rendered from its file, or else its thumbnail; None without both.

    Parameters
    ----------
    state : AppState
    collection : Collection
    record : Record
    side : int
        Longest side in pixels.
    region : tuple of int, optional
        Part of the image: x, y, width, height. Of an image whose file is gone the whole thumbnail is returned.
    """
    render = partial(render_choice, side=side)
    try:
        return to_jpeg(decode_source(state.decoders, collection, record, render, region).data, side)
    except SourceGone:
        thumbnail = collection.thumbnail(record.image_id)
        return to_jpeg(thumbnail, side) if thumbnail else None


def to_jpeg(data: bytes, side: int, region: Region | None = None) -> bytes:
    """Encode a picture that the service itself has made as JPEG.

    Parameters
    ----------
    data : bytes
        PNG or JPEG.
    side : int
        Longest side in pixels.
    region : tuple of int, optional
        Part of the picture: x, y, width, height.
    """
    with Image.open(BytesIO(data)) as picture:
        grey = picture.mode in ("1", "L")
        pixels = picture.convert("L" if grey else "RGB")
    if region:
        x, y, width, height = region
        pixels = pixels.crop((x, y, min(x + width, pixels.width), min(y + height, pixels.height)))
    pixels.thumbnail((side, side))
    file = BytesIO()
    pixels.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
