"""Lens of a slit-lamp image: found by an active shape model, and refused where the image is unlike its training.

The images of the other eye show the lens mirrored, so a model learns from mirrored outlines, and looks for both.
It is stored in its card.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.lens_files import LENS_CARD, MODES, VERSION, lens_model_hash, read_lens_card
from cbir.descriptors.networks.model_card import has_embedding
from cbir.descriptors.slit_lamp import measure_lens
from cbir.descriptors.slit_lamp.shape_model import HALF, LEAST, ActiveShapeModel, Appearance
from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import Image
from cbir.system.files import atomic_text, os_errors, private_folder

Floats = NDArray[np.float64]

FOLDS = 5  # of the images that measure what a model finds in new ones
SMALLEST = 2 * LEAST  # images, so that each fold learns from enough

# The limit of the misfit is a multiple of this quantile of left-out images, so that a failed search among them does
# not raise it: bench/results/grading.md. It is at least that of normally distributed profiles, of 2 HALF values.
QUANTILE, FACTOR = 0.95, 8.0


class LensFinder(NamedTuple):
    """A shape model, and the largest `misfit` of a contour that is taken for a lens."""

    shapes: ActiveShapeModel
    limit: float

    def find(self, image: Image) -> Floats:
        """Find the contour (L, 2) of the lens, x and y in pixels.

        Raises UnreadableImage if the image is grey, or no lens is found.
        """
        misfit, contour = self.search(image)
        if not misfit <= self.limit:
            raise UnreadableImage(
                "there is no lens like those that the slit-lamp model was fitted to: the misfit of the best outline "
                f"is {misfit:.0f}, at most {self.limit:.0f} is allowed"
            )
        return contour

    def search(self, image: Image) -> tuple[float, Floats]:
        """Return misfit and contour (L, 2) of the best outline of either eye; raises UnreadableImage as `find`."""
        if image.pixels.ndim != 3:
            raise UnreadableImage("the image is grey; slit-lamp features need colour")
        grey = to_grey(image.pixels)
        mirrored = np.ascontiguousarray(grey[:, ::-1])
        contour, other = self.shapes.find(grey), self.shapes.find(mirrored)
        misfit, other_misfit = self.shapes.misfit(grey, contour), self.shapes.misfit(mirrored, other)
        if misfit <= other_misfit:
            return misfit, contour
        return other_misfit, mirror_contour(other, image.width)

    def measure(self, image: Image) -> Floats:
        """Return the six features (6,) of the lens; raises UnreadableImage as `find` does."""
        return measure_lens(image.pixels, self.find(image))


def to_grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert RGB pixels (h, w, 3) to grey, as the shape model sees them."""
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.uint8)


def mirror_contour(contour: Floats, width: int) -> Floats:
    """Return a contour (L, 2) as it is in the mirror image, whose width is given in pixels."""
    return np.stack([width - 1 - contour[:, 0], contour[:, 1]], axis=1)


def is_mirrored(contour: Floats) -> bool:
    """Return whether a contour (L, 2) runs anticlockwise in the image: of those over the top, the other eye's do."""
    x, y = contour.T
    return float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)) < 0


def fit_lens_finder(
    images: Sequence[NDArray[np.uint8]],
    contours: Sequence[Floats],
    variance: float = 0.98,
    show: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[LensFinder, Floats]:
    """Fit a shape model, and find its limit on left-out images.

    Parameters
    ----------
    images : sequence of (h, w) uint8
        Grey images.
    contours : sequence of (L, 2) float64
        Their contours, x and y in pixels; corresponding landmarks, a multiple of 4.
    variance : float
        Share of the shapes' variance in the modes, above 0, up to 1.
    show : callable
        Progress callback with folds done and in all.

    Returns
    -------
    LensFinder
        The model.
    (n,) float64
        Mean distance of the landmarks of each image from those that a model finds that was fitted without it, in
        shares of the image's height.

    Raises
    ------
    InvalidInput
        For fewer than 10 images, or contours that do not fit.
    """
    if len(images) < SMALLEST:
        raise InvalidInput(f"a slit-lamp model needs {SMALLEST} outlined images or more, not {len(images)}")
    pairs = [_unmirror(*pair) for pair in zip(images, contours, strict=True)]
    images, contours = [image for image, _ in pairs], [contour for _, contour in pairs]
    shapes = ActiveShapeModel(variance).fit(images, contours)
    errors, misfits = np.zeros(len(images)), np.zeros(len(images))
    for fold in range(FOLDS):
        others = [row for row in range(len(images)) if row % FOLDS != fold]
        model = ActiveShapeModel(variance).fit(
            [images[row] for row in others], [contours[row] for row in others]
        )
        for row in range(fold, len(images), FOLDS):
            contour = model.find(images[row])
            misfits[row] = model.misfit(images[row], contour)
            errors[row] = np.linalg.norm(contour - contours[row], axis=1).mean() / len(images[row])
        show(fold + 1, FOLDS)
    limit = FACTOR * max(float(np.quantile(misfits, QUANTILE)), 2 * HALF)
    return LensFinder(shapes, limit), errors


def _unmirror(image: NDArray[np.uint8], contour: Floats) -> tuple[NDArray[np.uint8], Floats]:
    """Mirror an image and its contour if the contour is mirrored."""
    if not is_mirrored(contour):
        return image, contour
    return np.ascontiguousarray(image[:, ::-1]), mirror_contour(contour, image.shape[1])


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
    with os_errors(f"the model cannot be written into {folder}"):
        private_folder(folder)
        with atomic_text(folder / LENS_CARD) as file:
            json.dump(card | {"model": model}, file)
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
