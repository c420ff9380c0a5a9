"""Changed copies of images: eight changes, each with several strengths."""

from collections.abc import Callable
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Random = np.random.Generator
Change = Callable[[Pixels, Random], Pixels]

LETTERS = list("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .:")


def resize(scale: float, pixels: Pixels, random: Random) -> Pixels:
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=method), np.uint8)


def recompress(quality: int, pixels: Pixels, random: Random) -> Pixels:
    _, data = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.asarray(cv2.imdecode(data, cv2.IMREAD_UNCHANGED), np.uint8)


def gamma(power: float, pixels: Pixels, random: Random) -> Pixels:
    return np.rint(255 * (pixels / 255.0) ** power).astype(np.uint8)


def rotate(degrees: float, pixels: Pixels, random: Random) -> Pixels:
    """Rotate to a random side; the corners become black."""
    height, width = pixels.shape[:2]
    angle = degrees * random.choice([-1, 1])
    turn = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), angle, 1)
    return np.asarray(cv2.warpAffine(pixels, turn, (width, height)), np.uint8)


def invert(pixels: Pixels, random: Random) -> Pixels:
    return 255 - pixels


def flip(axis: int, pixels: Pixels, random: Random) -> Pixels:
    return np.asarray(cv2.flip(pixels, axis), np.uint8)


def crop(share: float, central: bool, pixels: Pixels, random: Random) -> Pixels:
    """Cut off a share of each side's length, as much on both ends or drawn at random."""
    height, width = pixels.shape[:2]
    down, across = round(height * share), round(width * share)
    top, left = (down // 2, across // 2) if central else random.integers(0, [down + 1, across + 1])
    return pixels[top : top + height - down, left : left + width - across]


def burn_text(lines: int, pixels: Pixels, random: Random) -> Pixels:
    """Write lines of letters, some 5 % of the height each, near a corner."""
    written = pixels.copy()
    height, width = pixels.shape[:2]
    size = max(0.25, height / 500)
    step = round(35 * size)
    left = round(width * random.choice([0.02, 0.45]))
    top = random.choice([step, height - lines * step])
    for line in range(lines):
        text = "".join(random.choice(LETTERS, size=int(random.integers(6, 13))))
        cv2.putText(
            written, text, (left, top + line * step), cv2.FONT_HERSHEY_SIMPLEX, size, (255, 255, 255), 1
        )
    return written


CHANGES: dict[str, dict[str, Change]] = {
    "resized": {f"{scale:.0%}": partial(resize, scale) for scale in (0.5, 0.75, 1.5)},
    "recompressed": {f"quality {quality}": partial(recompress, quality) for quality in (30, 50, 80)},
    "gamma": {str(power): partial(gamma, power) for power in (0.5, 0.7, 1.4, 2.0)},
    "rotated": {f"{degrees} degrees": partial(rotate, degrees) for degrees in (2, 5, 10, 15)},
    "inverted": {"": invert},
    "flipped": {"left to right": partial(flip, 1), "upside down": partial(flip, 0)},
    "cropped": {"10 %, central": partial(crop, 0.1, True), "10 %, anywhere": partial(crop, 0.1, False)},
    "text": {f"{lines} lines": partial(burn_text, lines) for lines in (1, 3)},
}
