"""Windows of an image that a network may look at alone, with all its resolution."""

from typing import NamedTuple, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput

Picture = NDArray[np.uint8]

AUTO = "auto"
WHOLE = "whole"


class ImageWindow(NamedTuple):
    """Part of an image: its edges as shares of height and width."""

    top: float
    bottom: float
    left: float
    right: float


WINDOWS = {
    WHOLE: ImageWindow(0, 1, 0, 1),
    "middle-rows": ImageWindow(0.25, 0.75, 0, 1),
    "middle-columns": ImageWindow(0, 1, 0.25, 0.75),
    "centre": ImageWindow(0.2, 0.8, 0.2, 0.8),
    "upper": ImageWindow(0, 0.5, 0, 1),
    "lower": ImageWindow(0.5, 1, 0, 1),
}


def parse_windows(text: str) -> tuple[str, ...]:
    """Return names of WINDOWS that are separated by commas, none for "auto"; raise InvalidInput for others."""
    names = () if text == AUTO else tuple(text.split(","))
    for name in names:
        if name not in WINDOWS:
            raise InvalidInput(f"there is no window {name!r}; there are: {', '.join((AUTO, *WINDOWS))}")
    return names


def cut_window(picture: Picture, name: str, side: int) -> Picture:
    """Scale the window `name` of a square grey `picture` to (side, side); its sides may be scaled differently."""
    window, size = WINDOWS[name], len(picture)
    top, bottom, left, right = (round(share * size) for share in window)
    cut = np.ascontiguousarray(picture[top:bottom, left:right])
    interpolation = cv2.INTER_AREA if min(cut.shape) >= side else cv2.INTER_LINEAR
    return cast(Picture, cv2.resize(cut, (side, side), interpolation=interpolation))
