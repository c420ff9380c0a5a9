"""Attenuation to pixels: scatter, quantum noise, window and tone curve, collimation, marker."""

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cbir.evaluation.datasets.phantoms.canvas import Attenuation
from cbir.evaluation.datasets.phantoms.shapes import rotate

LEAD = 2.2


def expose(mu: Attenuation, photons: float, scatter: float, noise: Generator) -> Attenuation:
    """Return the attenuation that the detector measures: Beer-Lambert, scatter, quantum noise, logarithm.

    Parameters
    ----------
    mu : (height, width) float32
        Attenuation.
    photons : float
        Quanta in one pixel without a patient.
    scatter : float
        Scattered over primary radiation.
    noise : Generator
        Random numbers of the quantum noise.
    """
    primary = np.exp(-mu)
    small = cv2.resize(primary, (mu.shape[1] // 8 + 1, mu.shape[0] // 8 + 1), interpolation=cv2.INTER_AREA)
    haze = cv2.GaussianBlur(small, (0, 0), max(small.shape) / 9)
    signal = primary + scatter * cv2.resize(haze, (mu.shape[1], mu.shape[0]), interpolation=cv2.INTER_LINEAR)
    quanta = noise.standard_normal(mu.shape, dtype=np.float32) * np.sqrt(signal / np.float32(photons))
    return np.asarray(-np.log(np.maximum(signal + quanta, 1e-4)), np.float32)


def develop(
    detected: Attenuation, field: NDArray[np.bool_], low: float, high: float, gamma: float
) -> Attenuation:
    """Return grey values 0 to 1: a window over the attenuations inside the field, then a soft S-shaped tone curve.

    Parameters
    ----------
    detected : (height, width) float32
        Attenuation.
    field : (height, width) bool
        Pixels inside the collimation.
    low, high : float
        Ends of the window, as shares of the range between the 1 % and 99.7 % points.
    gamma : float
        Exponent of the tone curve.
    """
    sample = detected[::2, ::2][field[::2, ::2]]
    if not sample.size:
        sample = detected.ravel()
    bottom, middle, top = np.percentile(sample, [1, 50, 99.7])
    bottom = min(bottom, 0.5 * middle)  # without air in the field, flesh is not black
    span = max(top - bottom, 1e-3)
    grey = np.clip((detected - (bottom + low * span)) / ((high - low) * span), 0, 1)
    grey = np.power(grey, np.float32(gamma))
    return np.asarray(0.75 * grey + 0.25 * grey * grey * (3 - 2 * grey), np.float32)


def collimation(shape: tuple[int, int], pose: Generator) -> NDArray[np.float32]:
    """Return 1 inside the rectangle that the collimator leaves open, 0 outside; often it is the whole picture."""
    height, width = shape
    inset = pose.uniform(0.0, 0.075, 4) * (width, width, height, height)
    angle = float(pose.normal(0, 1.2))
    if pose.random() < 0.45:
        return np.ones(shape, np.float32)
    x0, x1, y0, y1 = inset[0], width - inset[1], inset[2], height - inset[3]
    corners = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
    turned, mask = rotate(corners, angle, corners.mean(0)), np.zeros(shape, np.float32)
    cv2.fillPoly(mask, [np.round(turned * 16).astype(np.int32)], 1.0, cv2.LINE_8, 4)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), max(width, height) / 400 + 0.3), np.float32)


def lead_letter(mu: Attenuation, letter: str, x: float, y: float, pose: Generator) -> None:
    """Add the lead letter on the cassette, in place.

    Parameters
    ----------
    mu : (height, width) float32
        Attenuation.
    letter : {"L", "R"}
        Letter.
    x, y : float
        Centre, as shares of width and height.
    pose : Generator
        Random numbers of size, frame and tilt.
    """
    height, width = mu.shape
    size = max(mu.shape)
    scale = size / 640 * pose.uniform(0.9, 1.3)
    thick = max(round(size / 160), 1)
    (across, up), _ = cv2.getTextSize(letter, cv2.FONT_HERSHEY_DUPLEX, scale, thick)
    stamp = np.zeros((up * 3, up * 3), np.uint8)
    start = ((up * 3 - across) // 2, up * 2)
    cv2.putText(stamp, letter, start, cv2.FONT_HERSHEY_DUPLEX, scale, 255, thick, cv2.LINE_AA)
    if pose.random() < 0.3:
        cv2.circle(stamp, (up * 3 // 2, up * 3 // 2), int(up * 1.2), 255, max(thick // 2, 1), cv2.LINE_AA)
    spin = cv2.getRotationMatrix2D((up * 1.5, up * 1.5), float(pose.normal(0, 6)), 1)
    turned = cv2.warpAffine(stamp, spin, (up * 3, up * 3))
    top = int(np.clip(y * height - up * 1.5, 0, height - up * 3))
    left = int(np.clip(x * width - up * 1.5, 0, width - up * 3))
    mu[top : top + up * 3, left : left + up * 3] += turned * np.float32(LEAD / 255)


def text_strip(pixels: NDArray[np.uint8], words: str, above: bool) -> None:
    """Burn text into the upper or lower edge, in place.

    Parameters
    ----------
    pixels : (height, width) uint8
        Picture.
    words : str
        Text.
    above : bool
        At the upper edge.
    """
    height = pixels.shape[0]
    scale = max(pixels.shape) / 900
    line = cv2.FONT_HERSHEY_SIMPLEX
    (_, up), _ = cv2.getTextSize(words, line, scale, 1)
    at = (max(up // 2, 2), up + max(up // 2, 2) if above else height - max(up // 2, 2))
    cv2.putText(pixels, words, at, line, scale, 235, 1, cv2.LINE_AA)
