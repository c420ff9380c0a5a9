"""Color Layout against a slow, simple implementation, pixel by pixel."""

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cbir.descriptors.color_layout import _luma_of_grey, coefficients
from cbir.images import Image
from tests.cbir.descriptors.pictures import images

# the DCT matrix of the reference software, seven digits
C = [
    [0.3535534] * 8,
    [0.4903926, 0.4157348, 0.2777851, 0.09754516, -0.09754516, -0.2777851, -0.4157348, -0.4903926],
    [0.4619398, 0.1913417, -0.1913417, -0.4619398, -0.4619398, -0.1913417, 0.1913417, 0.4619398],
    [0.4157348, -0.09754516, -0.4903926, -0.2777851, 0.2777851, 0.4903926, 0.09754516, -0.4157348],
    [0.3535534, -0.3535534, -0.3535534, 0.3535534, 0.3535534, -0.3535534, -0.3535534, 0.3535534],
    [0.2777851, -0.4903926, 0.09754516, 0.4157348, -0.4157348, -0.09754516, 0.4903926, -0.2777851],
    [0.1913417, -0.4619398, 0.4619398, -0.1913417, -0.1913417, 0.4619398, -0.4619398, 0.1913417],
    [0.09754516, -0.2777851, 0.4157348, -0.4903926, 0.4903926, -0.4157348, 0.2777851, -0.09754516],
]


def slow(image: Image) -> list[list[int]]:
    pixels = image.pixels if image.pixels.ndim == 3 else np.stack([image.pixels] * 3, axis=-1)
    for axis in (0, 1):
        if pixels.shape[axis] < 8:
            pixels = pixels.repeat(8, axis)
    height, width = pixels.shape[:2]
    sums = np.zeros((3, 8, 8), int)
    counts = np.zeros((8, 8), int)
    for y in range(height):
        for x in range(width):
            cell = int(y / (height / 8)), int(x / (width / 8))
            counts[cell] += 1
            sums[(slice(None), *cell)] += ycbcr(*pixels[y, x].tolist())
    quantised = []
    for plane in range(3):
        block = dct((sums[plane] // counts).tolist())
        scan = [block[y][x] for y, x in zigzag()]
        quantised.append(luma(scan) if plane == 0 else chroma(scan))
    return quantised


def ycbcr(r: int, g: int, b: int) -> list[int]:
    yy = (0.299 * r + 0.587 * g + 0.114 * b) / 256.0
    return [
        int(219.0 * yy + 16.5),
        int(224.0 * 0.564 * (b / 256.0 - yy) + 128.5),
        int(224.0 * 0.713 * (r / 256.0 - yy) + 128.5),
    ]


def dct(block: list[list[int]]) -> list[list[int]]:
    half = [[0.0] * 8 for _ in range(8)]
    full = [[0] * 8 for _ in range(8)]
    for i in range(8):
        for j in range(8):
            s = 0.0
            for k in range(8):
                s += C[j][k] * block[i][k]
            half[i][j] = s
    for i in range(8):
        for j in range(8):
            s = 0.0
            for k in range(8):
                s += C[i][k] * half[k][j]
            full[i][j] = math.floor(s + 0.499999)
    return full


def zigzag() -> list[tuple[int, int]]:
    """Anti-diagonal after anti-diagonal, upwards on the even ones."""
    positions = [(y, x) for y in range(8) for x in range(8)]
    return sorted(positions, key=lambda p: (sum(p), p[0] if sum(p) % 2 else p[1]))


def luma(scan: list[int]) -> list[int]:
    i = scan[0] // 8
    if i > 191:
        dc = 112 + (i - 192) // 4
    elif i > 159:
        dc = 96 + (i - 160) // 2
    elif i > 95:
        dc = 32 + i - 96
    elif i > 63:
        dc = 16 + (i - 64) // 2
    else:
        dc = i // 4
    return [dc >> 1] + [ac(int(value / 2)) for value in scan[1:]]


def chroma(scan: list[int]) -> list[int]:
    i = scan[0] // 8
    if i > 191:
        dc = 63
    elif i > 159:
        dc = 56 + (i - 160) // 4
    elif i > 143:
        dc = 48 + (i - 144) // 2
    elif i > 111:
        dc = 16 + i - 112
    elif i > 95:
        dc = 8 + (i - 96) // 2
    elif i > 63:
        dc = (i - 64) // 4
    else:
        dc = 0
    return [dc] + [ac(value) for value in scan[1:]]


def ac(value: int) -> int:
    value = min(max(value, -256), 239)
    size = abs(value)
    if size > 127:
        size = 64 + size // 4
    elif size > 63:
        size = 32 + size // 2
    return ((size if value >= 0 else -size) + 132) >> 3


@settings(max_examples=60, deadline=None)
@given(image=images(st.integers(1, 70)))
def test_equals_the_slow_form(image: Image):
    assert coefficients(image).tolist() == slow(image)


@settings(max_examples=80, deadline=None)
@given(value=st.tuples(*[st.integers(0, 255)] * 3), odd=st.integers(0, 63), other=st.integers(0, 255))
def test_equals_the_slow_form_near_rounding(value: tuple[int, ...], odd: int, other: int):
    """One cell of a flat 8 x 8 image differs: sums fall on and beside the halves that decide about rounding."""
    pixels = np.full((8, 8, 3), value, np.uint8)
    pixels[odd // 8, odd % 8] = other
    assert coefficients(Image(pixels)).tolist() == slow(Image(pixels))


def test_all_grey_levels():
    levels = np.arange(256, dtype=np.uint8)[None]
    assert _luma_of_grey(levels).ravel().tolist() == [ycbcr(v, v, v)[0] for v in range(256)]
    assert {tuple(ycbcr(v, v, v)[1:]) for v in range(256)} == {(128, 128)}


def test_order_of_parts():
    """A red left half: Y and Cr change from left to right, and Cr more than Cb."""
    pixels: Any = np.zeros((16, 16, 3), np.uint8)
    pixels[:, :8, 0] = 255
    y, cb, cr = coefficients(Image(pixels))
    assert y[1] > 16
    assert cr[1] > 16 > cb[1]
    assert y[2] == cb[2] == cr[2] == 16  # nothing changes from top to bottom
