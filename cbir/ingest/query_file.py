"""A file to search with: an image or one frame of it, or a CT series in a folder, a ZIP archive or a NIfTI file."""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from cbir.descriptors.descriptor import select_frame
from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import Image, Limits, Region, crop, read_images
from cbir.images.ct_series import CtSeries, ReadBytes, find_series, read_volume
from cbir.images.image import Window
from cbir.images.reading import read_file
from cbir.images.volume import Volume, VolumeGrid
from cbir.ingest.image_files import find_images

SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")  # of an entry, and of an archive without entries
MOST_FILES = 10_000
MOST_BYTES = 2**30  # of all files once inflated: 2,000 slices of 512 x 512
ENTRY = b"PK\x01\x02"  # signature of an entry of the directory
ENCRYPTED = 0x1  # of the flags of an entry, PKWARE APPNOTE 4.4.4


def is_zip(data: bytes) -> bool:
    """Return whether a file is a ZIP archive."""
    return data.startswith(SIGNATURES)


class ZippedFiles:
    """Regular files of an archive; sizes are checked before anything is inflated.

    paths: of the files, by their number in the archive, since names may be those of patients.

    Raises
    ------
    UnreadableImage
        If the archive is damaged, encrypted, compressed in another way than by deflate, or has more than MOST_FILES
        files or MOST_BYTES.
    """

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._limits = limits
        if data.count(ENTRY) > 2 * MOST_FILES:  # folders have one too; a million takes 600 MB
            raise UnreadableImage(f"has too many files; zip one series, at most {MOST_FILES} files")
        try:
            self._archive = ZipFile(BytesIO(data))
        except (BadZipFile, NotImplementedError, ValueError, OSError):
            raise UnreadableImage("is a damaged ZIP archive; make it again") from None
        entries = [entry for entry in self._archive.infolist() if not entry.filename.endswith("/")]
        if len(entries) > MOST_FILES:
            raise UnreadableImage(f"has {len(entries)} files; zip one series, at most {MOST_FILES} files")
        size = sum(entry.file_size for entry in entries)
        if size > MOST_BYTES:
            raise UnreadableImage(f"inflates to {size} bytes; at most {MOST_BYTES} are read, zip fewer files")
        self._entries = {
            Path(f"file {number} of the ZIP archive"): entry for number, entry in enumerate(entries, 1)
        }
        for entry in entries:
            _check_entry(entry)

    @property
    def paths(self) -> list[Path]:
        """Names of the files, for `read_bytes` and for messages."""
        return list(self._entries)

    def read_bytes(self, path: Path) -> bytes:
        """Return the content of a file; raises UnreadableImage if it is damaged, empty or too large."""
        entry = self._entries[path]
        self._limits.check_bytes(entry.file_size)
        try:
            with self._archive.open(entry) as file:
                return file.read(entry.file_size)  # else all that the entry holds would be inflated
        except (BadZipFile, NotImplementedError, ValueError, OSError, EOFError, zlib.error):
            raise UnreadableImage("is damaged in the archive; make it again") from None


def _check_entry(entry: ZipInfo) -> None:
    if entry.flag_bits & ENCRYPTED:
        raise UnreadableImage("is an encrypted ZIP archive; make it without a password")
    if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise UnreadableImage("is a ZIP archive with another compression than deflate; make it with that")


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
