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
    check_region(region, image.width, image.height)
    x, y, width, height = region
    return replace(image, pixels=drop_equal_channels(image.pixels[y : y + height, x : x + width]))


def check_region(region: Region, image_width: int, image_height: int) -> None:
    """Raise InvalidInput if a region is empty or exceeds its image.

    Parameters
    ----------
    region : tuple of int
        x, y (from 0), width and height in pixels.
    image_width, image_height : int
        Size of the image in pixels.
    """
    x, y, width, height = region
    if width < 1 or height < 1 or x < 0 or y < 0 or x + width > image_width or y + height > image_height:
        raise InvalidInput(
            f"the region {x},{y},{width},{height} is not inside the image, which is {image_width} pixels wide "
            f"and {image_height} high; give x,y,width,height in its pixels"
        )
