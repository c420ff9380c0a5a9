"""Messages about pictures and pixel values, and their data in base64, from what decoder processes return."""

import base64
from typing import Any

from cbir.images.scaling import FramePixels
from cbir.ingest.decoder_tasks import RenderedImage
from cbir.search.picture_facts import (
    EncodedPicture,
    EncodedPixels,
    PictureFacts,
    PixelFacts,
    PlaceFacts,
    SpacingFacts,
    WindowFacts,
)


def _image_facts(image: RenderedImage | FramePixels) -> dict[str, Any]:
    windowing, spacing = image.windowing, image.spacing
    return {
        "frames": image.frames,
        "window": WindowFacts(center=windowing.center, width=windowing.width) if windowing else None,
        "least": windowing.least if windowing else None,
        "greatest": windowing.greatest if windowing else None,
        "spacing": SpacingFacts(rows=spacing[0], columns=spacing[1]) if spacing else None,
        "modality": image.modality,
    }


def picture_facts(image: RenderedImage) -> PictureFacts:
    """Return what is known of a rendered image."""
    return PictureFacts(image_width=image.width, image_height=image.height, **_image_facts(image))


def pixel_facts(pixels: FramePixels) -> PixelFacts:
    """Return what the pixel values of a frame are."""
    place = PlaceFacts.model_validate(pixels.place, from_attributes=True) if pixels.place else None
    same = (
        "type", "width", "height", "slope", "intercept", "unit", "inverted", "linear", "exact", "photometric",
        "image_width", "image_height", "frame",
    )  # fmt: skip
    values: dict[str, Any] = {name: getattr(pixels, name) for name in same}
    return PixelFacts(**values, **_image_facts(pixels), region=list(pixels.region), place=place)


def encode_picture(image: RenderedImage) -> EncodedPicture:
    """Return a rendered image as an answer holds it."""
    return EncodedPicture(data=_base64(image.data), facts=picture_facts(image))


def encode_pixels(pixels: FramePixels) -> EncodedPixels:
    """Return pixel values as an answer holds them."""
    return EncodedPixels(data=_base64(pixels.data), facts=pixel_facts(pixels))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
