"""Canvas that adds shapes of tissue, air and bone up as X-ray attenuation."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from cbir.evaluation.datasets.phantoms.shapes import Points, closed_curve, open_curve

Attenuation = NDArray[np.float32]

SHIFT = 4  # binary places of a polygon corner below one pixel
TILE = 2048
WAVES = 0.055 * np.array([[1.0, -0.5, 1.6], [0.4, 1.1, -1.3]])  # of the distortion, radians a unit


@dataclass(frozen=True)
class PatientBody:
    """Anatomy that all images of one patient share.

    build: soft tissue and its thickness, 1 is average. density: mineral in the bones, 1 is average.
    age: 20 to 90 years. female: 0 or 1, for the shape of the pelvis.
    warp: (2, 2, 3) for x and y, phases and amplitudes of the waves whose sum makes the anatomy individual.
    """

    build: float
    density: float
    age: float
    female: int
    warp: NDArray[np.float64]


@lru_cache(maxsize=1)
def _grain() -> Attenuation:
    """Return cancellous bone: band-limited noise of deviation 1 with rather upright trabeculae."""
    noise = np.random.default_rng(7).standard_normal((TILE, TILE), dtype=np.float32)
    fine = cv2.GaussianBlur(noise, (0, 0), 0.8, sigmaY=1.6) - cv2.GaussianBlur(noise, (0, 0), 2.6)
    coarse = cv2.GaussianBlur(noise[::-1], (0, 0), 4) - cv2.GaussianBlur(noise[::-1], (0, 0), 12)
    return np.asarray(0.7 * fine / fine.std() + 0.7 * coarse / coarse.std(), np.float32)


@lru_cache(maxsize=1)
def _clouds() -> Attenuation:
    """Return uneven tissue: noise of deviation 1 whose amplitude falls as frequency to the power 1.6; 128 x 128."""
    noise = np.fft.fft2(np.random.default_rng(11).standard_normal((128, 128)))
    frequency = np.hypot(np.fft.fftfreq(128)[:, None], np.fft.fftfreq(128)[None])
    frequency[0, 0] = np.inf
    cloud = np.fft.ifft2(noise / frequency**1.6).real
    return np.asarray(cloud / cloud.std(), np.float32)


def _chord(depth: Attenuation, radius: float) -> Attenuation:
    """Return half the path through a round body, `depth` inside its edge; flat beyond the radius."""
    outside = np.clip(1 - depth / max(radius, 1e-3), 0, 1)
    return np.asarray(radius * np.sqrt(1 - outside * outside), np.float32)


class Canvas:
    """A field of attenuation, 100 drawing units along its longer side, the origin in its middle.

    Parameters
    ----------
    width, height : float
        Size in drawing units.
    pixels : int
        Pixels of the longer side.
    body : PatientBody
        Anatomy of the patient.
    person, pose : Generator
        Random numbers of the anatomy, and of this one exposure.
    """

    def __init__(
        self, width: float, height: float, pixels: int, body: PatientBody, person: Generator, pose: Generator
    ) -> None:
        self.unit = pixels / 100
        self.mu: Attenuation = np.zeros((round(height * self.unit), round(width * self.unit)), np.float32)
        self.body, self.person, self.pose = body, person, pose
        self.linear, self.offset = np.eye(2), np.zeros(2)
        self.scale = 1.0  # enlargement of the view
        self._corner = (int(person.integers(TILE // 2)), int(person.integers(TILE // 2)))

    def look(self, about: ArrayLike = (0.0, 0.0), zoom: ArrayLike = 1.0, degrees: float = 0.0) -> None:
        """Set the view for the shapes that follow.

        Parameters
        ----------
        about : (2,) array_like
            Point in the middle of the field.
        zoom : float or (2,) array_like
            Enlargement.
        degrees : float
            Rotation, clockwise on the screen.
        """
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        self.linear = self.linear @ np.array([[c, -s], [s, c]]) * np.asarray(zoom, float)
        self.offset = self.offset - self.linear @ np.asarray(about, float)
        self.scale = float(np.sqrt(abs(np.linalg.det(self.linear))))

    def _pixels(self, outlines: Sequence[Points]) -> list[NDArray[np.int32]]:
        """Convert drawing units to fixed-point pixels, with the patient's distortion."""
        outline = np.concatenate(outlines)
        waves = (outline @ WAVES)[:, None] + self.body.warp[:, 0]
        bent = (outline + (self.body.warp[:, 1] * np.sin(waves)).sum(2)) @ self.linear.T + self.offset
        corner = np.array([self.mu.shape[1], self.mu.shape[0]]) / 2
        fixed = (bent * self.unit + corner - 0.5) * (1 << SHIFT)
        rounded = np.round(np.clip(fixed, -(2**20), 2**20)).astype(np.int32)
        return np.split(rounded, np.cumsum([len(points) for points in outlines])[:-1])

    def _region(self, polygons: list[NDArray[np.int32]], margin: float) -> tuple[int, int, int, int] | None:
        """Return the part of the field that the polygons and a margin touch: top, bottom, left, right."""
        corners = np.concatenate(polygons) >> SHIFT
        grow = int(margin) + 3
        left, top = np.maximum(corners.min(0) - grow, 0)
        right, bottom = np.minimum(corners.max(0) + grow, (self.mu.shape[1], self.mu.shape[0]))
        return (int(top), int(bottom), int(left), int(right)) if top < bottom and left < right else None

    def _depth(
        self, outlines: Sequence[ArrayLike], holes: Sequence[ArrayLike], blur: float
    ) -> tuple[tuple[slice, slice], Attenuation, Attenuation] | None:
        """Return the slices of the shapes, the depth of each pixel inside them (units), and their cover (0 to 1)."""
        polygons = self._pixels([closed_curve(outline) for outline in outlines])
        region = self._region(polygons, 3 * blur * self.unit)
        if region is None:
            return None
        top, bottom, left, right = region
        pad = 2  # the shape continues beyond the edge of the picture: no false rim
        mask = np.zeros((bottom - top + 2 * pad, right - left + 2 * pad), np.uint8)
        origin = np.array([left - pad, top - pad], np.int32) << SHIFT
        for polygon in polygons:
            cv2.fillPoly(mask, [polygon - origin], 255, cv2.LINE_AA, SHIFT)
        for hole in self._pixels([closed_curve(hole) for hole in holes]) if holes else ():
            cv2.fillPoly(mask, [hole - origin], 0, cv2.LINE_AA, SHIFT)
        far = cv2.distanceTransform((mask > 127).astype(np.uint8), cv2.DIST_L2, 3)
        inside = (slice(pad, -pad), slice(pad, -pad))
        depth = (far[inside] - 0.5) / (self.unit * self.scale)
        return (slice(top, bottom), slice(left, right)), depth, mask[inside] * np.float32(1 / 255)

    @cached_property
    def _mottle(self) -> Attenuation:
        """This patient's part of the clouds, over the field."""
        y, x = (corner % 64 for corner in self._corner)
        part, shape = _clouds()[y : y + 64, x : x + 64], (self.mu.shape[1], self.mu.shape[0])
        return np.asarray(cv2.resize(part, shape, interpolation=cv2.INTER_CUBIC), np.float32)

    def soft(
        self, *outlines: ArrayLike, amount: float, edge: float, blur: float = 0.0, mottle: float = 0.0
    ) -> None:
        """Add soft tissue or air.

        Parameters
        ----------
        *outlines : (n, 2) array_like
            Control points of closed curves.
        amount : float
            Attenuation; negative for air.
        edge : float
            Units inside the outline at which `amount` is reached.
        blur : float
            Softness of the outline in units.
        mottle : float
            Unevenness, as a share of the amount.
        """
        layers = self._depth(outlines, (), blur * self.scale)
        if layers is None:
            return
        window, depth, cover = layers
        layer = _chord(depth, edge) * np.float32(amount / edge) * cover
        if mottle:
            layer *= np.maximum(1 + np.float32(mottle) * self._mottle[window], 0)
        self._add(window, layer, blur)

    def _add(self, window: tuple[slice, slice], layer: Attenuation, blur: float) -> None:
        sigma = blur * self.unit * self.scale
        self.mu[window] += cv2.GaussianBlur(layer, (0, 0), sigma) if sigma > 0.3 else layer

    def bone(
        self,
        *outlines: ArrayLike,
        amount: float,
        radius: float,
        cortex: float = 0.5,
        inner: float = 0.45,
        holes: Sequence[ArrayLike] = (),
        grain: float = 0.08,
    ) -> None:
        """Add a shell of dense cortex around cancellous bone: bright at the rim, where the beam runs along it.

        Parameters
        ----------
        *outlines : (n, 2) array_like
            Control points of closed curves.
        amount : float
            Attenuation through `radius` units of cortex.
        radius : float
            Half the thickness of the bone in units, round like a rod.
        cortex : float
            Thickness of the shell in units.
        inner : float
            Cancellous attenuation over cortical.
        holes : sequence of (n, 2) arrays
            Control points of openings.
        grain : float
            Contrast of the trabeculae.
        """
        layers = self._depth(outlines, holes, 0)
        if layers is None:
            return
        window, depth, cover = layers
        outer = _chord(depth, radius)
        core = _chord(depth - cortex, max(radius - cortex, 0.05)) * (depth > cortex)
        y, x = self._corner[0] + window[0].start, self._corner[1] + window[1].start
        height, width = depth.shape
        texture = 1 + np.float32(grain) * _grain()[y % TILE : y % TILE + height, x % TILE : x % TILE + width]
        if texture.shape == core.shape:
            core = core * texture
        layer = (outer - core * np.float32(1 - inner)) * cover
        self.mu[window] += layer * np.float32(amount * self.body.density / radius)

    def strokes(self, paths: Sequence[tuple[ArrayLike, float]], amount: float, blur: float = 0.0) -> None:
        """Add thin lines: vessels, sutures, wires; they do not add up where they cross.

        Parameters
        ----------
        paths : sequence of (path, width)
            Control points of open curves, and widths in units.
        amount : float
            Attenuation.
        blur : float
            Softness in units.
        """
        lines = self._pixels([open_curve(path) for path, _ in paths])
        margin = 3 * blur * self.unit * self.scale + max(width for _, width in paths) * self.unit
        region = self._region(lines, margin)
        if region is None:
            return
        top, bottom, left, right = region
        mask = np.zeros((bottom - top, right - left), np.uint8)
        origin = np.array([left, top], np.int32) << SHIFT
        for line, (_, width) in zip(lines, paths, strict=True):
            pixels = width * self.unit * self.scale
            value, thick = 255 if pixels >= 1 else max(int(255 * pixels), 30), max(round(pixels), 1)
            cv2.polylines(mask, [line - origin], False, value, thick, cv2.LINE_AA, SHIFT)
        self._add((slice(top, bottom), slice(left, right)), mask * np.float32(amount / 255), blur)
