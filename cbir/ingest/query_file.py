"""A file to search with: an image or one frame of it, or a CT series where the collection is of series."""

from pathlib import Path

from cbir.errors import InvalidInput
from cbir.images import Image, Limits, Region, crop, read_images
from cbir.images.image import Window
from cbir.images.volume import VolumeGrid
from cbir.ingest.query_volume import read_query_volume
from cbir.query_image import select_frame


def read_query_file(
    path: Path,
    limits: Limits,
    grid: VolumeGrid | None = None,
    *,
    frame: int | None = None,
    window: Window | None = None,
    region: Region | None = None,
) -> Image:
    """Read a query image.

    Parameters
    ----------
    path : Path
        Image file; with `grid` as of `read_query_volume`.
    limits : Limits
        Largest size that is decoded.
    grid : VolumeGrid, optional
        Voxels of the profile's volumes; None where the profile describes images.
    frame : int, optional
        Frame of a multi-frame file, from 1.
    window : (float, float), optional
        Center and width for a grey DICOM file.
    region : (int, int, int, int), optional
        Part of the image: x, y, width, height in pixels.

    Raises
    ------
    UnreadableImage
        If the file cannot be read.
    InvalidInput
        For a region outside of the image, and for a frame, window or region of a series.
    """
    if grid is None:
        image = select_frame(read_images(path, limits=limits, window=window), frame, str(path))
        return crop(image, region) if region else image
    for name, value in (("frame", frame), ("window", window), ("region", region)):
        if value is not None:
            raise InvalidInput(
                f"{name}: is for single images, and the collection is of CT series; leave it out"
            )
    return read_query_volume(path, limits, grid)
