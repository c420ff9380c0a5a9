"""Lesions of drawn CT volumes: kinds by their density, and their drawing."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

NO_LESION = "none"
WALL_SHARE = 0.35  # of the radius, for lesions with a wall


@dataclass(frozen=True)
class LesionKind:
    """A kind of lesion. core, wall: densities in HU, equal for a lesion without a wall."""

    name: str
    core: float
    wall: float


# Densities as of textbooks for contrast-enhanced CT, further apart than in patients.
LESION_KINDS = (
    LesionKind("cyst", 0, 0),
    LesionKind("solid", 220, 220),
    LesionKind("calcified", 800, 800),
    LesionKind("fatty", -120, -120),
    LesionKind("cavity", -800, 120),
    LesionKind("ring", 10, 350),
)
KIND_NAMES = (*(kind.name for kind in LESION_KINDS), NO_LESION)


Point = tuple[float, float, float]


@dataclass(frozen=True)
class Lesion:
    """A lesion of a volume.

    kind: with its densities. centre: x, y and z in mm of the body. radius: in mm. shape: factors of the radius along
    x, y and z.
    """

    kind: LesionKind
    centre: Point
    radius: float
    shape: Point

    @property
    def radii(self) -> NDArray[np.float64]:
        """(3,) semi-axes in mm."""
        return self.radius * np.array(self.shape)

    def is_cut_at(self, height: float) -> bool:
        """Return whether a slice at this height in mm shows the lesion, with at least two thirds of its width."""
        return abs(height - self.centre[2]) < 0.75 * float(self.radii[2])


def grow(lesion: Lesion, factor: float) -> Lesion:
    """Return the lesion with `factor` times its radius."""
    return Lesion(lesion.kind, lesion.centre, lesion.radius * factor, lesion.shape)


def place_lesion(
    kind: LesionKind, organ: tuple[NDArray[np.float64], NDArray[np.float64]], random: Generator
) -> Lesion:
    """Place a lesion of random size at a random place in an organ.

    Parameters
    ----------
    kind : LesionKind
        Kind of lesion.
    organ : ((3,) float64, (3,) float64)
        Centre and semi-axes of the organ in mm.
    random : Generator
        Source of size, shape and place.
    """
    centre, radii = organ
    direction = random.normal(size=3)
    direction *= random.uniform(0, 0.6) / np.linalg.norm(direction)
    at, radius, shape = centre + direction * radii, random.uniform(9, 18), random.uniform(0.85, 1.15, 3)
    return Lesion(kind, tuple(at.tolist()), radius, tuple(shape.tolist()))


def draw_lesion(values: NDArray[np.float32], lesion: Lesion, points: tuple[NDArray[np.float64], ...]) -> None:
    """Draw a lesion into densities.

    Parameters
    ----------
    values : (slices, rows, columns) float32
        Densities in HU, changed in place.
    lesion : Lesion
        Lesion to draw.
    points : three arrays that broadcast to the shape of `values`
        x, y and z of the voxels in mm of the body.
    """
    inside = sum(
        ((axis - at) / radius) ** 2
        for axis, at, radius in zip(points, lesion.centre, lesion.radii, strict=True)
    )
    values[inside < 1] = lesion.kind.wall
    values[inside < (1 - WALL_SHARE) ** 2] = lesion.kind.core
