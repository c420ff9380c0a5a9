"""Slit-lamp models on disk, as JSON: nothing is unpickled, and shapes and hash are checked."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.networks.embedding_card import has_embedding
from cbir.descriptors.networks.lens_card import LENS_CARD, MODES, VERSION, lens_model_hash, read_lens_card
from cbir.descriptors.slit_lamp.lens_finder import LensFinder
from cbir.descriptors.slit_lamp.shape_model import ActiveShapeModel, Appearance
from cbir.errors import InvalidInput
from cbir.system.files import atomic_text, private_folder

Floats = NDArray[np.float64]


def write_lens_finder(finder: LensFinder, errors: Floats, folder: Path) -> dict[str, Any]:
    """Write a model into `folder`, atomically; return its card without the numbers of the model.

    Parameters
    ----------
    finder : LensFinder
        The model.
    errors : (n,) float64
        Errors of left-out images, in shares of the height.
    folder : Path
        Folder, created if needed.

    Raises
    ------
    InvalidInput
        If the model is too large, or the folder has another kind of model or cannot be written.
    """
    shapes = finder.shapes
    if len(shapes.modes_) > MODES:
        raise InvalidInput(
            f"the outlines vary in {len(shapes.modes_)} modes, at most {MODES} fit; lower --variance"
        )
    if has_embedding(folder):
        raise InvalidInput(f"{folder} holds a trained embedding; name another folder")
    model = {
        "limit": _numbers(np.float64(finder.limit)),
        "mean": _numbers(shapes.mean_),
        "start": _numbers(shapes.start_),
        "modes": _numbers(shapes.modes_),
        "variances": _numbers(shapes.variances_),
        "profiles": _numbers(np.stack([level.mean for level in shapes.appearance_])),
        "inverses": _numbers(np.stack([level.inverse for level in shapes.appearance_])),
    }
    card = {
        "version": VERSION,
        "sha256": lens_model_hash(model),
        "images": len(errors),
        "landmarks": len(shapes.mean_),
        "left_out_error": {"mean": float(errors.mean()), "largest": float(errors.max())},
    }
    try:
        private_folder(folder)
        with atomic_text(folder / LENS_CARD) as file:
            json.dump(card | {"model": model}, file)
    except OSError as error:
        raise InvalidInput(f"the model cannot be written into {folder}: {error.strerror}") from error
    return card


def load_lens_finder(folder: Path) -> LensFinder:
    """Load the model in `folder`; raises NotFound if there is none, InvalidInput if it is damaged."""
    model = read_lens_card(folder)["model"]
    shapes = ActiveShapeModel()
    shapes.mean_, shapes.start_ = np.array(model["mean"], float), np.array(model["start"], float)
    shapes.modes_, shapes.variances_ = np.array(model["modes"], float), np.array(model["variances"], float)
    pairs = zip(model["profiles"], model["inverses"], strict=True)
    shapes.appearance_ = [
        Appearance(np.array(mean, float), np.array(inverse, float)) for mean, inverse in pairs
    ]
    return LensFinder(shapes, float(model["limit"]))


def _numbers(values: Floats | np.float64) -> Any:
    """Return nested lists of numbers with the digits of a float32: a fourth of the text, and exact enough."""
    as_text = np.char.mod("%.9g", np.atleast_1d(values))
    return as_text.astype(np.float64).reshape(np.shape(values)).tolist()
