"""CT series to search with: all slices in a folder, or a NIfTI file."""

from functools import partial
from pathlib import Path

from cbir.errors import UnreadableImage
from cbir.images.ct_series import find_series, read_volume
from cbir.images.limits import Limits
from cbir.images.reading import read_file
from cbir.images.volume import Volume, VolumeGrid
from cbir.ingest.image_files import find_images


def read_query_volume(path: Path, limits: Limits, grid: VolumeGrid) -> Volume:
    """Read the series in a folder, or a NIfTI file.

    Parameters
    ----------
    path : Path
        Folder with the slices of one series, or file.
    limits : Limits
        Largest files and slices.
    grid : VolumeGrid
        Voxels of the network's input.

    Raises
    ------
    NotFound
        If there is no such folder or file.
    UnreadableImage
        If it is one slice, or holds no series, or several.
    """
    read_bytes = partial(read_file, limits=limits)
    found = find_series(find_images([path]), limits, read_bytes)
    if len(found.series) == 1:
        return read_volume(found.series[0], limits, grid, read_bytes)
    if found.series:
        raise UnreadableImage(f"{path} holds {len(found.series)} series; name the folder of one of them")
    if not found.refused:
        raise UnreadableImage(f"{path} holds no images")
    file, reason = found.refused[0]
    if not path.is_dir() and "slices here" in reason:
        reason = "is one slice; name the folder of its series"
    raise UnreadableImage(f"{file.name} {reason}")
