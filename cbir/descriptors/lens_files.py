"""Files of slit-lamp models: the outlines that they learn from, and their cards; read without scipy."""

import csv
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.networks.model_card import read_model_card
from cbir.errors import InvalidInput

Floats = NDArray[np.float64]

OUTLINE_COLUMNS = ("path", "x", "y")
LANDMARKS = (8, 128)  # of an outline
MOST_IMAGES = 2000
MOST_BYTES = 64 << 20


def read_outlines(path: Path) -> dict[Path, Floats]:
    """Read the outlines (L, 2) of images, x and y in pixels, in the order of the csv `path`.

    Paths of images are relative to its folder, or absolute. Raises InvalidInput, naming line or image, if the csv
    cannot be used.
    """
    points: dict[Path, list[tuple[float, float]]] = {}
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InvalidInput(f"{path} is larger than {MOST_BYTES >> 20} MB; outline fewer images")
        with path.open(newline="", encoding="utf-8-sig") as file:
            for image, point in _read_rows(path, csv.DictReader(file, strict=True)):
                points.setdefault(path.parent / image, []).append(point)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8; save it as UTF-8 csv") from error
    except csv.Error as error:
        raise InvalidInput(f"{path}: {error}") from error
    except OSError as error:
        raise InvalidInput(f"the outlines {path} cannot be read: {error.strerror}") from error
    _check_counts(path, {image: len(outline) for image, outline in points.items()})
    return {image: np.array(outline) for image, outline in points.items()}


def _read_rows(path: Path, reader: "csv.DictReader[str]") -> Iterator[tuple[str, tuple[float, float]]]:
    missing = [column for column in OUTLINE_COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise InvalidInput(
            f"{path} has no column {', '.join(missing)}; it needs {', '.join(OUTLINE_COLUMNS)}"
        )
    for row in reader:
        try:
            point = float(row["x"]), float(row["y"])
        except (TypeError, ValueError):
            point = math.nan, math.nan
        if not row["path"] or not all(map(math.isfinite, point)):
            raise InvalidInput(f"{path}, line {reader.line_num}: a row has a path, and numbers x and y")
        yield row["path"], point


def _check_counts(path: Path, counts: dict[Path, int]) -> None:
    """Raise InvalidInput unless all images have the same number of landmarks, one that a model can have."""
    if len(counts) > MOST_IMAGES:
        raise InvalidInput(f"{path} outlines {len(counts)} images, at most {MOST_IMAGES} can be learned from")
    if not counts:
        raise InvalidInput(f"{path} has no outlines")
    first, landmarks = next(iter(counts.items()))
    least, most = LANDMARKS
    if landmarks % 4 or not least <= landmarks <= most:
        raise InvalidInput(
            f"{path}: {first.name} has {landmarks} landmarks; an outline has a multiple of 4, from {least} to {most}"
        )
    for image, count in counts.items():
        if count != landmarks:
            raise InvalidInput(
                f"{path}: {image.name} has {count} landmarks, {first.name} {landmarks}; all outlines have as many"
            )


def format_outlines(outlines: Iterable[tuple[str, Floats]]) -> str:
    """Return the csv of outlines (L, 2) by the path of their image."""
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(OUTLINE_COLUMNS)
    for path, outline in outlines:
        rows.writerows((path, f"{x:.2f}", f"{y:.2f}") for x, y in outline)
    return text.getvalue()


LENS_CARD = "slit_lamp.json"
VERSION = 1
LEVELS, PROFILE = 4, 8  # of the shape model: levels of the pyramid, values of a profile
MODES = 100  # at most: a card stays below the largest that is read


def has_lens_model(folder: Path) -> bool:
    """Return whether `folder` has a trained slit-lamp model."""
    return (folder / LENS_CARD).is_file()


def lens_model_hash(model: dict[str, Any]) -> str:
    """Return the SHA-256 of the field "model" of a card."""
    return hashlib.sha256(json.dumps(model, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_lens_card(folder: Path) -> dict[str, Any]:
    """Read the card of the slit-lamp model in `folder`: "model" (its numbers), "sha256" of them, "images" and more.

    Raises NotFound if there is none, InvalidInput if it is something else, damaged, or of a later version.
    """
    command = f"`cbir grade slit-lamp fit --out {folder}`"
    return read_model_card(folder / LENS_CARD, "a slit-lamp model", command, _is_lens_card)


def _is_lens_card(card: Any) -> bool:
    model = card["model"]
    landmarks, modes = card["landmarks"], len(model["modes"])
    if card["version"] != VERSION or lens_model_hash(model) != card["sha256"]:
        return False
    if not (LANDMARKS[0] <= landmarks <= LANDMARKS[1] and landmarks % 4 == 0 and 1 <= modes <= MODES):
        return False
    shapes = {
        "limit": (),
        "mean": (landmarks, 2),
        "start": (landmarks, 2),
        "modes": (modes, 2 * landmarks),
        "variances": (modes,),
        "profiles": (LEVELS, landmarks, PROFILE),
        "inverses": (LEVELS, landmarks, PROFILE, PROFILE),
    }
    return all(_has_shape(model[name], shape) for name, shape in shapes.items())


def _has_shape(values: Any, shape: tuple[int, ...]) -> bool:
    """Return whether `values` are nested lists of finite numbers."""
    if not shape:
        return isinstance(values, int | float) and -1e30 < values < 1e30
    if not isinstance(values, list) or len(values) != shape[0]:
        return False
    return all(_has_shape(inner, shape[1:]) for inner in values)
