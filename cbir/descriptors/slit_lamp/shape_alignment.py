"""Alignment of contours by scale, rotation and shift, and their modes of variation (Cootes et al. 1995)."""

from typing import cast

import numpy as np
from numpy.typing import NDArray

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
