"""Folders of phantoms with their manifest."""

import csv
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.phantoms.dicom_encoding import encode_dicom
from cbir.evaluation.datasets.phantoms.drawing import check_side, draw_phantom, phantom_facts
from cbir.images.thumbnail import encode_image
from cbir.system.atomic import PUBLIC_FILE, write_bytes

SUFFIX = {"png": ".png", "dicom": ".dcm"}
COLUMNS = ("path", "label", "irma_code", "patient", "modality", "anatomy", "view")
RECIPE = "phantoms.json"


def write_phantoms(
    folder: Path,
    count: int,
    *,
    format: str = "png",
    seed: int = 0,
    size: int = 256,
    on_progress: Callable[[int], None] | None = None,
) -> Path:
    """Write phantoms 0 to count - 1 as phantom-000000.png (or .dcm), and their manifest last.

    Files are complete or absent, and existing ones stay: repeat an interrupted call to continue it.

    Parameters
    ----------
    folder : Path
        Folder, created if needed.
    count : int
        Number of phantoms, at least 1.
    format : {"png", "dicom"}
        Format of the files.
    seed : int
        Seed of the patients, at least 0.
    size : int
        Pixels of the longer side, 32 to 4096.
    on_progress : callable, optional
        Called after every image with their number so far.

    Returns
    -------
    Path
        The manifest, `manifest.csv`.

    Raises
    ------
    InvalidInput
        For a value out of range, or a folder that cannot be written or holds phantoms of other settings.
    """
    check_numbers(count, seed, "phantom")
    if format not in SUFFIX:
        raise InvalidInput(f"format {format!r} is unknown: png or dicom")
    check_side(size)
    folder = Path(folder)
    with writable_folder(folder, {"format": format, "seed": seed, "size": size}):
        for index in range(count):
            path = folder / f"phantom-{index:06d}{SUFFIX[format]}"
            if not path.exists():
                phantom = draw_phantom(index, seed, size)
                png = format == "png"
                data = encode_image(phantom.pixels, ".png") if png else encode_dicom(phantom, index, seed)
                write_file(path, data)
            if on_progress is not None:
                on_progress(index + 1)
        manifest = folder / "manifest.csv"
        write_file(manifest, _manifest(count, seed, SUFFIX[format]).encode())
    return manifest


def check_numbers(count: int, seed: int, drawn: str) -> None:
    """Raise InvalidInput for a negative seed, or a count below 1 of what is `drawn`."""
    if count < 1:
        raise InvalidInput(f"count {count} is too small: at least 1 {drawn}")
    if seed < 0:
        raise InvalidInput(f"seed {seed} must not be negative")


@contextmanager
def writable_folder(folder: Path, recipe: dict[str, str | int]) -> Iterator[None]:
    """Write into a folder of phantoms; raises InvalidInput if it holds others, or cannot be written.

    Parameters
    ----------
    folder : Path
        Folder, created if needed.
    recipe : dict
        Settings of the phantoms, which the folder keeps.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; name a folder to write the phantoms into")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_recipe(folder, recipe)
        yield
    except OSError as error:
        raise InvalidInput(f"the phantoms cannot be written into {folder}: {error.strerror}") from error


def _check_recipe(folder: Path, recipe: dict[str, str | int]) -> None:
    """Store the settings of the phantoms, or compare them with those stored."""
    path = folder / RECIPE
    if not path.exists():
        write_file(path, json.dumps(recipe).encode())
        return
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        stored = "unknown settings"
    if stored != recipe:
        raise InvalidInput(f"{folder} holds phantoms of {stored}, not {recipe}; name another folder")


def _manifest(count: int, seed: int, suffix: str) -> str:
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for index in range(count):
        facts = phantom_facts(index, seed)
        name = f"phantom-{index:06d}{suffix}"
        rows.writerow(
            (name, facts.label, facts.code, facts.patient, facts.modality, facts.anatomy, facts.view)
        )
    return text.getvalue()


def write_file(path: Path, data: bytes) -> None:
    """Write a file that is complete or absent."""
    # Not durable: a phantom that a power cut takes is drawn again.
    write_bytes(path, data, permissions=PUBLIC_FILE, suffix=f".{os.getpid()}.partial", durable=False)
