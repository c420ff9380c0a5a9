"""Lens of a slit-lamp image: found by an active shape model, and its six features (Huang et al. 2010, IV.A).

The images of the other eye show the lens mirrored, so a model learns from mirrored outlines, and looks for both.
It is stored in its card. A lens is refused where the image is unlike its training.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates
from scipy.signal import cheby1, filtfilt

from cbir.descriptors.lens_files import LENS_CARD, MODES, VERSION, lens_model_hash, read_lens_card
from cbir.descriptors.networks.model_card import has_embedding
from cbir.descriptors.shape_model import HALF, LEAST, ActiveShapeModel, Appearance
from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import Image
from cbir.images.scaling import shrink
from cbir.system.files import atomic_text, os_errors, private_folder

__all__ = ["FEATURES", "ActiveShapeModel", "measure_lens"]

Floats = NDArray[np.float64]

FEATURES = ("mean_intensity", "hue", "saturation", "value", "sulcus_intensity", "lentil_ratio")

SAMPLES = 256  # of the profile
BAND = 0.06  # height of the band around the axis that a profile averages, in lens lengths
LINES = 9
REFLEX = (0.945, 0.985)  # of the axis, from the anterior pole
REFLEX_BAND = 0.08  # in lens lengths
ORDER, RIPPLE, CUTOFF = 4, 0.5, 0.12  # of the Chebyshev filter: decibels, and share of the Nyquist frequency
WITHIN = (
    0.12,
    0.82,
)  # of the axis, between the capsule and the posterior reflex, which outshines the nucleus
MIDDLE = (0.32, 0.55)  # where the sulcus may be
INNER = 0.25  # share of a part at either end that belongs to its slope
DARKEST = 1e-3
SIDE = 1024  # longest side in pixels
OUTLINE, AXIS, POLE = (0, 255, 128), (255, 255, 0), (255, 0, 255)
FOLDS = 5  # of the images that measure what a model finds in new ones
SMALLEST = 2 * LEAST  # images, so that each fold learns from enough
# The limit of the misfit is a multiple of this quantile of left-out images, so that a failed search among them does
# not raise it: bench/results/grading.md. It is at least that of normally distributed profiles, of 2 HALF values.
QUANTILE, FACTOR = 0.95, 8.0


def measure_lens(pixels: NDArray[np.uint8], contour: Floats) -> Floats:
    """Measure the six `FEATURES` (6,) float64 of a lens; intensities, hue, saturation and value are from 0 to 1.

    `pixels` is an RGB image (h, w, 3). `contour` (L, 2) has x and y in pixels, L a multiple of 4; the first landmark
    is the anterior pole, the one half way round the posterior pole, and the visual axis the line between them.
    Raises InvalidInput if the image is not RGB or the contour is outside.
    """
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise InvalidInput(
            f"slit-lamp features need an 8-bit RGB image, not {pixels.dtype} of shape {pixels.shape}"
        )
    if contour.ndim != 2 or contour.shape[1] != 2 or len(contour) < 8 or len(contour) % 4:
        raise InvalidInput(f"a contour has a multiple of 4 landmarks, 8 at least, not {contour.shape}")
    if not np.isfinite(contour).all():
        raise InvalidInput("a contour's landmarks must be finite numbers")
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float64) / 255.0
    mask = np.zeros(grey.shape, np.uint8)
    cv2.fillPoly(mask, [np.rint(np.clip(contour, -1e6, 1e6) * 16).astype(np.int32)], 1, shift=4)
    if not mask.any():
        raise InvalidInput("the contour contains no pixel of the image")
    anterior, posterior = contour[0], contour[len(contour) // 2]
    sulcus, ratio = _nucleus(_profile(grey, anterior, posterior))
    return np.array([grey[mask > 0].mean(), *_reflex(pixels, anterior, posterior), sulcus, ratio])


def _band(anterior: Floats, posterior: Floats, positions: Floats, band: float) -> tuple[Floats, Floats]:
    """Return coordinates y and x (lines, positions) of a band around the axis; positions are from 0 to 1."""
    axis = posterior - anterior
    across = np.array([-axis[1], axis[0]]) * np.linspace(-band / 2, band / 2, LINES)[:, None]
    points = anterior + positions[None, :, None] * axis + across[:, None]
    return points[:, :, 1], points[:, :, 0]


def _profile(grey: Floats, anterior: Floats, posterior: Floats) -> Floats:
    """Return the intensity (256,) along the visual axis from pole to pole, smoothed by the Chebyshev filter."""
    where = _band(anterior, posterior, np.linspace(0.0, 1.0, SAMPLES), BAND)
    profile = map_coordinates(grey, where, order=1, mode="nearest").mean(axis=0)
    numerator, denominator = cheby1(ORDER, RIPPLE, CUTOFF)
    # Filtering both ways avoids a shift; the gain restores the level, which an even order lowers by the ripple.
    gain = 10 ** (RIPPLE / 20)
    return cast(Floats, filtfilt(numerator * gain, denominator, profile))


def _nucleus(profile: Floats) -> tuple[float, float]:
    """Return the mean intensity of the sulcus, and the ratio of the anterior to the posterior lentil."""
    slope = np.gradient(profile)
    start, low, high, stop = (int(part * SAMPLES) for part in (WITHIN[0], *MIDDLE, WITHIN[1]))
    bottom = low + int(np.argmin(profile[low:high]))
    fall = start + int(np.argmin(slope[start : bottom + 1]))  # into the sulcus
    rise = bottom + int(np.argmax(slope[bottom:stop]))  # out of it
    front = start + int(np.argmax(slope[start : fall + 1]))  # into the nucleus
    back = rise + int(np.argmin(slope[rise:stop]))  # out of it
    first, second = _inner(profile, front, fall), _inner(profile, rise, back)
    return _inner(profile, fall, rise), first / max(second, DARKEST)


def _inner(profile: Floats, start: int, stop: int) -> float:
    """Return the mean of a part without its slopes."""
    margin = int(INNER * (stop - start))
    return float(profile[start + margin : stop - margin + 1].mean())


def _reflex(pixels: NDArray[np.uint8], anterior: Floats, posterior: Floats) -> tuple[float, float, float]:
    """Return the mean hue (circular), saturation and value of the central posterior reflex."""
    where = _band(anterior, posterior, np.linspace(*REFLEX, LINES), REFLEX_BAND)
    planes = (pixels[:, :, c].astype(np.float32) for c in range(3))
    colours = np.dstack([map_coordinates(plane, where, order=1, mode="nearest") for plane in planes])
    hsv = cv2.cvtColor((colours / 255.0).astype(np.float32), cv2.COLOR_RGB2HSV)
    hsv = hsv.reshape(-1, 3).astype(np.float64)
    turns = np.exp(1j * np.radians(hsv[:, 0])) * hsv[:, 1]  # a grey pixel has no hue
    hue = float(np.angle(turns.sum()) / (2 * np.pi) % 1.0)
    return hue, float(hsv[:, 1].mean()), float(hsv[:, 2].mean())


def draw_outline(pixels: NDArray[np.uint8], contour: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Draw a contour (L, 2), the visual axis, the anterior pole and the reflex that is measured on an RGB image."""
    picture = shrink(pixels, SIDE).copy()
    points = (contour + 0.5) * picture.shape[0] / pixels.shape[0] - 0.5
    anterior, posterior = points[0], points[len(points) // 2]
    axis = posterior - anterior
    across = np.array([-axis[1], axis[0]]) * REFLEX_BAND / 2
    near, far = (anterior + share * axis for share in REFLEX)
    reflex = np.array([near + across, far + across, far - across, near - across])
    thickness = max(1, picture.shape[0] // 300)
    for line, colour in ((points, OUTLINE), (reflex, POLE), (np.array([anterior, posterior]), AXIS)):
        cv2.polylines(picture, [_fixed(line)], True, colour, thickness, cv2.LINE_AA, shift=4)
    cv2.circle(picture, _fixed(anterior).tolist(), 3 * thickness * 16, POLE, thickness, cv2.LINE_AA, shift=4)
    return picture


def _fixed(points: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return coordinates in sixteenths of a pixel, for drawing; far outside, they are clipped."""
    return np.rint(np.clip(points, -1e6, 1e6) * 16).astype(np.int32)


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
