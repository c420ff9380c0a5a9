"""Smooth closed curves and tapered tubes from a few control points, in drawing units; those of outlines.toml."""

import tomllib
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

Points = NDArray[np.float64]  # (n, 2): x to the right, y down

SAMPLES = 6  # points between two control points of a curve


def _blend(steps: int) -> NDArray[np.float64]:
    """Return (steps, 4) weights of four neighbouring control points: Catmull-Rom (Catmull and Rom 1974)."""
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    return 0.5 * np.hstack(
        [-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, t**3 - t**2]
    )


@lru_cache(maxsize=128)
def _basis(count: int, closed: bool) -> NDArray[np.float64]:
    """Return the weights of `count` control points in the points of a curve."""
    segments = count if closed else count - 1
    basis = np.zeros((segments * SAMPLES + (not closed), count))
    for segment in range(segments):
        for neighbour in range(4):
            column = segment + neighbour - 1
            column = column % count if closed else min(max(column, 0), count - 1)
            basis[segment * SAMPLES : (segment + 1) * SAMPLES, column] += _blend(SAMPLES)[:, neighbour]
    if not closed:
        basis[-1, -1] = 1
    return basis


def closed_curve(points: ArrayLike) -> Points:
    """Return a smooth closed curve through the control points."""
    control = np.asarray(points, float)
    return np.asarray(_basis(len(control), True) @ control)


def open_curve(points: ArrayLike) -> Points:
    """Return a smooth open curve through the control points."""
    control = np.asarray(points, float)
    return np.asarray(_basis(len(control), False) @ control)


def arc_length(line: Points) -> NDArray[np.float64]:
    """Return the distance of each point from the first, along the line."""
    return np.concatenate([[0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])


def resample(values: Points, positions: Points, at: Points) -> Points:
    """Interpolate values linearly.

    Parameters
    ----------
    values : (n, 2) float64
        Values to interpolate.
    positions : (n,) float64
        Their positions, ascending.
    at : (m,) float64
        Positions of the results.
    """
    return np.stack([np.interp(at, positions, column) for column in values.T], 1)


def ellipse(x: float, y: float, rx: float, ry: float, angle: float = 0.0, count: int = 12) -> Points:
    """Return control points of an ellipse.

    Parameters
    ----------
    x, y : float
        Centre.
    rx, ry : float
        Semi-axes.
    angle : float
        Rotation in degrees, clockwise on the screen.
    count : int
        Number of points.
    """
    t = np.linspace(0, 2 * np.pi, count, endpoint=False)
    return rotate(np.stack([x + rx * np.cos(t), y + ry * np.sin(t)], 1), angle, (x, y))


def rotate(points: ArrayLike, degrees: float, about: ArrayLike = (0.0, 0.0)) -> Points:
    """Rotate points.

    Parameters
    ----------
    points : (n, 2) array_like
        Points.
    degrees : float
        Angle, clockwise on the screen.
    about : (2,) array_like
        Centre of the rotation.
    """
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    centre = np.asarray(about, float)
    return np.asarray((np.asarray(points, float) - centre) @ np.array([[c, s], [-s, c]]) + centre)


def translate(points: ArrayLike, x: float, y: float) -> Points:
    """Shift points.

    Parameters
    ----------
    points : (n, 2) array_like
        Points.
    x, y : float
        Distance to the right and down.
    """
    return np.asarray(np.add(points, (x, y)), float)


def transform_shape(
    points: ArrayLike, x: float, y: float, scale: ArrayLike = 1.0, degrees: float = 0.0
) -> Points:
    """Scale and rotate a shape about the origin, and shift it.

    Parameters
    ----------
    points : (n, 2) array_like
        Shape around the origin.
    x, y : float
        New position of the origin.
    scale : float or (2,) array_like
        Enlargement.
    degrees : float
        Rotation, clockwise on the screen.
    """
    return translate(rotate(np.asarray(points, float) * np.asarray(scale, float), degrees), x, y)


def mirror(points: ArrayLike) -> Points:
    """Mirror points about x = 0."""
    return np.asarray(points, float) * (-1.0, 1.0)


def tube(path: ArrayLike, profile: ArrayLike, width: float = 1.0) -> Points:
    """Return the outline of a bone along a path.

    Parameters
    ----------
    path : (n, 2) array_like
        Control points of the axis, n >= 2; it is smoothed.
    profile : float or sequence of (position, right, left) or (position, half width)
        Positions from 0 to 1 and half widths along the axis, "right" as on the screen when the path runs down the
        page; a number is a constant half width with rounded ends.
    width : float
        Factor of the half widths.
    """
    line = open_curve(path)
    along = arc_length(line)
    if isinstance(profile, int | float):
        cap = min(0.3, 0.6 * profile * width / along[-1])
        shares = [(0.0, 0.45), (cap, 0.95), (0.35, 1.0), (0.65, 1.0), (1 - cap, 0.95), (1.0, 0.45)]
        profile = [(t, profile * share) for t, share in shares]
    table = np.asarray(profile, float)[:, [0, 1, -1]]
    at = table[:, 0] * along[-1]
    centre = resample(line, along, at)
    heading = resample(np.gradient(line, axis=0), along, at)
    heading /= np.hypot(heading[:, 0], heading[:, 1])[:, None]
    normal = np.stack([heading[:, 1], -heading[:, 0]], 1) * width
    return np.concatenate([centre + normal * table[:, 1:2], (centre - normal * table[:, 2:3])[::-1]])


def along(path: ArrayLike, count: int, growth: float = 1.0) -> list[tuple[Points, float, float]]:
    """Return segments down a spine: centre, height and lean in degrees.

    Parameters
    ----------
    path : (n, 2) array_like
        Control points of the axis.
    count : int
        Number of segments.
    growth : float
        Height of a segment over that of the one above.
    """
    line = open_curve(path)
    lengths, distance = growth ** np.arange(count), arc_length(line)
    edges = np.concatenate([[0], np.cumsum(lengths)]) / lengths.sum() * distance[-1]
    corners = resample(line, distance, edges)
    segments = []
    for a, b in pairwise(corners):
        d = b - a
        segments.append(((a + b) / 2, float(np.hypot(*d)), float(np.degrees(np.arctan2(-d[0], d[1])))))
    return segments


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
