"""Lens of a slit-lamp image: found by an active shape model, and refused where the image is unlike its training.

The images of the other eye show the lens mirrored, so a model learns from mirrored outlines, and looks for both.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.slit_lamp.lens_features import measure_lens
from cbir.descriptors.slit_lamp.shape_model import HALF, LEAST, ActiveShapeModel
from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import Image

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
