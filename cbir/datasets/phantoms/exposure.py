"""From attenuation to a picture: scatter, quantum noise, window and tone curve, collimation, marker."""

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cbir.datasets.phantoms.canvas import Attenuation

LEAD = 2.2


def expose(mu: Attenuation, photons: float, scatter: float, noise: Generator) -> Attenuation:
    """Attenuation as the detector sees it: Beer-Lambert, scattered light, quantum noise, logarithm.

    photons: quanta in one pixel without a patient; scatter: scattered over primary radiation.
    """
    primary = np.exp(-mu)
    small = cv2.resize(primary, (mu.shape[1] // 8 + 1, mu.shape[0] // 8 + 1), interpolation=cv2.INTER_AREA)
    haze = cv2.GaussianBlur(small, (0, 0), max(small.shape) / 9)
    signal = primary + scatter * cv2.resize(haze, (mu.shape[1], mu.shape[0]), interpolation=cv2.INTER_LINEAR)
    quanta = noise.standard_normal(mu.shape, dtype=np.float32) * np.sqrt(signal / np.float32(photons))
    return np.asarray(-np.log(np.maximum(signal + quanta, 1e-4)), np.float32)


def develop(
    seen: Attenuation, field: NDArray[np.bool_], low: float, high: float, gamma: float
) -> Attenuation:
    """Grey values 0..1: the window spans the attenuations inside the field, then a soft S-shaped tone curve.

    low, high: where the window begins and ends, as shares of the range between the 1 % and 99.7 % points.
    """
    sample = seen[::2, ::2][field[::2, ::2]]
    if not sample.size:
        sample = seen.ravel()
    bottom, middle, top = np.percentile(sample, [1, 50, 99.7])
    bottom = min(bottom, 0.5 * middle)  # without air in the field, flesh is not black
    span = max(top - bottom, 1e-3)
    grey = np.clip((seen - (bottom + low * span)) / ((high - low) * span), 0, 1)
    grey = np.power(grey, np.float32(gamma))
    return np.asarray(0.75 * grey + 0.25 * grey * grey * (3 - 2 * grey), np.float32)


def collimation(shape: tuple[int, int], pose: Generator) -> NDArray[np.float32]:
    """1 inside the rectangle that the collimator lets through, 0 outside; often the whole picture."""
    height, width = shape
    mask = np.ones(shape, np.float32)
    inset = pose.uniform(0.0, 0.075, 4) * (width, width, height, height)
    angle = float(pose.normal(0, 1.2))
    if pose.random() < 0.45:
        return mask
    x0, x1, y0, y1 = inset[0], width - inset[1], inset[2], height - inset[3]
    corners = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
    c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    middle = corners.mean(0)
    turned = (corners - middle) @ np.array([[c, s], [-s, c]]) + middle
    mask[:] = 0
    cv2.fillPoly(mask, [np.round(turned * 16).astype(np.int32)], 1.0, cv2.LINE_8, 4)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), max(width, height) / 400 + 0.3), np.float32)


def lead_letter(mu: Attenuation, letter: str, x: float, y: float, pose: Generator) -> None:
    """The lead L or R that lay on the cassette, centred at (x, y) as shares of width and height."""
    height, width = mu.shape
    size = max(mu.shape)
    scale = size / 640 * pose.uniform(0.9, 1.3)
    thick = max(round(size / 160), 1)
    (across, up), _ = cv2.getTextSize(letter, cv2.FONT_HERSHEY_DUPLEX, scale, thick)
    stamp = np.zeros((up * 3, up * 3), np.uint8)
    cv2.putText(
        stamp,
        letter,
        ((up * 3 - across) // 2, up * 2),
        cv2.FONT_HERSHEY_DUPLEX,
        scale,
        255,
        thick,
        cv2.LINE_AA,
    )
    if pose.random() < 0.3:
        cv2.circle(stamp, (up * 3 // 2, up * 3 // 2), int(up * 1.2), 255, max(thick // 2, 1), cv2.LINE_AA)
    spin = cv2.getRotationMatrix2D((up * 1.5, up * 1.5), float(pose.normal(0, 6)), 1)
    turned = cv2.warpAffine(stamp, spin, (up * 3, up * 3))
    top = int(np.clip(y * height - up * 1.5, 0, height - up * 3))
    left = int(np.clip(x * width - up * 1.5, 0, width - up * 3))
    mu[top : top + up * 3, left : left + up * 3] += turned * np.float32(LEAD / 255)


def text_strip(pixels: NDArray[np.uint8], words: str, above: bool) -> None:
    """Burned-in words along the upper or lower edge, in place."""
    height = pixels.shape[0]
    scale = max(pixels.shape) / 900
    line = cv2.FONT_HERSHEY_SIMPLEX
    (_, up), _ = cv2.getTextSize(words, line, scale, 1)
    at = (max(up // 2, 2), up + max(up // 2, 2) if above else height - max(up // 2, 2))
    cv2.putText(pixels, words, at, line, scale, 235, 1, cv2.LINE_AA)
