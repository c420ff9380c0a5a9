"""Draw one synthetic radiograph: anatomy, exposure, windowing and markers."""

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.phantoms import exposure
from cbir.evaluation.datasets.phantoms.canvas import Attenuation, Canvas, PatientBody
from cbir.evaluation.datasets.phantoms.regions import REGIONS, PhantomRegion

MIN_SIZE, MAX_SIZE = 32, 4096
MAX_DRAWN = 1024  # pixels that anatomy is drawn at, then enlarged; the noise is always at full size
MIN_DRAWN = 144  # and at least this many, then reduced: thin bones need it
BY_NAME = {region.name: region for region in REGIONS}


@dataclass(frozen=True)
class PhantomFacts:
    """Ground truth of a phantom.

    label: class name. code: IRMA code TTTT-DDD-AAA-BBB. anatomy, view: in words. patient: synthetic id, shared
    by about four images; age in years, sex "F" or "M". visit: 0 or 1, a patient comes twice. modality ("CR",
    "DX", "MG"), body_part, view_position, laterality ("L", "R" or ""): as DICOM writes them. length: of the
    longer side, in mm.
    """

    label: str
    code: str
    anatomy: str
    view: str
    patient: str
    age: int
    sex: str
    visit: int
    modality: str
    body_part: str
    view_position: str
    laterality: str
    length: float


@dataclass(frozen=True, eq=False, kw_only=True)
class PhantomRadiograph(PhantomFacts):
    """A synthetic radiograph. pixels: (height, width) uint8, bright is dense."""

    pixels: NDArray[np.uint8] = field(repr=False)


def phantom_classes() -> tuple[PhantomRegion, ...]:
    """Return the classes, in the order in which `draw_phantom` cycles through them."""
    return REGIONS


def draw_phantom(index: int, seed: int = 0, size: int = 256, region: str | None = None) -> PhantomRadiograph:
    """Draw a phantom, determined by the four arguments alone.

    Parameters
    ----------
    index : int
        Number of the phantom, at least 0. Without `region` its class is number index % len(phantom_classes()).
    seed : int
        Seed of the patients, at least 0.
    size : int
        Pixels of the longer side, 32 to 4096; the anatomy does not depend on it.
    region : str, optional
        Class name.

    Raises
    ------
    InvalidInput
        For an unknown region or a number out of range.
    """
    check_side(size)
    facts, kind, body, person, pose = _plan(index, seed, region)
    pixels = _draw_pixels(kind, facts.laterality, size, body, person, pose)
    return PhantomRadiograph(**vars(facts), pixels=pixels)


def phantom_facts(index: int, seed: int = 0, region: str | None = None) -> PhantomFacts:
    """Return the ground truth of a phantom without drawing it.

    Parameters
    ----------
    index, seed : int
        As for `draw_phantom`.
    region : str, optional
        Class name.
    """
    return _plan(index, seed, region)[0]


def _plan(
    index: int, seed: int, region: str | None
) -> tuple[PhantomFacts, PhantomRegion, PatientBody, Generator, Generator]:
    if index < 0 or seed < 0:
        raise InvalidInput(f"index {index} and seed {seed} of a phantom must not be negative")
    if region is not None and region not in BY_NAME:
        raise InvalidInput(f"there is no phantom of {region!r}; there are {', '.join(BY_NAME)}")
    kind = BY_NAME[region] if region is not None else REGIONS[index % len(REGIONS)]
    # Each patient has four images: two adjacent classes, in two rounds through all classes.
    number = index // len(REGIONS) // 2 * ((len(REGIONS) + 1) // 2) + index % len(REGIONS) // 2
    region_number = REGIONS.index(kind)
    body = _body(np.random.default_rng([seed, number]), kind)
    person = np.random.default_rng([seed, number, region_number])
    pose = np.random.default_rng([seed, index, region_number, 1])
    side = ("L" if pose.random() < 0.5 else "R") if kind.sides else ""
    facts = PhantomFacts(
        label=kind.name,
        code=kind.code_of(side),
        anatomy=kind.anatomy,
        view=kind.direction,
        patient=f"PH{seed:04d}-{number:07d}",
        age=int(body.age),
        sex="F" if body.female else "M",
        visit=index // len(REGIONS) % 2,
        modality=kind.modality,
        body_part=kind.body_part,
        view_position=kind.view,
        laterality=side,
        length=kind.length,
    )
    return facts, kind, body, person, pose


