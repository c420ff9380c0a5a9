"""Folders of small pictures, good and bad."""

from pathlib import Path

import cv2
import numpy as np
import pytest


def picture(path: Path, seed: int, size: int = 40) -> Path:
    """Write a PNG of smooth noise, different for every seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (size, size), np.uint8)
    assert cv2.imwrite(str(path), cv2.GaussianBlur(noise, (5, 5), 0))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty pictures in two folders, and things that are none."""
    root = tmp_path / "images"
    for seed in range(30):
        picture(root / ("a" if seed % 2 else "b/deep") / f"{seed:02d}.png", seed)
    (root / "notes.txt").write_text("no picture")
    (root / ".hidden.png").write_text("no picture")
    return root
