"""Outlines: smooth closed curves and tapered tubes from a few control points, in drawing units."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Points = NDArray[np.float64]  # (n, 2): x to the right, y down

SAMPLES = 6  # points between two control points of a curve
# (position along the axis 0..1, half width right, half width left)
Profile = Sequence[tuple[float, float, float]]


def _blend(steps: int) -> NDArray[np.float64]:
    """Return (steps, 4) weights of four neighbouring control points: Catmull-Rom (Catmull and Rom 1974)."""
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    return 0.5 * np.hstack(
        [-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, t**3 - t**2]
    )


@lru_cache(maxsize=128)
def _closed_basis(count: int) -> NDArray[np.float64]:
    basis = np.zeros((count * SAMPLES, count))
    for segment in range(count):
        for neighbour in range(4):
            column = (segment + neighbour - 1) % count
            basis[segment * SAMPLES : (segment + 1) * SAMPLES, column] += _blend(SAMPLES)[:, neighbour]
    return basis


@lru_cache(maxsize=128)
def _open_basis(count: int) -> NDArray[np.float64]:
    basis = np.zeros(((count - 1) * SAMPLES + 1, count))
    for segment in range(count - 1):
        for neighbour in range(4):
            column = min(max(segment + neighbour - 1, 0), count - 1)
            basis[segment * SAMPLES : (segment + 1) * SAMPLES, column] += _blend(SAMPLES)[:, neighbour]
    basis[-1, -1] = 1
    return basis


def closed_curve(points: ArrayLike) -> Points:
    """Return a smooth closed curve through the control points."""
    control = np.asarray(points, float)
    return np.asarray(_closed_basis(len(control)) @ control)


def open_curve(points: ArrayLike) -> Points:
    """Return a smooth open curve through the control points."""
    control = np.asarray(points, float)
    return np.asarray(_open_basis(len(control)) @ control)


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
    return np.add(np.asarray(points, float), [x, y])


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


def tube(path: ArrayLike, profile: Profile | float, width: float = 1.0) -> Points:
    """Return the outline of a bone along a path.

    Parameters
    ----------
    path : (n, 2) array_like
        Control points of the axis, n >= 2; it is smoothed.
    profile : float or sequence of (position, right, left)
        Half widths along the axis, "right" as on the screen when the path runs down the page; a number is a
        constant half width with rounded ends.
    width : float
        Factor of the half widths.
    """
    line = open_curve(path)
    steps = np.hypot(*np.diff(line, axis=0).T)
    along = np.concatenate([[0], np.cumsum(steps)])
    if isinstance(profile, int | float):
        cap = min(0.3, 0.6 * profile * width / along[-1])
        rows = [(0.0, 0.45), (cap, 0.95), (0.35, 1.0), (0.65, 1.0), (1 - cap, 0.95), (1.0, 0.45)]
        table = np.array([(t, profile * w, profile * w) for t, w in rows])
    else:
        table = np.array(profile, float)
    at = table[:, 0] * along[-1]
    centre = np.stack([np.interp(at, along, line[:, 0]), np.interp(at, along, line[:, 1])], 1)
    direction = np.gradient(line, axis=0)
    heading = np.stack([np.interp(at, along, direction[:, 0]), np.interp(at, along, direction[:, 1])], 1)
    heading /= np.hypot(heading[:, 0], heading[:, 1])[:, None]
    normal = np.stack([heading[:, 1], -heading[:, 0]], 1) * width
    return np.asarray(
        np.concatenate([centre + normal * table[:, 1:2], (centre - normal * table[:, 2:3])[::-1]])
    )
