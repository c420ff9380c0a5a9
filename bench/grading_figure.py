"""Figure 5 of Huang et al. 2010: the same images in the order of four rankers, with the errors marked."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from cbir.system.files import write_bytes

RIGHT, WRONG = "#333333", "#c0392b"
COLOURS = 96  # of the file
COLUMNS = (0.27, 0.77)  # of a picture that are shown: the lens


def ranking_errors(order: NDArray[np.int64], grades: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return, for each position of an order, whether its image has another grade than in a perfect order."""
    return np.asarray(grades[order] != np.sort(grades)[::-1])


def draw_rankings(
    pictures: list[NDArray[np.uint8]],
    grades: NDArray[np.float64],
    orders: Mapping[str, NDArray[np.int64]],
    path: Path,
) -> None:
    """Write a figure with a row of pictures for each order, from the severest.

    Parameters
    ----------
    pictures : list of (h, w, 3) uint8
        The images.
    grades : (n,) float64
        Their whole grades.
    orders : mapping of str to (n,) int
        Images in the order of each ranker, by its name.
    path : Path
        PNG file.
    """
    figure = Figure(figsize=(0.55 * len(pictures), 1.3 * len(orders)), dpi=110)
    canvas = FigureCanvasAgg(figure)
    margins = {"left": 0.005, "right": 0.995, "bottom": 0.04, "top": 0.95, "wspace": 0.08, "hspace": 0.45}
    rows = figure.subplots(len(orders), len(pictures), squeeze=False, gridspec_kw=margins)
    for axes, (name, order) in zip(rows, orders.items(), strict=True):
        errors = ranking_errors(order, grades)
        axes[0].text(0, 1.06, f"{name}: {errors.sum()} errors", transform=axes[0].transAxes, fontsize=9)
        for place, image, wrong in zip(axes, order, errors, strict=True):
            left, right = (int(share * pictures[image].shape[1]) for share in COLUMNS)
            place.imshow(pictures[image][:, left:right])
            label = f"[{grades[image]:.0f}]" if wrong else f"{grades[image]:.0f}"
            place.set_xlabel(label, color=WRONG if wrong else RIGHT, fontsize=9, labelpad=2)
            place.set(xticks=[], yticks=[])
            for spine in place.spines.values():
                spine.set(color=WRONG if wrong else RIGHT, linewidth=2 if wrong else 0.5)
    canvas.draw()
    drawn = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    content = BytesIO()
    drawn.quantize(COLOURS).save(content, "PNG", optimize=True)
    write_bytes(path, content.getvalue())
