"""Edge Histogram, 80 and 150 values, against slow, simple implementations, block by block."""

import math

import cv2
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cbir import descriptors
from cbir.descriptors.edge_histogram import LEVELS, local_bins
from cbir.images import Image
from tests.cbir.descriptors.pictures import draw, images


def slow(grey: np.ndarray) -> list[int] | None:
    """The 80 indices of an image with both sides at least 70; None where a sub-image has no block."""
    height, width = grey.shape
    block = max(int(math.sqrt(width * height // 1100) / 2) * 2, 2)
    half = block // 2
    counts = np.zeros((16, 5), int)
    blocks = np.zeros(16, int)
    for j in range(0, height - block + 1, block):
        for i in range(0, width - block + 1, block):
            region = 4 * i // width + 4 * (4 * j // height)
            blocks[region] += 1
            quadrants = [grey[y : y + half, x : x + half] for y in (j, j + half) for x in (i, i + half)]
            kind = edge(*[int(q.sum()) / (block * block / 4.0) for q in quadrants])
            if kind is not None:
                counts[region, kind] += 1
    if not blocks.all():
        return None
    return [quantised(counts[r, k] / blocks[r], k) for r in range(16) for k in range(5)]


def edge(d1: float, d2: float, d3: float, d4: float) -> int | None:
    strengths = [
        abs(d1 + d3 - (d2 + d4)),
        abs(d1 + d2 - (d3 + d4)),
        math.sqrt(2) * abs(d1 - d4),
        math.sqrt(2) * abs(d2 - d3),
        2 * abs(d1 - d2 - d3 + d4),
    ]
    best = 0
    for kind in range(1, 5):
        if strengths[kind] > strengths[best]:
            best = kind
    return best if strengths[best] >= 11 else None


def quantised(share: float, kind: int) -> int:
    for j in range(7):
        if share <= (LEVELS[kind][j] + LEVELS[kind][j + 1]) / 2:
            return j
    return 7


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(image=images(st.integers(70, 180)))
def test_equals_the_slow_form(image: Image):
    assert local_bins(image).tolist() == slow(image.grey)


@settings(max_examples=15, deadline=None)
@given(short=st.integers(70, 90), ratio=st.integers(10, 60), seed=st.integers(0, 99), turned=st.booleans())
def test_long_images_equal_the_slow_form_where_it_is_defined(short: int, ratio: int, seed: int, turned: bool):
    grey = draw("few levels", (short, short * ratio), seed)
    grey = np.ascontiguousarray(grey.T) if turned else grey
    expected, result = slow(grey), local_bins(Image(grey)).tolist()
    assert result == expected if expected else len(result) == 80


def test_longer_images_have_blocks_everywhere():
    """At 1 : 60 the standard's blocks leave the last row of sub-images empty; vertical stripes show up there too."""
    grey = np.tile(np.where(np.arange(4800) // 3 % 2, 200, 20).astype(np.uint8), (80, 1))
    assert slow(grey) is None
    assert (local_bins(Image(grey)).reshape(16, 5)[:, 0] > 0).all()


@settings(max_examples=15, deadline=None)
@given(image=images(st.integers(1, 69)))
def test_small_images_are_enlarged(image: Image):
    height, width = image.grey.shape
    scale = 70 / min(height, width)
    size = int(width * scale + 0.5), int(height * scale + 0.5)
    expected = slow(cv2.resize(image.grey, size, interpolation=cv2.INTER_LINEAR))
    assume(expected is not None)
    assert local_bins(image).tolist() == expected


@pytest.mark.parametrize("shape", [(8200, 1100), (3000, 3000)])
def test_sums_beyond_32_bits(shape):
    """Nearly white throughout, so that the sum of all pixels leaves 32 bits in the first case."""
    grey = draw("noise", (25, 25), 1).repeat(shape[0] // 25 + 1, 0).repeat(shape[1] // 25 + 1, 1)
    grey = (255 - grey[: shape[0], : shape[1]] // 8).astype(np.uint8)
    assert local_bins(Image(grey)).tolist() == slow(grey)


@settings(max_examples=20, deadline=None)
@given(image=images(st.integers(70, 120)))
def test_150_values(image: Image):
    bins = local_bins(image).reshape(4, 4, 5)
    local = np.array([[[LEVELS[k][bins[y, x, k]] for k in range(5)] for x in range(4)] for y in range(4)])
    groups = [local.reshape(16, 5)]
    groups += [local[:, x] for x in range(4)]
    groups += [local[y] for y in range(4)]
    for top, left in ((0, 0), (0, 2), (2, 0), (2, 2), (1, 1)):
        groups.append(local[top : top + 2, left : left + 2].reshape(4, 5))
    expected = [*local.ravel(), *np.ravel([group.mean(axis=0) for group in groups])]
    result = descriptors.get("edge_histogram_150")(image)
    assert result.shape == (150,)
    np.testing.assert_allclose(result, expected, rtol=1e-6)
