"""Active shape model (Cootes et al. 1995): contours in new images after training on annotated ones.

A shape is the mean of the landmarks plus a few modes of variation, with scale, rotation and shift. A search moves
every landmark along its normal to where the image is most similar to training, then takes the closest shape of the
model; from coarse to fine. All images are first scaled to the same height.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from cbir.errors import InvalidInput, UnreadableImage

Floats = NDArray[np.float64]

ALIGNMENTS = 10


def transform(shape: Floats, scale: complex) -> Floats:
    """Scale and rotate a shape (L, 2) by a complex number around the origin."""
    turned = (shape[:, 0] + 1j * shape[:, 1]) * scale
    return np.stack([turned.real, turned.imag], axis=1)


def fit_pose(form: Floats, shape: Floats) -> tuple[complex, Floats]:
    """Return scale and rotation, as a complex number, and shift that bring `form` nearest to `shape`."""
    centre = shape.mean(axis=0)
    centred = form - form.mean(axis=0)
    z, w = centred[:, 0] + 1j * centred[:, 1], (shape - centre)[:, 0] + 1j * (shape - centre)[:, 1]
    scale = complex(np.vdot(z, w) / max(float(np.vdot(z, z).real), 1e-12))
    return scale, centre - transform(form.mean(axis=0)[None], scale)[0]


def align_shapes(shapes: Floats) -> tuple[Floats, Floats]:
    """Align shapes (n, L, 2) by generalised Procrustes analysis; return their mean, of size 1 around 0, and all."""
    mean = shapes[0] - shapes[0].mean(axis=0)
    mean /= np.linalg.norm(mean)
    first = mean
    for _ in range(ALIGNMENTS):
        poses = [(shape, *fit_pose(shape, mean)) for shape in shapes]
        aligned = [transform(shape, scale) + shift for shape, scale, shift in poses]
        mean = np.mean(aligned, axis=0)
        scale, _ = fit_pose(mean, first)  # keeps the rotation
        mean = transform(mean - mean.mean(axis=0), scale)
        mean /= np.linalg.norm(mean)
    return cast(Floats, mean), np.stack(aligned)


def principal_modes(aligned: Floats, share: float) -> tuple[Floats, Floats]:
    """Return the principal modes (m, 2 L) with a share of the variance, and their variances (m,)."""
    off = aligned - aligned.mean(axis=0)
    _, sizes, modes = np.linalg.svd(off, full_matrices=False)
    variances = sizes**2 / len(off)
    count = int(np.searchsorted(np.cumsum(variances), share * variances.sum() - 1e-12)) + 1
    return modes[:count], variances[:count]


Picture = NDArray[np.uint8] | NDArray[np.float64]

LEAST = 5  # annotated images
HEIGHT = 240  # rows that images are scaled to: of lens contours it gives a third of a row
ASPECT = 4.0  # of an image, at most
LEVELS = 4  # of the pyramid, each half the size of the one before
HALF = 4  # pixels of a profile to either side of its landmark
SEARCH = 4  # pixels that a landmark may move to either side in one round
ROUNDS = 12  # at each level
DEVIATIONS = 3.0  # of a mode, at most
SETTLED = 0.05  # pixels: a move below this ends a level


@dataclass(frozen=True, eq=False)
class Appearance:
    """Mean (L, 2 HALF) and inverse covariance (L, 2 HALF, 2 HALF) of every landmark's profile at a pyramid level."""

    mean: Floats
    inverse: Floats


