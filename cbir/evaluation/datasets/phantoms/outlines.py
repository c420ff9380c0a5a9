"""Control points of the phantoms' outlines and profiles, read from outlines.toml."""

import tomllib
from importlib.resources import files

import numpy as np

from cbir.evaluation.datasets.phantoms.shapes import Points

OUTLINES: dict[str, dict[str, Points]] = {
    drawing: {name: np.array(points, float) for name, points in tables.items()}
    for drawing, tables in tomllib.loads(
        files(__package__).joinpath("outlines.toml").read_text(encoding="utf-8")
    ).items()
}


def grown(outline: Points, build: float) -> Points:
    """Return points (x + build * z, y) of an `outline` with rows (x, y, z)."""
    return outline[:, :2] + outline[:, 2:] * (build, 0.0)


def lowered(outline: Points, depth: float) -> Points:
    """Return points (x, y + depth * z) of an `outline` with rows (x, y, z)."""
    return outline[:, :2] + outline[:, 2:] * (0.0, depth)
