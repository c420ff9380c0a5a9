"""Pictures that belong to no medical collection: parts of photographs in packages, noise, charts, pages of text."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_images

SIDE = 256
Pixels = NDArray[np.uint8]


def foreign_pictures(count: int, seed: int) -> dict[str, list[Pixels]]:
    """Draw `count` square grey pictures of each kind, by kind."""
    random = np.random.default_rng(seed)
    photographs = [_grey(picture) for picture in _photographs()]
    kinds = {
        "photographs": lambda: _part(photographs[random.integers(len(photographs))], random),
        "noise": lambda: _noise(random),
        "charts": lambda: _chart(random),
        "pages of text": lambda: _page(random),
    }
    return {kind: [draw() for _ in range(count)] for kind, draw in kinds.items()}


def _photographs() -> Iterator[Pixels]:
    yield from load_sample_images().images
    folder = Path(matplotlib.get_data_path()) / "sample_data"
    yield np.asarray(Image.open(folder / "grace_hopper.jpg").convert("RGB"))


def _grey(picture: Pixels) -> Pixels:
    return np.asarray(Image.fromarray(picture).convert("L"))


def _part(picture: Pixels, random: np.random.Generator) -> Pixels:
    """Cut out a square of half to all of the shorter side, mirrored at times."""
    side = int(min(picture.shape) * random.uniform(0.5, 1))
    top, left = (int(random.integers(0, length - side + 1)) for length in picture.shape)
    part = picture[top : top + side, left : left + side]
    part = part[:, ::-1] if random.random() < 0.5 else part
    return np.asarray(cv2.resize(np.ascontiguousarray(part), (SIDE, SIDE), interpolation=cv2.INTER_AREA))


def _noise(random: np.random.Generator) -> Pixels:
    """Draw noise of one pixel to 32 pixels."""
    size = int(SIDE / 2 ** random.integers(0, 6))
    coarse = random.integers(0, 256, (size, size), dtype=np.uint8)
    return np.asarray(cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC))


def _chart(random: np.random.Generator) -> Pixels:
    """Draw axes with bars or with curves."""
    picture = np.full((SIDE, SIDE), 255, np.uint8)
    cv2.line(picture, (24, 16), (24, 232), 0, 1)
    cv2.line(picture, (24, 232), (240, 232), 0, 1)
    if random.random() < 0.5:
        width = int(random.integers(8, 24))
        for left in range(32, 232 - width, width + 6):
            top, grey = int(random.integers(24, 228)), int(random.integers(0, 200))
            cv2.rectangle(picture, (left, top), (left + width, 231), grey, -1)
        return picture
    columns = np.arange(24, 240, 4)
    for _ in range(random.integers(1, 4)):
        rows = np.clip(128 + np.cumsum(random.normal(0, 8, len(columns))), 18, 230)
        points = np.stack([columns, rows], axis=1).astype(np.int32)
        cv2.polylines(picture, [points], False, int(random.integers(0, 160)), 2, cv2.LINE_AA)
    return picture


def _page(random: np.random.Generator) -> Pixels:
    """Draw lines of random letters."""
    picture = np.full((SIDE, SIDE), 255, np.uint8)
    scale = random.uniform(0.35, 0.7)
    for row in range(20, SIDE - 8, int(40 * scale)):
        words = "".join(random.choice(list("abcdefghijklmnoprstuvw    "), 40))
        cv2.putText(picture, words, (12, row), cv2.FONT_HERSHEY_SIMPLEX, scale, 0, 1, cv2.LINE_AA)
    return picture
