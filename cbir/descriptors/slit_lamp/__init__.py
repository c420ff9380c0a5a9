"""Six features of the lens in slit-lamp images, which an active shape model finds (Huang et al. 2010, IV.A)."""

from typing import cast

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates
from scipy.signal import cheby1, filtfilt

from cbir.descriptors.slit_lamp.shape_model import ActiveShapeModel
from cbir.errors import InvalidInput
from cbir.images.scaling import shrink

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


SIDE = 1024  # longest side in pixels
OUTLINE, AXIS, POLE = (0, 255, 128), (255, 255, 0), (255, 0, 255)


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