class ActiveShapeModel:
    """A model of contours in grey images.

    `variance` is the share of the shapes' variance in the modes. After `fit`: mean_ (L, 2) of size 1 around 0, modes_
    (m, 2 L), variances_ (m,), start_ (L, 2), the mean contour from the middle of the image in shares of its height,
    and appearance_, one for each of LEVELS.
    """

    mean_: Floats
    modes_: Floats
    variances_: Floats
    start_: Floats
    appearance_: list[Appearance]

    def __init__(self, variance: float = 0.98) -> None:
        self.variance = variance

    def fit(self, images: Sequence[Picture], contours: Sequence[Floats]) -> "ActiveShapeModel":
        """Fit to grey `images` (h, w) and `contours` (L, 2) of corresponding landmarks, x and y in pixels.

        Raises InvalidInput for fewer than 5, or different numbers of landmarks.
        """
        if len(images) != len(contours) or len(images) < LEAST:
            raise InvalidInput(
                f"an active shape model needs {LEAST} images or more, with a contour each; "
                f"there are {len(images)} images and {len(contours)} contours"
            )
        if len({contour.shape for contour in contours}) != 1 or contours[0].shape[1:] != (2,):
            raise InvalidInput("contours need the same number of landmarks, each of x and y")
        if any(np.ptp(contour, axis=0).max() == 0 for contour in contours):
            raise InvalidInput("the landmarks of a contour are all at one place")
        if not 0 < self.variance <= 1:
            raise InvalidInput(f"variance is a share above 0 up to 1, not {self.variance}")
        shapes, starts, profiles = [], [], []
        for image, contour in zip(images, contours, strict=True):
            picture, shape = scale_outlined(image, contour)
            shapes.append(shape)
            starts.append((shape - _middle(picture)) / HEIGHT)
            profiles.append(_level_profiles(picture, shape))
        self.start_ = np.mean(starts, axis=0)
        self.mean_, aligned = align_shapes(np.stack(shapes))
        self.modes_, self.variances_ = principal_modes(aligned.reshape(len(aligned), -1), self.variance)
        self.appearance_ = [_learn(np.stack(of_level)) for of_level in zip(*profiles, strict=True)]
        return self

    def find(self, image: Picture) -> Floats:
        """Find the contour (L, 2) float64 in a grey `image` (h, w), in pixels.

        The search starts at the mean of the training contours, at the same place from the middle of the image. Raises
        UnreadableImage for an image more than 4 times as wide as high, or the other way round.
        """
        picture = _scale(image)
        pyramid = _pyramid(picture)
        shape = self.start_ * HEIGHT + _middle(picture)
        for level in reversed(range(LEVELS)):
            current = (shape + 0.5) / 2**level - 0.5
            for _ in range(ROUNDS):
                moved = self.closest(self._suggest(pyramid[level], current, self.appearance_[level]))
                current, step = moved, float(np.abs(moved - current).max())
                if step < SETTLED:
                    break
            shape = (current + 0.5) * 2**level - 0.5
        return (shape + 0.5) / _factors(image) - 0.5

    def misfit(self, image: Picture, contour: Floats) -> float:
        """Return the mean squared Mahalanobis distance of profiles along a contour (L, 2) to those of training."""
        profiles = _unit_profiles(_level_profiles(*scale_outlined(image, contour)))
        off = profiles - [appearance.mean for appearance in self.appearance_]
        inverse = np.stack([appearance.inverse for appearance in self.appearance_])
        return float(np.einsum("vlp,vlpq,vlq->vl", off, inverse, off).mean())

    def closest(self, shape: Floats) -> Floats:
        """Return the model's shape nearest to `shape` (L, 2), each mode within 3 deviations."""
        form = self.mean_
        for _ in range(5):
            scale, shift = fit_pose(form, shape)
            aligned = transform(shape - shift, 1.0 / scale if scale else 0.0)  # 0 by a damaged model
            weights = self.modes_ @ (aligned - self.mean_).ravel()
            limit = DEVIATIONS * np.sqrt(self.variances_)
            form = self.mean_ + (np.clip(weights, -limit, limit) @ self.modes_).reshape(-1, 2)
        scale, shift = fit_pose(form, shape)
        return transform(form, scale) + shift

    def _suggest(self, picture: Floats, shape: Floats, appearance: Appearance) -> Floats:
        """Move each landmark along its normal to the position most similar to training."""
        long = _profiles(picture, shape, HALF + SEARCH)
        windows = np.lib.stride_tricks.sliding_window_view(long, 2 * HALF, axis=1)  # (L, positions, p)
        off = _unit_profiles(windows) - appearance.mean[:, None]
        distances = np.einsum("lap,lpq,laq->la", off, appearance.inverse, off)
        best = distances.argmin(axis=1) - SEARCH
        return cast(Floats, shape + best[:, None] * _normals(shape))


