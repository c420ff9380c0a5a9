"""Draw one synthetic radiograph of a class: anatomy, exposure, windowing and markers."""

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.phantoms.canvas import Attenuation, Canvas, PatientBody
from cbir.evaluation.datasets.phantoms.regions import REGIONS, PhantomRegion
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
    inside = collimation(mu.shape, pose)
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
        lead_letter(mu, letter, x, y, pose)
    detected = expose(mu, photons, scatter, pose)
    grey = develop(detected, inside > 0.5, float(low), float(high), gamma)
    border = 0.95 if edge < 0.07 and not breast else 0.01
    pixels = np.asarray(255 * (grey * inside + border * (1 - inside)) + 0.5, np.uint8)
    if strip < 0.15:
        text_strip(pixels, f"PHANTOM {int(corner * 9000 + 1000)}", above=corner < 0.5)
    return pixels
