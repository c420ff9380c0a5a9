"""Synthetic slit-lamp images of a lens with known contour, opacity and features, and folders of them.

The lens appears as in a slit beam, with its flatter, anterior surface to the left. In lens coordinates u runs along
the visual axis from -1 (anterior pole) to 1 (posterior pole), and t vertically from -1 to 1. Opacity brightens the
nucleus, fills the sulcus between its two lentils, darkens everything behind, and turns the posterior reflex from pale
to brown.
"""

import colorsys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cbir.descriptors.lens_files import format_outlines
from cbir.errors import InvalidInput
from cbir.evaluation.datasets.phantoms.phantom_files import check_numbers, writable_folder, write_file
from cbir.images.scaling import encode_image
from cbir.system.files import csv_text

Floats = NDArray[np.float64]

LANDMARKS = 32  # from the anterior pole over the top, the posterior pole and the bottom

GRADES = (0.0, 5.0)

SIZES = (64, 1536)

NUCLEUS, SULCUS = 0.55, 0.12  # half widths in u

REFLEX = (0.86, 0.16)  # where it begins in u, half its height in t

SOFT = 0.02  # width in u of the transitions

NOISE = 0.02

TO_GREY = np.array([0.299, 0.587, 0.114])


class LensFeatures(NamedTuple):
    """True features of a phantom in the order of `FEATURES`; all but the ratio are from 0 to 1."""

    mean_intensity: float
    hue: float
    saturation: float
    value: float
    sulcus_intensity: float
    lentil_ratio: float


@dataclass(frozen=True, eq=False)
class LensPhantom:
    """RGB pixels (height, width, 3) uint8 in the ratio 4:3; contour (32, 2) float64, x and y in pixels."""

    pixels: NDArray[np.uint8]
    contour: Floats
    grade: float
    truth: LensFeatures


class _Lens(NamedTuple):
    """Half axes in shares of the height, position of the middle, and rotation in radians."""

    front: float
    back: float
    up: float
    x: float
    y: float
    turn: float


class _Look(NamedTuple):
    """Intensities of cortex, lentils and sulcus, and the colour (HSV) of the reflex."""

    cortex: float
    anterior: float
    posterior: float
    sulcus: float
    reflex: tuple[float, float, float]


def draw_lens(grade: float, generator: Generator, height: int = 120, scatter: float = 1.0) -> LensPhantom:
    """Draw a phantom with a random lens.

    Parameters
    ----------
    grade : float
        0 (clear) to 5 (brown).
    generator : np.random.Generator
        Random numbers.
    height : int
        Pixels, 64 to 1536.
    scatter : float
        Factor of the variation between people of one grade; above 1 makes grading harder.

    Raises
    ------
    InvalidInput
        If a value is out of range.
    """
    if not GRADES[0] <= grade <= GRADES[1]:
        raise InvalidInput(f"the grade of a phantom is from {GRADES[0]:g} to {GRADES[1]:g}, not {grade}")
    check_height(height)
    lens, look = _lens(generator), _look(grade, generator, scatter)
    width = height * 4 // 3
    x, y = np.meshgrid((np.arange(width) + 0.5) / height, (np.arange(height) + 0.5) / height)
    u, t, inside = _coordinates(lens, x, y)
    intensity = _intensity(look, u, t)
    colour = np.array(colorsys.hsv_to_rgb(look.reflex[0], 0.35 * look.reflex[1], 1.0))
    reflex = inside & (u > REFLEX[0]) & (np.abs(t) < REFLEX[1])
    picture = _surroundings(x, y, lens)[:, :, None] * np.array([1.0, 0.95, 0.9])
    # Conversion to grey restores the intensity of the lens.
    picture[inside] = (intensity[inside] / (colour @ TO_GREY))[:, None] * colour
    picture[reflex] = colorsys.hsv_to_rgb(*look.reflex)
    picture = np.clip(picture, 0.0, 1.0)
    mean = float((picture[inside] @ TO_GREY).mean())
    picture = cv2.GaussianBlur(picture, (0, 0), 0.004 * height)
    picture += NOISE * generator.standard_normal(picture.shape)
    pixels = np.rint(np.clip(picture, 0.0, 1.0) * 255).astype(np.uint8)
    truth = LensFeatures(mean, *look.reflex, float(look.sulcus), float(look.anterior / look.posterior))
    return LensPhantom(pixels, _contour(lens) * height - 0.5, float(grade), truth)


def check_height(height: int) -> None:
    """Raise InvalidInput if no phantom has this height in pixels."""
    if not SIZES[0] <= height <= SIZES[1]:
        raise InvalidInput(f"the height of a phantom is from {SIZES[0]} to {SIZES[1]} pixels, not {height}")


def _lens(generator: Generator) -> _Lens:
    vary = generator.uniform(-1.0, 1.0, 6)
    return _Lens(
        front=0.20 * (1 + 0.15 * vary[0]),
        back=0.27 * (1 + 0.15 * vary[1]),
        up=0.38 * (1 + 0.10 * vary[2]),
        x=0.67 + 0.06 * vary[3],
        y=0.50 + 0.04 * vary[4],
        turn=np.radians(6.0) * vary[5],
    )


