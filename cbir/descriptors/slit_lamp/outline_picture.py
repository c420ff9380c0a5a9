"""Pictures of the lens that was found in a slit-lamp image."""

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.slit_lamp.lens_features import REFLEX, REFLEX_BAND
from cbir.images.scaling import shrink

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