def check_side(size: int) -> None:
    """Raise InvalidInput for a size out of range."""
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise InvalidInput(f"size {size} is out of range: the longer side is {MIN_SIZE} to {MAX_SIZE} pixels")


def _body(rng: Generator, kind: PhantomRegion) -> PatientBody:
    age = float(rng.uniform(20, 90))
    female = max(int(rng.integers(2)), int(kind.modality == "MG"))
    return PatientBody(
        build=float(np.clip(rng.normal(1.0, 0.1), 0.8, 1.25)),
        density=float(np.clip(rng.normal(1.08 - 0.0025 * (age - 20) * (1 + 0.4 * female), 0.08), 0.65, 1.3)),
        age=age,
        female=female,
        warp=np.stack([rng.uniform(0, 2 * np.pi, (2, 3)), rng.normal(0, 0.55, (2, 3))], 1),
    )


def _draw_pixels(
    kind: PhantomRegion, side: str, size: int, body: PatientBody, person: Generator, pose: Generator
) -> NDArray[np.uint8]:
    canvas = Canvas(kind.width, kind.height, min(max(size, MIN_DRAWN), MAX_DRAWN), body, person, pose)
    stature = person.normal(1.0, 0.03)
    turn = pose.normal(0, 3.2 if kind.sides and kind.modality == "CR" else 1.3)
    mirrored = np.array([-1.0 if side == "L" else 1.0, 1.0])
    canvas.look(pose.normal(0, 1.6, 2), stature * pose.uniform(0.95, 1.05) * mirrored, turn)
    kind.draw(canvas)
    mu = cv2.GaussianBlur(canvas.mu, (0, 0), 0.55 + canvas.unit * 0.06)
    width, height = (round(n * size / 100) for n in (kind.width, kind.height))
    if mu.shape != (height, width):
        reduce = cv2.INTER_AREA if size < MIN_DRAWN else cv2.INTER_CUBIC
        mu = cv2.resize(mu, (width, height), interpolation=reduce)
    return _develop_film(kind, side, np.maximum(mu, 0), pose)


def _develop_film(kind: PhantomRegion, side: str, mu: Attenuation, pose: Generator) -> NDArray[np.uint8]:
    """Apply exposure, tone curve, markers and burned-in text."""
    inside = exposure.collimation(mu.shape, pose)
    low, high = pose.normal(0.02, 0.03), pose.normal(1.06, 0.05)
    gamma, scatter = float(np.exp(pose.normal(0.0, 0.14))), pose.uniform(0.02, 0.12)
    photons = float(np.exp(pose.normal(np.log(6000), 0.5)))
    lead, strip, corner, edge = pose.random(4)
    breast = kind.modality == "MG"
    letter = side or ("R" if lead < 0.5 else "L")
    if lead < 0.8:
        # the patient's right is on the left of the picture; the letter of a breast is away from the chest wall
        left = letter == "R" if breast or not side else corner < 0.5
        x, y = 0.12 if left else 0.88, 0.1 if breast or corner < 0.7 else 0.88
        exposure.lead_letter(mu, letter, x, y, pose)
    detected = exposure.expose(mu, photons, scatter, pose)
    grey = exposure.develop(detected, inside > 0.5, float(low), float(high), gamma)
    border = 0.95 if edge < 0.07 and not breast else 0.01
    pixels = np.asarray(255 * (grey * inside + border * (1 - inside)) + 0.5, np.uint8)
    if strip < 0.15:
        exposure.text_strip(pixels, f"PHANTOM {int(corner * 9000 + 1000)}", above=corner < 0.5)
    return pixels
