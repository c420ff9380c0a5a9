"""Drawings of coloured blood cells of five kinds, at any place and angle, under varying stain and light.

Kinds differ by nucleus, granules and colour, not by places: a test for encoders of organs in standard views.
"""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
RED_CELL = (0.84, 0.64, 0.60)
NUCLEUS = (0.42, 0.28, 0.58)


class Kind(NamedTuple):
    """A kind of cell. radius, granule: as a share of the image's side; lobes: least and most of its nucleus."""

    radius: float
    cytoplasm: tuple[float, float, float]
    lobes: tuple[int, int]
    lobe: float  # radius, as a share of the cell's
    spread: float  # of the lobes from the centre, likewise
    granules: int
    granule: float
    granule_colour: tuple[float, float, float]
    opacity: float


KINDS = {
    "basophil": Kind(0.22, (0.72, 0.66, 0.78), (2, 2), 0.42, 0.30, 90, 0.018, (0.30, 0.20, 0.45), 0.6),
    "eosinophil": Kind(0.24, (0.86, 0.66, 0.62), (2, 3), 0.34, 0.42, 260, 0.014, (0.88, 0.45, 0.40), 0.55),
    "lymphocyte": Kind(0.19, (0.66, 0.70, 0.86), (1, 1), 0.80, 0.05, 12, 0.008, (0.70, 0.40, 0.60), 0.3),
    "monocyte": Kind(0.27, (0.66, 0.66, 0.76), (1, 1), 0.62, 0.20, 60, 0.008, (0.60, 0.50, 0.68), 0.3),
    "neutrophil": Kind(0.23, (0.84, 0.74, 0.78), (3, 5), 0.26, 0.48, 200, 0.008, (0.80, 0.58, 0.70), 0.35),
}


def draw_cells(count: int, side: int, seed: int) -> list[tuple[str, NDArray[np.uint8]]]:
    """Draw `count` images (side, side, 3) of each kind."""
    random = np.random.default_rng(seed)
    return [(name, _draw(kind, side, random)) for name, kind in KINDS.items() for _ in range(count)]


def _draw(kind: Kind, side: int, random: np.random.Generator) -> NDArray[np.uint8]:
    image = np.full((side, side, 3), (0.88, 0.84, 0.82), np.float32)
    for _ in range(random.integers(6, 14)):
        centre, radius = random.uniform(0, side, 2), side * random.uniform(0.13, 0.17)
        image = _paint(image, _blob(side, centre, radius, random), RED_CELL, 0.9)
        image = _paint(image, _blob(side, centre, radius * 0.4, random), (0.92, 0.72, 0.68), 0.9)
    centre, radius = random.uniform(0.38, 0.62, 2) * side, side * kind.radius * random.uniform(0.82, 1.18)
    body = _blob(side, centre, radius, random)
    image = _paint(image, body, kind.cytoplasm + random.normal(0, 0.035, 3), 1.0)
    nucleus, lobes = np.zeros((side, side), np.float32), random.integers(kind.lobes[0], kind.lobes[1] + 1)
    first, step = random.uniform(0, 2 * np.pi), 2 * np.pi / lobes if lobes < 3 else random.uniform(0.9, 1.3)
    for angle in first + step * np.arange(lobes):
        offset = radius * kind.spread * np.array([np.cos(angle), np.sin(angle)])
        nucleus = np.maximum(nucleus, _blob(side, centre + offset, radius * kind.lobe, random))
    image = _paint(image, nucleus * body, NUCLEUS + random.normal(0, 0.03, 3), 0.92)
    image = _paint(
        image, _granules(kind, side, centre, radius, random) * body, kind.granule_colour, kind.opacity
    )
    return _stain(image, random)


def _blob(side: int, centre: Floats, radius: float, random: np.random.Generator) -> Floats:
    """Return the share of each pixel inside a disc with an uneven edge."""
    y, x = np.mgrid[:side, :side].astype(np.float32)
    x, y = x - centre[0], y - centre[1]
    angles, edge = np.arctan2(y, x), 1.0
    for wave in range(2, 5):
        edge = edge + random.normal(0, 0.08 / wave) * np.cos(wave * angles + random.uniform(0, 2 * np.pi))
    return np.asarray(1 / (1 + np.exp(-np.clip((edge * radius - np.hypot(x, y)) / 1.2, -50, 50))), np.float32)


def _granules(kind: Kind, side: int, centre: Floats, radius: float, random: np.random.Generator) -> Floats:
    layer = np.zeros((side, side), np.float32)
    for _ in range(int(kind.granules * random.uniform(0.3, 1.2))):
        angle, distance = random.uniform(0, 2 * np.pi), radius * np.sqrt(random.uniform(0, 0.95))
        x, y = centre + distance * np.array([np.cos(angle), np.sin(angle)])
        size = max(1, int(side * kind.granule * 8 * random.uniform(0.6, 1.2)))
        cv2.circle(layer, (int(x * 8), int(y * 8)), size, (1.0,), -1, cv2.LINE_AA, 3)  # in eighths of a pixel
    return layer


def _paint(
    image: Floats, mask: Floats, colour: NDArray[np.floating] | tuple[float, ...], opacity: float
) -> Floats:
    share = mask[:, :, None] * np.float32(opacity)
    return np.asarray(image * (1 - share) + share * np.asarray(colour, np.float32), np.float32)


def _stain(image: Floats, random: np.random.Generator) -> NDArray[np.uint8]:
    """Blur, vary contrast, light and hue, and add noise."""
    image = cv2.GaussianBlur(image, (0, 0), random.uniform(0.5, 2.0) * len(image) / 240)
    image = (image - 0.75) * random.uniform(0.8, 1.15) + 0.75
    image = image * random.uniform(0.82, 1.08) * np.exp(random.normal(0, 0.05, 3))
    noise = random.normal(0, 0.012, image.shape)
    return np.asarray(np.clip(np.clip(image, 0, 1) + noise, 0, 1) * 255, np.uint8)
