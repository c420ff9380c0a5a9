"""A folder of phantoms with their manifest: a collection to try everything on."""

import csv
import json
import os
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import cv2

from cbir.atomic import write_bytes
from cbir.datasets.phantoms.dicom import encode
from cbir.datasets.phantoms.phantom import check_size, draw, facts
from cbir.errors import InvalidInput

SUFFIX = {"png": ".png", "dicom": ".dcm"}
COLUMNS = ("path", "label", "irma_code", "patient", "modality", "anatomy", "view")
RECIPE = "phantoms.json"


def write(
    folder: Path,
    count: int,
    *,
    format: str = "png",
    seed: int = 0,
    size: int = 256,
    on_progress: Callable[[int], None] | None = None,
) -> Path:
    """Write phantoms 0 .. count - 1 as phantom-000000.png (or .dcm) and, last, `manifest.csv`; returns its path.

    A file is complete or absent, and kept where it is there: run an interrupted call again to go on with it.
    on_progress is told after every image how many there are. Raises InvalidInput for a count below 1, a size or
    a format that cannot be, a folder that cannot be written or that holds phantoms of another seed, size or
    format.
    """
    if count < 1:
        raise InvalidInput(f"count {count} is too small: at least 1 phantom")
    if format not in SUFFIX:
        raise InvalidInput(f"format {format!r} is unknown: png or dicom")
    if seed < 0:
        raise InvalidInput(f"seed {seed} must not be negative")
    check_size(size)
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; name a folder to write the phantoms into")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _same_recipe(folder, {"format": format, "seed": seed, "size": size})
        for index in range(count):
            path = folder / f"phantom-{index:06d}{SUFFIX[format]}"
            if not path.exists():
                _put(path, _encoded(index, seed, size, format))
            if on_progress is not None:
                on_progress(index + 1)
        manifest = folder / "manifest.csv"
        _put(manifest, _manifest(count, seed, SUFFIX[format]).encode())
    except OSError as error:
        raise InvalidInput(f"the phantoms cannot be written into {folder}: {error.strerror}") from error
    return manifest


def _same_recipe(folder: Path, recipe: dict[str, str | int]) -> None:
    """The folder's phantoms were asked for in the same way, or there are none."""
    path = folder / RECIPE
    if not path.exists():
        _put(path, json.dumps(recipe).encode())
        return
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = "something else"
    if found != recipe:
        raise InvalidInput(f"{folder} holds phantoms of {found}, not {recipe}; name another folder")


def _encoded(index: int, seed: int, size: int, format: str) -> bytes:
    phantom = draw(index, seed, size)
    if format == "dicom":
        return encode(phantom, index, seed)
    return bytes(cv2.imencode(".png", phantom.pixels)[1])


def _manifest(count: int, seed: int, suffix: str) -> str:
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for index in range(count):
        known = facts(index, seed)
        name = f"phantom-{index:06d}{suffix}"
        rows.writerow(
            (name, known.label, known.code, known.patient, known.modality, known.anatomy, known.view)
        )
    return text.getvalue()


def _put(path: Path, data: bytes) -> None:
    """All of the file or nothing."""
    write_bytes(path, data, suffix=f".{os.getpid()}.partial", durable=False)
