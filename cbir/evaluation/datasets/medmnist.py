"""MedMNIST `.npz` files (Yang et al. 2023): small pictures with classes, in three splits."""

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.manifest_writer import write_manifest
from cbir.images import Image
from cbir.images.thumbnail import encode_image
from cbir.system.atomic import private_folder, write_bytes

SPLITS = ("train", "val", "test")
Example = tuple[Image, dict[str, str], str]


def read_medmnist(path: Path) -> Iterator[Example]:
    """Yield every picture with its labels and its split ("train", "val" or "test"), in the order of the file.

    The file holds `train_images` (n, height, width) or (n, height, width, 3) uint8 and `train_labels` (n, 1)
    integers, likewise val and test. A single label column is `label`, several are `label_1`, `label_2`, ...
    Nothing is unpickled. Raises InvalidInput, naming the array, if the file has another form.
    """
    with _open(path) as arrays:
        names = [f"{split}_{kind}" for split in SPLITS for kind in ("images", "labels")]
        if missing := [name for name in names if name not in arrays.files]:
            raise InvalidInput(f"{path} has no array {', '.join(missing)}; is it a MedMNIST file?")
        for split in SPLITS:
            yield from _read_split(path, arrays, split)


def _read_split(path: Path, arrays: Any, split: str) -> Iterator[Example]:
    pixels, classes = _array(path, arrays, f"{split}_images"), _array(path, arrays, f"{split}_labels")
    flat = pixels.ndim == 3 or (pixels.ndim == 4 and pixels.shape[3] == 3)
    if pixels.dtype != np.uint8 or not flat or 0 in pixels.shape[1:]:
        raise InvalidInput(
            f"{path}: {split}_images is {pixels.dtype} {pixels.shape}; it must be uint8 of shape "
            "(images, height, width) or (images, height, width, 3); volumes cannot be read"
        )
    if classes.ndim != 2 or classes.shape[1] == 0 or not np.issubdtype(classes.dtype, np.integer):
        raise InvalidInput(
            f"{path}: {split}_labels is {classes.dtype} {classes.shape}; it must be integers (images, labels)"
        )
    if len(classes) != len(pixels):
        raise InvalidInput(f"{path}: {len(pixels)} {split}_images, but {len(classes)} {split}_labels")
    width = classes.shape[1]
    columns = ["label"] if width == 1 else [f"label_{number}" for number in range(1, width + 1)]
    for number, (picture, row) in enumerate(zip(pixels, classes, strict=True)):
        image = Image(np.ascontiguousarray(picture), source=f"{path}#{split}/{number}")
        yield image, dict(zip(columns, map(str, row.tolist()), strict=True)), split


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    with ExitStack() as stack:
        try:
            arrays = np.load(stack.enter_context(path.open("rb")), allow_pickle=False)
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise InvalidInput(f"{path} is not an .npz file; pickled data is never loaded") from error
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise InvalidInput(f"{path} contains a single array; MedMNIST files are .npz with six")
        yield arrays


def _array(path: Path, arrays: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(arrays[name])
    except (ValueError, EOFError, OSError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidInput(f"{path}: the array {name} cannot be read: {error}") from error


def write_medmnist(npz: Path, folder: Path) -> int:
    """Write the pictures as `<split>/<number>.png` with a manifest.csv; return their number.

    Called again, it writes only missing files. Raises InvalidInput if `folder` contains the pictures of another
    file than `npz`.
    """
    _claim(npz, folder)
    rows: list[tuple[Path, dict[str, str]]] = []
    numbers = dict.fromkeys(SPLITS, 0)
    for image, labels, split in read_medmnist(npz):
        path = folder / split / f"{numbers[split]:06d}.png"
        numbers[split] += 1
        if not path.exists():
            _write_png(path, image)
        rows.append((path, labels | {"split": split}))
    columns = sorted({name for _, labels in rows for name in labels}, key=lambda name: (len(name), name))
    return write_manifest(folder / "manifest.csv", columns, rows)


def _claim(npz: Path, folder: Path) -> None:
    """Mark the folder as containing the pictures of this file."""
    try:
        with npz.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        private_folder(folder)
        mark = folder / "source.sha256"
        if not mark.exists():
            write_bytes(mark, digest.encode())
        elif mark.read_text(encoding="utf-8") != digest:
            raise InvalidInput(
                f"{folder} contains the pictures of another file than {npz}; choose another folder"
            )
    except OSError as error:
        raise InvalidInput(f"{error.filename}: {error.strerror}") from error


def _write_png(path: Path, image: Image) -> None:
    try:
        private_folder(path.parent)
        write_bytes(path, encode_image(image.pixels, ".png"), durable=False)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