def scale_outlined(image: Picture, contour: Floats) -> tuple[Floats, Floats]:
    """Scale a grey image (h, w) to HEIGHT rows, and its contour (L, 2) with it; raises UnreadableImage as `find`."""
    return _scale(image), (contour + 0.5) * _factors(image) - 0.5


def _scale(image: Picture) -> Floats:
    """Scale a grey image (h, w) to HEIGHT rows; raises UnreadableImage if it is too wide or narrow."""
    height, width = image.shape
    if not 1 / ASPECT <= width / height <= ASPECT:
        raise UnreadableImage(
            f"the image has {width} x {height} pixels; "
            f"one side of a slit-lamp image is at most {ASPECT:g} times the other"
        )
    size = (max(round(width * HEIGHT / height), 1), HEIGHT)
    way = cv2.INTER_AREA if height > HEIGHT else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(np.asarray(image, np.float64), size, interpolation=way), np.float64)


def _factors(image: Picture) -> Floats:
    """Return the factors of x and y that `_scale` applies."""
    height, width = image.shape
    return np.array([max(round(width * HEIGHT / height), 1) / width, HEIGHT / height])


def _middle(picture: Floats) -> Floats:
    return np.array([picture.shape[1] - 1, picture.shape[0] - 1]) / 2


def _pyramid(picture: Floats) -> list[Floats]:
    levels = [picture]
    for _ in range(LEVELS - 1):
        levels.append(np.asarray(cv2.pyrDown(levels[-1]), np.float64))
    return levels


def _level_profiles(picture: Floats, shape: Floats) -> Floats:
    """Return the profiles (LEVELS, L, 2 HALF) along a contour at each level."""
    return np.stack(
        [
            _profiles(small, (shape + 0.5) / 2**level - 0.5, HALF)
            for level, small in enumerate(_pyramid(picture))
        ]
    )


def _normals(shape: Floats) -> Floats:
    """Return unit normals (L, 2) of a closed contour."""
    along = np.roll(shape, -1, axis=0) - np.roll(shape, 1, axis=0)
    normal = np.stack([along[:, 1], -along[:, 0]], axis=1)
    return cast(Floats, normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9))


def _profiles(picture: Floats, shape: Floats, half: int) -> Floats:
    """Return the derivative (L, 2 half) of the image along every landmark's normal."""
    along = np.arange(-half, half + 1)
    points = shape[:, None] + along[None, :, None] * _normals(shape)[:, None]
    values = map_coordinates(picture, [points[:, :, 1], points[:, :, 0]], order=1, mode="nearest")
    return np.diff(values, axis=1)


def _unit_profiles(profiles: Floats) -> Floats:
    """Scale profiles (..., p) to an absolute sum of 1."""
    size = np.abs(profiles).sum(axis=-1, keepdims=True)
    return cast(Floats, profiles / np.maximum(size, 1e-9))


def _learn(profiles: Floats) -> Appearance:
    """Learn mean and inverse covariance of profiles (n, L, p)."""
    scaled = _unit_profiles(profiles)
    mean = scaled.mean(axis=0)
    off = scaled - mean
    covariance = np.einsum("nlp,nlq->lpq", off, off) / len(off)
    ridge = 0.05 * np.trace(covariance, axis1=1, axis2=2) / covariance.shape[1] + 1e-6
    return Appearance(mean, np.linalg.inv(covariance + ridge[:, None, None] * np.eye(covariance.shape[1])))
