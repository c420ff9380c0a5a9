"""Decoding of files, bytes and arrays to images."""

from cbir.images.bit_depth import from_array
from cbir.images.image import DicomHeader, Image, Limits
from cbir.images.reading import decode, read_images
from cbir.images.scaling import Region, check_region, crop

__all__ = [
    "DicomHeader",
    "Image",
    "Limits",
    "Region",
    "check_region",
    "crop",
    "decode",
    "from_array",
    "read_images",
]
