"""Pixels from random numbers, for images of all kinds."""

import cv2
import numpy as np
from numpy.typing import NDArray

KINDS = ("noise", "smooth", "stripes", "few levels", "faint", "flat")


def draw(kind: str, shape: tuple[int, ...], seed: int) -> NDArray[np.uint8]:
    """Random pixels of that kind, grey for (height, width), RGB for (height, width, 3)."""
    random = np.random.default_rng(seed)
    noise = random.integers(0, 256, shape).astype(np.uint8)
    if kind == "smooth":
        blurred = cv2.GaussianBlur(noise, (0, 0), random.uniform(1, 5), borderType=cv2.BORDER_REFLECT)
        return cv2.normalize(blurred, None, 0, 255, cv2.NORM_MINMAX).reshape(shape)
    if kind == "stripes":
        y, x = np.mgrid[: shape[0], : shape[1]]
        angle = random.uniform(0, np.pi)
        wave = 127 + 100 * np.sin((x * np.cos(angle) + y * np.sin(angle)) * random.uniform(0.1, 2))
        striped = wave.reshape(shape[:2] + (1,) * (len(shape) - 2)) + noise % 16
        return np.clip(striped, 0, 255).astype(np.uint8)
    if kind == "few levels":
        return noise // 86 * np.uint8(100)
    if kind == "faint":
        return noise // 32 + np.uint8(100)
    if kind == "flat":
        return np.full(shape, noise.flat[0], np.uint8)
    return noise
