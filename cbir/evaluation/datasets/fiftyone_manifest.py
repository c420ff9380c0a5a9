"""Manifest of a folder that FiftyOne has exported (FiftyOneDataset): its pictures and labels."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.manifest_writer import write_manifest
from cbir.ingest.manifest import names_patient

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
