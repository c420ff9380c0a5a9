"""Cards of trained slit-lamp models, which hold the model itself; read without scipy."""

import hashlib
import json
from pathlib import Path
from typing import Any

from cbir.descriptors.lens_outlines import LANDMARKS
from cbir.descriptors.networks.model_card import read_model_card

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
