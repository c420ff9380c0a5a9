"""Data sets with a manifest for `cbir index --labels`: exports of FiftyOne, and MedMNIST (Yang et al. 2023)."""

import csv
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.images.scaling import encode_image
from cbir.ingest.manifest import names_patient
from cbir.system.files import atomic_text, file_sha256, os_errors, private_folder, write_bytes


def write_manifest(out: Path, columns: Sequence[str], rows: Iterable[tuple[Path, Mapping[str, str]]]) -> int:
    """Write a manifest atomically; paths below its folder are relative, so that both can move together.

    Parameters
    ----------
    out : Path
        The csv.
    columns : sequence of str
        Labels, the columns after `path`.
    rows : iterable of (path, labels)

    Returns
    -------
    int
        Number of rows.
    """
    base, count = out.resolve().parent, 0
    with os_errors(f"{out} cannot be written"), atomic_text(out) as file:
        table = csv.writer(file)
        table.writerow(["path", *columns])
        for path, labels in rows:
            path = path.resolve()
            relative = path.relative_to(base) if path.is_relative_to(base) else path
            table.writerow([str(relative), *(labels.get(column, "") for column in columns)])
            count += 1
    return count


LEFT_OUT = {"filepath", "id", "image_id", "metadata", "media_type", "created_at", "last_modified_at"}

TAGS, JOINED = "tags", "+"


def write_fiftyone_manifest(folder: Path, out: Path) -> int:
    """Write a manifest of the samples in a folder for `cbir index --labels`; return their number.

    Classifications, and fields that are texts, numbers or truth values, become labels of the same name; tags are one
    label, joined by `+`. A field such as `patient` or `patient_id` names the patient; `path` becomes the label
    `label_path`. Detections, vectors and other fields are left out.

    Parameters
    ----------
    folder : Path
        With metadata.json and samples.json.
    out : Path
        The csv.

    Raises
    ------
    InvalidInput
        If the folder is no such export, has other media than images, or two samples have the same file.
    """
    metadata, samples = _read(folder / "metadata.json"), _read(folder / "samples.json").get("samples")
    if not isinstance(samples, list) or not samples or not all(isinstance(each, dict) for each in samples):
        raise InvalidInput(
            f"{folder / 'samples.json'} has no samples; export the data set as FiftyOneDataset"
        )
    kind = metadata.get("media_type")
    if kind != "image":
        raise InvalidInput(f"{folder} has media of the kind {kind}; only images are read")
    rows = [(_path(folder, sample), _labels(sample)) for sample in samples]
    samples_of = Counter(path for path, _ in rows)
    if len(samples_of) < len(rows):
        path, count = samples_of.most_common(1)[0]
        raise InvalidInput(f"{path} is the file of {count} samples; a manifest has one row for each file")
    columns = sorted({key for _, labels in rows for key in labels})
    return write_manifest(out, columns, rows)


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        remedy = "export the data set as FiftyOneDataset, with its media"
        raise InvalidInput(f"{path} cannot be read: {error.strerror}; {remedy}") from None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} is no JSON of FiftyOne; export the data set as FiftyOneDataset")
    return value


def _path(folder: Path, sample: dict[str, Any]) -> Path:
    name = sample.get("filepath")
    path = (folder / name if isinstance(name, str) else folder).resolve()
    remedy = "export the data set with its media"
    if not path.is_relative_to(folder.resolve()):
        raise InvalidInput(f"the file of a sample is not in {folder}: {name}; {remedy}")
    if not path.is_file():
        raise InvalidInput(f"the file of a sample is missing: {name}; {remedy}")
    return path


def _labels(sample: dict[str, Any]) -> dict[str, str]:
    labels = dict(_texts(sample))
    patients = [labels.pop(key) for key in sorted(labels) if names_patient(key)]
    if patients:
        labels["patient"] = patients[0]
    return labels


def _texts(sample: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in sample.items():
        if key in LEFT_OUT or key.startswith("_"):
            continue
        if isinstance(value, dict) and value.get("_cls") == "Classification":
            value = value.get("label")
        if key == TAGS and isinstance(value, list):
            value = JOINED.join(map(str, value))
        if isinstance(value, str | int | float) and value != "" and value == value:  # not nan
            yield "label_path" if key == "path" else key, str(value)


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
    claim_folder(npz, folder)
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


def claim_folder(source: Path, folder: Path) -> None:
    """Mark a folder as holding what is in the file `source`; raise InvalidInput if it holds that of another one."""
    try:
        digest, mark = file_sha256(source), folder / "source.sha256"
        private_folder(folder)
        if not mark.exists():
            write_bytes(mark, digest.encode())
        elif mark.read_text(encoding="utf-8") != digest:
            raise InvalidInput(
                f"{folder} holds the content of another file than {source}; choose another folder"
            )
    except OSError as error:
        raise InvalidInput(f"{error.filename}: {error.strerror}") from error


def _write_png(path: Path, image: Image) -> None:
    with os_errors(f"{path} cannot be written"):
        private_folder(path.parent)
        write_bytes(path, encode_image(image.pixels, ".png"), durable=False)
