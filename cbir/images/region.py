"""Rectangular regions of images."""

from dataclasses import replace

from cbir.errors import InvalidInput
from cbir.images.bit_depth import drop_equal_channels
from cbir.images.image import Image

Region = tuple[int, int, int, int]


def crop(image: Image, region: Region) -> Image:
    """Cut `region` out of `image`: x, y (from 0), width and height in pixels.

    Raises InvalidInput if the region is empty or exceeds the image.
    """
    x, y, width, height = region
    if width < 1 or height < 1 or x < 0 or y < 0 or x + width > image.width or y + height > image.height:
        raise InvalidInput(
            f"the region {x},{y},{width},{height} is not inside the image, which is {image.width} pixels wide "
            f"and {image.height} high; give x,y,width,height in its pixels"
        )
    return replace(image, pixels=drop_equal_channels(image.pixels[y : y + height, x : x + width]))
