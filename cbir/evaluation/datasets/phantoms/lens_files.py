"""Folders of drawn slit-lamp images, with a manifest of their grades and the outlines of their lenses."""

import csv
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np

from cbir.descriptors.lens_files import format_outlines
from cbir.evaluation.datasets.phantoms.lens_phantom import LensPhantom, check_height, draw_lens
from cbir.evaluation.datasets.phantoms.phantom_files import check_numbers, writable_folder, write_file
from cbir.images.thumbnail import encode_image

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
    table, outlines = StringIO(), []
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(LENS_COLUMNS)
    with writable_folder(folder, {"format": "slit-lamp", "seed": seed, "size": size}):
        for index in range(count):
            name, lens = f"lens-{index:06d}.png", _draw(index, seed, height)
            if not (folder / name).exists():
                write_file(folder / name, encode_image(lens.pixels, ".png"))
            outlines.append((name, lens.contour))
            rows.writerow(
                (name, f"{np.rint(lens.grade):.0f}", f"{lens.grade:.3f}", f"lens-{index:06d}", "OP", "lens")
            )
            if on_progress is not None:
                on_progress(index + 1)
        write_file(folder / "outlines.csv", format_outlines(outlines).encode())
        manifest = folder / "manifest.csv"
        write_file(manifest, table.getvalue().encode())
    return manifest


def _draw(index: int, seed: int, height: int) -> LensPhantom:
    """Draw a lens that depends on its index, the seed and the height alone."""
    random = np.random.default_rng([seed, index])
    return draw_lens(random.uniform(*SEVERITIES), random, height)
