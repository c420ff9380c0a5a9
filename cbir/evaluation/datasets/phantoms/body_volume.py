"""Drawn CT volumes of bodies with a known lesion: ellipsoids with the densities of organs."""

from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cbir.errors import InvalidInput

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


VISITS = 2  # series of a patient, each a study of its own

FIELD = 360.0  # mm, the side of a slice

SLICE_DISTANCE = 5.0  # mm

MIN_SLICES, MAX_SLICES = 1, 200

AIR = -1000.0

# By region: density in HU, centre and semi-axes in mm, and whether lesions are placed there.
# x points to the patient's left, y to the back, z to the head.
ORGANS: dict[str, tuple[tuple[float, tuple[float, float, float], tuple[float, float, float], bool], ...]] = {
    "chest": (
        (40, (0, 0, 0), (158, 108, 400), False),
        (-850, (-70, -2, 0), (56, 78, 110), True),
        (-850, (72, -2, 5), (54, 76, 105), True),
        (60, (18, -32, -35), (50, 42, 50), False),
        (180, (14, 38, 0), (13, 13, 400), False),
        (450, (0, 76, 0), (19, 17, 400), False),
        (350, (0, -97, 10), (17, 6, 70), False),
    ),
    "abdomen": (
        (-100, (0, 0, 0), (166, 118, 400), False),
        (40, (0, 0, 0), (148, 100, 400), False),
        (110, (-66, -14, 15), (72, 68, 75), True),
        (130, (98, 30, 30), (30, 38, 48), True),
        (190, (-64, 56, -35), (26, 28, 52), False),
        (190, (66, 54, -30), (26, 28, 52), False),
        (-400, (50, -52, 20), (40, 26, 36), False),
        (180, (8, 42, 0), (12, 12, 400), False),
        (450, (0, 76, 0), (22, 19, 400), False),
    ),
    "pelvis": (
        (-100, (0, 0, 0), (172, 112, 400), False),
        (50, (0, 0, 0), (146, 92, 400), False),
        (550, (-98, 12, 25), (26, 46, 62), False),
        (550, (98, 12, 25), (26, 46, 62), False),
        (500, (0, 72, 25), (46, 16, 66), False),
        (5, (0, -36, -25), (48, 36, 40), False),
        (30, (0, 14, 5), (68, 42, 60), True),
        (-500, (6, 46, -30), (18, 15, 48), False),
    ),
    "head": (
        (40, (0, 0, 0), (80, 102, 120), False),
        (950, (0, 0, 0), (76, 97, 114), False),
        (35, (0, 0, 0), (69, 89, 106), True),
        (8, (-13, -6, 5), (9, 36, 22), False),
        (8, (13, -6, 5), (9, 36, 22), False),
        (250, (0, -62, -75), (22, 12, 12), False),
    ),
}

REGION_NAMES = tuple(ORGANS)

