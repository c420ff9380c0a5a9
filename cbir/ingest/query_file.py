"""A file to search with: an image or one frame of it, or a CT series where the collection is of series."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from cbir.descriptors.query_image import select_frame
from cbir.errors import InvalidInput
from cbir.images import Image, Region, crop, read_images
from cbir.images.image import Window
from cbir.images.limits import Limits
from cbir.images.volume import VolumeGrid
from cbir.ingest.query_volume import read_query_volume


@dataclass(frozen=True)
class QueryOptions:
    """Part of a file to search with; raises InvalidInput for values of another form.

    frame: of a multi-frame file, from 1. region: x, y, width, height in pixels. window: center and width for a grey
    DICOM file.
    """

    frame: int | None = None
    region: Region | None = None
    window: Window | None = None

    def __post_init__(self) -> None:
        if self.frame is not None:
            _require_numbers("frame", [self.frame], "a whole number", Integral)
        if self.region is not None:
            _require_numbers("region", self.region, "x, y, width, height in pixels", Integral)
        if self.window is not None:
            _require_numbers("window", self.window, "center, width", Real)

    def names(self) -> list[str]:
        """Return the names of the options that are set."""
        return [name for name, value in asdict(self).items() if value is not None]

    def check_volume(self, grid: VolumeGrid | None) -> None:
        """Raise InvalidInput if an option is set where queries are CT series, of voxels in a `grid`."""
        if grid is not None and (names := self.names()):
            raise InvalidInput(
                f"{names[0]}: is for single images, and the collection is of CT series; leave it out"
            )


def _require_numbers(name: str, values: Any, form: str, kind: type[Any]) -> None:
    if not isinstance(values, Sequence) or len(values) != form.count(",") + 1:
        raise InvalidInput(f"{name}: {form}, not {values!r}")
    for value in values:
        if not isinstance(value, kind) or isinstance(value, bool) or not isfinite(value):
            raise InvalidInput(f"{name}: {form}, not {values!r}")


WHOLE_FILE = QueryOptions()


def read_query_file(
    path: Path, limits: Limits, grid: VolumeGrid | None = None, part: QueryOptions = WHOLE_FILE
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
    part : QueryOptions
        Part of the file.

    Raises
    ------
    UnreadableImage
        If the file cannot be read.
    InvalidInput
        For a region outside of the image, and for a part of a series.
    """
    part.check_volume(grid)
    if grid is not None:
        return read_query_volume(path, limits, grid)
    image = select_frame(read_images(path, limits=limits, window=part.window), part.frame, str(path))
    return crop(image, part.region) if part.region else image
