"""Tamura against a slow, simple implementation, pixel by pixel, and properties of its values."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbir import descriptors
from cbir.descriptors import tamura as texture
from cbir.descriptors.tamura import best_sizes
from cbir.images import Image
from tests.cbir.descriptors.pictures import draw, images

tamura = descriptors.get("tamura")


class Slow:
    """The definitions of the six, one pixel at a time."""

    def __init__(self, grey: np.ndarray) -> None:
        self.grey = grey.astype(int)
        self.height, self.width = grey.shape
        self.padded = np.pad(self.grey, 40, mode="edge")
        everywhere = [(y, x) for y in range(self.height) for x in range(self.width)]
        self.sizes = {p: self.best_size(*p) for p in everywhere}
        self.directions = {p: self.direction(*p) for p in everywhere}

    def values(self) -> list[float]:
        everywhere = list(self.sizes)
        whole = self.features(everywhere)
        parts = []
        for i in range(4):
            for j in range(4):
                rows = range(i * self.height // 4, (i + 1) * self.height // 4)
                columns = range(j * self.width // 4, (j + 1) * self.width // 4)
                if rows and columns:
                    parts.append(self.features([(y, x) for y in rows for x in columns]))
        spreads = [float(np.std(column)) for column in zip(*parts, strict=True)]
        regularity = 1 - (spreads[0] / 32 + spreads[1] / 128 + spreads[2] + spreads[3]) / 4
        return [*whole, regularity, whole[0] + whole[1]]

    def features(self, pixels: list[tuple[int, int]]) -> list[float]:
        coarseness = sum(self.sizes[p] for p in pixels) / len(pixels)
        return [coarseness, self.contrast(pixels), self.directionality(pixels), self.line_likeness(pixels)]

    def mean(self, top: int, left: int, side: int) -> float:
        return float(self.padded[top + 40 : top + 40 + side, left + 40 : left + 40 + side].mean())

    def strength(self, y: int, x: int, side: int) -> float:
        half = side // 2
        horizontal = abs(self.mean(y - half, x, side) - self.mean(y - half, x - side, side))
        vertical = abs(self.mean(y, x - half, side) - self.mean(y - side, x - half, side))
        return max(horizontal, vertical)

    def best_size(self, y: int, x: int) -> int:
        best, best_strength = 1, -1.0
        for side in (1, 2, 4, 8, 16, 32):
            if (strength := self.strength(y, x, side)) > best_strength:
                best, best_strength = side, strength
        return best

    def direction(self, y: int, x: int) -> int | None:
        p = self.padded[y + 39 : y + 42, x + 39 : x + 42]
        dh, dv = p[:, 2].sum() - p[:, 0].sum(), p[2].sum() - p[0].sum()
        if (abs(dh) + abs(dv)) / 2 < 12:
            return None
        theta = (math.atan(dv / dh) if dh else math.pi / 2) + math.pi / 2
        return math.floor(theta / (math.pi / 16) + 0.5) % 16

    def contrast(self, pixels: list[tuple[int, int]]) -> float:
        values = np.array([self.grey[p] for p in pixels], float)
        if values.min() == values.max():
            return 0.0
        variance = values.var(ddof=1)
        kurtosis = ((values - values.mean()) ** 4).mean() / variance**2
        return float(math.sqrt(variance) / kurtosis**0.25)

    def directionality(self, pixels: list[tuple[int, int]]) -> float:
        result = Counter(d for p in pixels if (d := self.directions[p]) is not None)
        total = result.total()
        if not total:
            return 0.0
        highest = max(result.values())
        peaks = [
            k
            for k in range(16)
            if result[k] > result[(k - 1) % 16]
            and result[k] >= result[(k + 1) % 16]
            and (result[k] == highest or result[k] * 16 >= 2 * total)
        ] or [0]
        spread = 0.0
        for k in range(16):
            distance = min(min((k - p) % 16, (p - k) % 16) for p in peaks)
            spread += (distance * math.pi / 16) ** 2 * result[k] / total
        return min(max(1 - 12 / math.pi**2 * len(peaks) * spread, 0.0), 1.0)

    def line_likeness(self, pixels: list[tuple[int, int]]) -> float:
        cosines = []
        for y, x in pixels:
            i = self.directions[y, x]
            if i is None:
                continue
            angle = i * math.pi / 16
            j = self.directions.get((y + round(4 * math.sin(angle)), x + round(4 * math.cos(angle))))
            if j is not None:
                cosines.append(math.cos((i - j) * 2 * math.pi / 16))
        return sum(cosines) / len(cosines) if cosines else 0.0


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(image=images(st.integers(1, 60)))
def test_equals_the_slow_form(image: Image):
    np.testing.assert_allclose(tamura(image), Slow(image.grey).values(), rtol=1e-5, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "shape"), [("smooth", (90, 75)), ("stripes", (64, 120)), ("noise", (100, 33))]
)
def test_larger_images_equal_the_slow_form(kind, shape):
    grey = draw(kind, shape, 3)
    np.testing.assert_allclose(tamura(Image(grey)), Slow(grey).values(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["noise", "smooth", "stripes"])
def test_tiles_leave_no_trace(kind, monkeypatch):
    image = Image(draw(kind, (150, 131), 5))
    whole = tamura(image)
    monkeypatch.setattr(texture, "ROWS", 17)
    monkeypatch.setattr(texture, "COLUMNS", 23)
    monkeypatch.setattr(texture, "_RUN", 101)
    assert tamura(image).tolist() == whole.tolist()


def java_random(seed: int) -> Any:
    """What java.util.Random(seed).nextInt(255) gives, one after the other (its documentation)."""
    state = (seed ^ 0x5DEECE66D) & (1 << 48) - 1
    while True:
        state = (state * 0x5DEECE66D + 0xB) & (1 << 48) - 1
        bits = state >> 17
        if bits - bits % 255 + 254 < 1 << 31:
            yield bits % 255


def test_contrast_of_a_known_image():
    numbers = java_random(1234567890)
    grey = np.array([next(numbers) for _ in range(10_000)], np.uint8).reshape(100, 100)
    assert grey[0, :10].tolist() == [117, 197, 116, 147, 200, 131, 74, 107, 124, 141]
    assert tamura(Image(grey))[1] == pytest.approx(63.7185, abs=0.001)


@pytest.mark.parametrize("level", [0, 7, 255])
def test_flat(level):
    assert tamura(Image(np.full((50, 60), level, np.uint8))).tolist() == [1, 0, 0, 0, 1, 1]


def test_stripes_have_a_direction_and_noise_has_none():
    y, x = np.mgrid[:200, :200]
    for wave in (x, y, x + y, x - y, 2 * x + y):
        values = tamura(Image((wave // 8 % 2 * 180).astype(np.uint8)))
        assert values[2] > 0.95
        assert values[3] > 0.9
    values = tamura(Image(draw("noise", (200, 200), 0)))
    assert values[2] < 0.1
    assert abs(values[3]) < 0.1


def test_direction_does_not_depend_on_which_way_an_image_is_turned():
    grey = draw("smooth", (120, 120), 8)
    turned = np.ascontiguousarray(np.rot90(grey))
    assert tamura(Image(turned))[1:3] == pytest.approx(tamura(Image(grey))[1:3], abs=1e-3)


def test_coarser_textures_have_greater_coarseness():
    texture = draw("noise", (32, 32), 4)
    values = [tamura(Image(texture.repeat(n, 0).repeat(n, 1)[:256, :256]))[0] for n in (2, 4, 8, 16)]
    assert values == sorted(values)
    assert values[-1] > 3 * values[0]


def test_best_size_of_a_step():
    """Beside the edge of two halves every window size sees the same step: the smallest wins. Farther away, none
    but a large window reaches it."""
    grey = np.zeros((100, 100), np.uint8)
    grey[:, 50:] = 90
    sizes = best_sizes(grey)
    assert sizes[50, 50] == 1
    assert sizes[50, 60] == 32
    assert sizes[50, 90] == 1  # no window sees it


def faint_specks() -> np.ndarray:
    """Large windows differ by a few grey levels in their sums."""
    random = np.random.default_rng(0)
    return (100 + (random.random((40, 40)) < 0.03)).astype(np.uint8)


def test_best_sizes_of_faint_differences_are_exact():
    slow = Slow(faint_specks())
    assert {p: int(size) for p, size in np.ndenumerate(best_sizes(slow.grey.astype(np.uint8)))} == slow.sizes


def test_best_sizes_of_a_large_image_are_off_by_a_hundredth_of_a_grey_level(monkeypatch):
    slow = Slow(faint_specks())
    monkeypatch.setattr(texture, "_EXACT", 0)
    fast = best_sizes(slow.grey.astype(np.uint8))
    assert {p: int(size) for p, size in np.ndenumerate(fast)} != slow.sizes
    for p, size in slow.sizes.items():
        assert slow.strength(*p, int(fast[p])) > slow.strength(*p, size) - 0.02


def test_regularity_falls_where_parts_differ():
    even = draw("noise", (160, 160), 2)
    odd = even.copy()
    odd[:80] = 128
    assert tamura(Image(odd))[4] < tamura(Image(even))[4] - 0.05
