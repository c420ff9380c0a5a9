"""CT series to search with: the slices in a folder or a ZIP archive, or a NIfTI file."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cbir.errors import UnreadableImage
from cbir.images.ct_series import CtSeries, ReadBytes, find_series, read_volume
from cbir.images.limits import Limits
from cbir.images.reading import read_file
from cbir.images.volume import Volume, VolumeGrid
from cbir.images.zipped_files import ZippedFiles, is_zip
from cbir.ingest.image_files import find_images


def read_query_volume(path: Path, limits: Limits, grid: VolumeGrid) -> Volume:
    """Read the series in a folder or a file.

    Parameters
    ----------
    path : Path
        Folder with the slices of one series, a ZIP archive of them, or a NIfTI file.
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
    if path.is_file():
        return decode_query_volume(read_file(path, limits), path.name, limits, grid)
    paths = list(find_images([path]))
    read_bytes = partial(read_file, limits=limits)
    return _read_only_volume(paths, str(path), limits, grid, read_bytes)


def decode_query_volume(data: bytes, name: str, limits: Limits, grid: VolumeGrid) -> Volume:
    """Read the series in the bytes of a file.

    Parameters
    ----------
    data : bytes
        A ZIP archive of the slices of one series, or of one NIfTI file, or that file itself.
    name : str
        Its name in messages.
    limits : Limits
        Largest files and slices.
    grid : VolumeGrid
        Voxels of the network's input.

    Raises
    ------
    UnreadableImage
        If it is one slice, or holds no series, or several.
    """
    if not is_zip(data):
        return _read_only_volume([Path(name)], name, limits, grid, lambda _: data)
    files = _open_zip(data, name, limits)
    return _read_only_volume(files.paths, name, limits, grid, files.read_bytes)


def middle_slice(data: bytes, name: str, limits: Limits) -> bytes:
    """Return the file of the slice that stands for a zipped series.

    Parameters
    ----------
    data : bytes
        ZIP archive.
    name, limits
        As for `decode_query_volume`.

    Raises
    ------
    UnreadableImage
        If there is no series in it, or several.
    """
    files = _open_zip(data, name, limits)
    return files.read_bytes(_only_series(files.paths, name, limits, files.read_bytes).source)


def _open_zip(data: bytes, name: str, limits: Limits) -> ZippedFiles:
    try:
        return ZippedFiles(data, limits)
    except UnreadableImage as error:
        raise UnreadableImage(f"{name} {error}") from error


def _read_only_volume(
    paths: Sequence[Path], name: str, limits: Limits, grid: VolumeGrid, read_bytes: ReadBytes
) -> Volume:
    return read_volume(_only_series(paths, name, limits, read_bytes), limits, grid, read_bytes)


def _only_series(paths: Sequence[Path], name: str, limits: Limits, read_bytes: ReadBytes) -> CtSeries:
    """Return the only series among files; those that belong to none, such as a DICOMDIR, do not matter."""
    files = find_series(paths, limits, read_bytes)
    series, refused = files.series, files.refused
    if len(series) == 1:
        return series[0]
    if series:
        raise UnreadableImage(
            f"{name} holds {len(series)} series or passes; search with the files of one of them"
        )
    if not refused:
        raise UnreadableImage(f"{name} holds no images")
    reason = Counter(reason for _, reason in refused).most_common(1)[0][0]
    if len(paths) == 1 and "slices here" in reason:
        raise UnreadableImage(f"{name} is one slice; search with a folder or ZIP archive of its series")
    file = next(file for file, file_reason in refused if file_reason == reason)
    raise UnreadableImage(f"{file.name} {reason}")
