"""Test images from formulas and random numbers."""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from cbir.images import Image
from tests.drawn_pictures import KINDS, draw


@st.composite
def images(draw_from: st.DrawFn, sides: st.SearchStrategy[int], colour: bool | None = None) -> Image:
    """Images with both sides from `sides`; grey ones and colour ones, or only those asked for."""
    shape: tuple[int, ...] = (draw_from(sides), draw_from(sides))
    if draw_from(st.booleans()) if colour is None else colour:
        shape += (3,)
    return Image(draw(draw_from(st.sampled_from(KINDS)), shape, draw_from(st.integers(0, 2**32 - 1))))


def rgb(red: NDArray, green: NDArray, blue: NDArray) -> Image:
    return Image(
        np.ascontiguousarray(np.stack(np.broadcast_arrays(red, green, blue), axis=-1).astype(np.uint8))
    )


def formulas() -> dict[str, Image]:
    """The seven images of the MPEG-7 reference values, from their integer formulas."""

    def grid(width: int, height: int) -> tuple[NDArray, NDArray]:
        y, x = np.mgrid[:height, :width]
        return x, y

    image = {}
    x, y = grid(192, 128)
    image["ramp_192x128"] = rgb(x * 255 // 191, y * 255 // 127, (x + y) * 255 // 318)
    x, y = grid(176, 144)
    image["vstripes_176x144"] = rgb(*[np.where(x // 6 % 2 == 0, 200, 40)] * 3)
    image["hstripes_176x144"] = rgb(*[np.where(y // 6 % 2 == 0, 200, 40)] * 3)
    x, y = grid(256, 256)
    image["diag_256x256"] = rgb(*[np.where((x + y) // 16 % 2, 255, 1)] * 3)
    x, y = grid(200, 150)
    image["rings_200x150"] = rgb(*[((x - 100) ** 2 + (y - 75) ** 2) // 61 % 256] * 3)
    x, y = grid(160, 160)
    image["checker_160x160"] = rgb(*[np.where((x // 5 + y // 5) % 2, 220, 30)] * 3)
    x, y = grid(128, 128)
    image["flat_128x128"] = rgb(x * 0 + 120, x * 0 + 60, x * 0 + 200)
    return image