def _look(grade: float, generator: Generator, factor: float) -> _Look:
    """Draw features that follow the grade, with variation between people."""
    scatter = factor * generator.standard_normal(6)
    anterior = float(np.clip(0.34 + 0.085 * grade + 0.025 * scatter[0], 0.15, 0.95))
    ratio = max(1.0 + 0.12 * grade + 0.05 * scatter[1], 0.7)
    posterior = anterior / ratio
    sulcus = min(0.14 + 0.055 * grade + 0.02 * scatter[2], 0.75 * posterior)
    hue = np.clip(0.16 - 0.02 * grade + 0.006 * scatter[3], 0.02, 0.2)
    saturation = np.clip(0.20 + 0.12 * grade + 0.05 * scatter[4], 0.05, 0.95)
    value = np.clip(0.95 - 0.07 * grade + 0.03 * scatter[5], 0.3, 1.0)
    reflex = float(hue), float(saturation), float(value)
    return _Look(0.45 * posterior, anterior, posterior, max(sulcus, 0.02), reflex)


def _coordinates(lens: _Lens, x: Floats, y: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return u and t of points, and a mask of those in the lens."""
    dx, dy = x - lens.x, y - lens.y
    along = dx * np.cos(lens.turn) + dy * np.sin(lens.turn)
    t = (dy * np.cos(lens.turn) - dx * np.sin(lens.turn)) / lens.up
    reach = np.maximum(1.0 - t * t, 1e-9)
    u = along / (np.where(along < 0, lens.front, lens.back) * reach)
    return u, t, (np.abs(t) < 1) & (np.abs(u) < 1)


def _contour(lens: _Lens) -> Floats:
    """Return the landmarks in shares of the height."""
    around = 2 * np.pi * np.arange(LANDMARKS) / LANDMARKS
    t = -np.sin(around)
    along = np.where(np.cos(around) > 0, -lens.front, lens.back) * np.cos(around) ** 2
    c, s = np.cos(lens.turn), np.sin(lens.turn)
    across = t * lens.up
    return np.stack([lens.x + along * c - across * s, lens.y + along * s + across * c], axis=1)


def _rise(values: Floats, position: float) -> Floats:
    """Rise from 0 to 1 around `position`."""
    return 0.5 * (1.0 + np.tanh((values - position) / SOFT))


def _intensity(look: _Look, u: Floats, t: Floats) -> Floats:
    """Return the intensity of the cortex and, in it, the nucleus: anterior lentil, sulcus, posterior lentil."""
    lentils = look.anterior + (look.sulcus - look.anterior) * _rise(u, -SULCUS)
    lentils = lentils + (look.posterior - look.sulcus) * _rise(u, SULCUS)
    nucleus = 1.0 - _rise(np.hypot(u, NUCLEUS * t / 0.8), NUCLEUS)
    return look.cortex + (lentils - look.cortex) * nucleus


def _surroundings(x: Floats, y: Floats, lens: _Lens) -> Floats:
    """Return a dark eye with the bright arc of the cornea in front of the lens."""
    away = np.hypot(x - lens.x - 0.15, (y - lens.y) * 0.8)
    return 0.05 + 0.55 * np.exp(-(((away - 0.62) / 0.025) ** 2))


LENS_COLUMNS = ("path", "grade", "severity", "patient", "modality", "anatomy")

SEVERITIES = (0.5, 4.5)  # so that rounded grades are 1 to 4


def write_lens_phantoms(
    folder: Path,
    count: int,
    *,
    seed: int = 0,
    size: int = 256,
    on_progress: Callable[[int], None] | None = None,
) -> Path:
    """Write lenses 0 to count - 1 as lens-000000.png, outlines.csv, and their manifest last.

    Parameters
    ----------
    folder : Path
        Folder, created if needed.
    count : int
        Number of lenses, at least 1, of a patient each.
    seed : int
        Seed of the patients, at least 0.
    size : int
        Pixels of the longer side, 86 to 2048; the other is three quarters of it.
    on_progress : callable, optional
        Called after every image with their number so far.

    Returns
    -------
    Path
        The manifest, `manifest.csv`, with the true severity, 0.5 to 4.5, and the grade, its nearest whole number.

    Raises
    ------
    InvalidInput
        For a value out of range, or a folder that cannot be written or holds phantoms of other settings.
    """
    check_numbers(count, seed, "phantom")
    height = size * 3 // 4
    check_height(height)
    folder = Path(folder)
    rows: list[Sequence[str]] = [LENS_COLUMNS]
    outlines = []
    with writable_folder(folder, {"format": "slit-lamp", "seed": seed, "size": size}):
        for index in range(count):
            name, lens = f"lens-{index:06d}.png", _draw(index, seed, height)
            if not (folder / name).exists():
                write_file(folder / name, encode_image(lens.pixels, ".png"))
            outlines.append((name, lens.contour))
            rows.append(
                (name, f"{np.rint(lens.grade):.0f}", f"{lens.grade:.3f}", f"lens-{index:06d}", "OP", "lens")
            )
            if on_progress is not None:
                on_progress(index + 1)
        write_file(folder / "outlines.csv", format_outlines(outlines).encode())
        manifest = folder / "manifest.csv"
        write_file(manifest, csv_text(rows).encode())
    return manifest


def _draw(index: int, seed: int, height: int) -> LensPhantom:
    """Draw a lens that depends on its index, the seed and the height alone."""
    random = np.random.default_rng([seed, index])
    return draw_lens(random.uniform(*SEVERITIES), random, height)
