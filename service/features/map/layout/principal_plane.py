"""Plane of the two directions in which a gallery's vectors vary most."""

import numpy as np

from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks, spread_rows

SAMPLE = 5000  # vectors that the directions are computed from


def project_to_plane(gallery: VectorBlocks, rows: Rows) -> Floats:
    """Project vectors to their first two principal components.

    Parameters
    ----------
    gallery : VectorBlocks
        Vectors of d dimensions.
    rows : (n,) int64
        Ascending rows to project; the directions are computed from a spread sample of them.

    Returns
    -------
    (n, 2) float32
        Coordinates. The largest part of each direction is positive, so the same input gives the same signs.
    """
    plane = np.zeros((len(rows), 2), np.float32)
    if len(rows) < 2:
        return plane
    sample = gallery.vectors(rows[spread_rows(len(rows), SAMPLE)]).astype(np.float64)
    centre = sample.mean(axis=0)
    _, directions = np.linalg.eigh((sample - centre).T @ (sample - centre))
    first = directions[:, ::-1][:, :2]
    largest = np.abs(first).argmax(axis=0)
    first = first * np.where(first[largest, np.arange(first.shape[1])] < 0, -1.0, 1.0)
    for where, vectors in gallery.chunks(rows):
        plane[where, : first.shape[1]] = (vectors - centre) @ first
    return plane