Organs = list[tuple[float, NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True)
class SeriesFacts:
    """Ground truth of a drawn series.

    patient: synthetic id. visit: 0 or 1. region: of the body. kind: of the lesion, "none" without one. positions:
    height of each slice in the body, in mm. shows: whether each slice cuts the lesion. lesion: None without one.
    """

    patient: str
    visit: int
    region: str
    kind: str
    positions: tuple[float, ...]
    shows: tuple[bool, ...]
    lesion: Lesion | None = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class PhantomSeries(SeriesFacts):
    """A drawn CT series. voxels: (slices, size, size) int16 in HU, from the feet to the head."""

    voxels: NDArray[np.int16] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Pose:
    """Position of a body in the scanner: shift in mm, rotation about the long axis in radians."""

    x: float
    y: float
    angle: float


def draw_series(number: int, seed: int = 0, slices: int = 24, size: int = 128) -> PhantomSeries:
    """Draw a CT series, determined by the four arguments alone.

    Both series of a patient show the same body with the same lesion, in another pose, with other noise and the
    lesion up to a quarter larger or smaller.

    Parameters
    ----------
    number : int
        Number of the series, at least 0; two consecutive ones are of one patient.
    seed : int
        Seed of the patients, at least 0.
    slices : int
        Slices, 1 to 200, of SLICE_DISTANCE.
    size : int
        Pixels per side.
    """
    facts, organs, pose, random = _plan(number, seed, slices)
    across = ((np.arange(size) + 0.5) / size - 0.5) * FIELD
    x, y = across[None, None, :] - pose.x, across[None, :, None] - pose.y
    cosine, sine = np.cos(pose.angle), np.sin(pose.angle)
    points = (cosine * x + sine * y, cosine * y - sine * x, np.array(facts.positions)[:, None, None])
    values = np.full((slices, size, size), AIR, np.float32)
    for density, centre, radii in organs:
        inside = sum(((axis - at) / r) ** 2 for axis, at, r in zip(points, centre, radii, strict=True))
        values[inside < 1] = density
    if facts.lesion is not None:
        draw_lesion(values, facts.lesion, points)
    values += random.normal(0, random.uniform(12, 24), values.shape).astype(np.float32)
    return PhantomSeries(**vars(facts), voxels=np.clip(values, -1024, 3071).astype(np.int16))


def series_facts(number: int, seed: int = 0, slices: int = 24) -> SeriesFacts:
    """Return the ground truth of a series without drawing it.

    Parameters
    ----------
    number, seed, slices : int
        As for `draw_series`.
    """
    return _plan(number, seed, slices)[0]


def _plan(number: int, seed: int, slices: int) -> tuple[SeriesFacts, Organs, Pose, Generator]:
    if number < 0 or seed < 0:
        raise InvalidInput(f"number {number} and seed {seed} of a series must not be negative")
    check_slices(slices)
    patient, visit = divmod(number, VISITS)
    kind = KIND_NAMES[patient % len(KIND_NAMES)]
    region = REGION_NAMES[patient // len(KIND_NAMES) % len(REGION_NAMES)]
    body = np.random.default_rng([seed, patient, 2])
    organs, sites = _body_organs(region, body)
    lesion = None
    if kind != NO_LESION:
        lesion = place_lesion(LESION_KINDS[patient % len(KIND_NAMES)], sites[body.integers(len(sites))], body)
    random = np.random.default_rng([seed, patient, visit, 3])
    pose = Pose(random.uniform(-9, 9), random.uniform(-9, 9), np.radians(random.uniform(-4, 4)))
    middle = _middle(lesion, slices, random)
    positions = tuple(middle + (index - (slices - 1) / 2) * SLICE_DISTANCE for index in range(slices))
    if lesion is not None:
        lesion = grow(lesion, random.uniform(0.8, 1.25))
    facts = SeriesFacts(
        patient=f"PS{seed:04d}-{patient:07d}",
        visit=visit,
        region=region,
        kind=kind,
        positions=positions,
        shows=tuple(lesion is not None and lesion.is_cut_at(height) for height in positions),
        lesion=lesion,
    )
    return facts, organs, pose, random


def _body_organs(
    region: str, random: Generator
) -> tuple[Organs, list[tuple[NDArray[np.float64], NDArray[np.float64]]]]:
    """Return the organs of a body, each of its own size, place and density, and those that lesions are placed in."""
    build = random.uniform(0.9, 1.1, 3)
    organs: Organs = []
    sites = []
    for density, centre, radii, is_site in ORGANS[region]:
        at = np.array(centre) * build + (random.normal(0, 5, 3) if any(centre) else 0)
        size = np.array(radii) * build * (random.normal(1, 0.06, 3) if any(centre) else 1)
        organs.append((density + random.normal(0, 10), at, size))
        if is_site:
            sites.append((at, size))
    return organs, sites


def _middle(lesion: Lesion | None, slices: int, random: Generator) -> float:
    """Return the height of the middle of a series, which holds the centre of the lesion."""
    middle = random.uniform(-12, 12)
    if lesion is None:
        return middle
    reach = max((slices - 1) / 2 * SLICE_DISTANCE - lesion.radii[2] / 2, 0.0)
    height = float(lesion.centre[2])
    return float(np.clip(middle, height - reach, height + reach))


def check_slices(slices: int) -> None:
    """Raise InvalidInput for a number of slices out of range."""
    if not MIN_SLICES <= slices <= MAX_SLICES:
        raise InvalidInput(f"slices {slices} is out of range: {MIN_SLICES} to {MAX_SLICES}")
