"""Manifest of a folder that FiftyOne has exported (FiftyOneDataset): its pictures and labels."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cbir.datasets.manifest_writer import write_manifest
from cbir.errors import InvalidInput

LEFT_OUT = {"filepath", "id", "image_id", "metadata", "media_type", "created_at", "last_modified_at"}
PATIENT = ("patient", "patient_id", "patient_key")  # fields that name one, the first of them counts
TAGS, JOINED = "tags", "+"


def write_fiftyone_manifest(folder: Path, out: Path) -> int:
    """Write a manifest of the samples in a folder for `cbir index --labels`; return their number.

    Classifications, and fields that are texts, numbers or truth values, become labels of the same name; tags are one
    label, joined by `+`. A field `patient`, `patient_id` or `patient_key` names the patient. Detections, vectors and
    other fields are left out.

    Parameters
    ----------
    folder : Path
        With metadata.json and samples.json.
    out : Path
        The csv.

    Raises
    ------
    InvalidInput
        If the folder is no such export, or has other media than images.
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
    path = folder / name if isinstance(name, str) else folder
    if not path.is_file():
        raise InvalidInput(f"the file of a sample is missing: {name}; export the data set with its media")
    return path


def _labels(sample: dict[str, Any]) -> dict[str, str]:
    labels = dict(_texts(sample))
    patients = [labels.pop(key) for key in PATIENT if key in labels]
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
        if isinstance(value, str | int | float) and value != "":
            yield key, str(value)
