"""Vectors of single images, without a collection."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir import descriptors, settings
from cbir.api.query_input import read_example
from cbir.descriptors.network_descriptors import volume_grid
from cbir.images import Limits, Region
from cbir.images.image import Window
from cbir.ingest.query_file import QueryOptions
from cbir.store.writing.default_profile import DEFAULT_PROFILE


def describe(
    image: Any,
    profile: str | os.PathLike[str] = DEFAULT_PROFILE,
    *,
    frame: int | None = None,
    region: Region | None = None,
    window: Window | None = None,
) -> NDArray[np.float32]:
    """Return the vector of an image; `db.describe` uses the profile of a collection.

    Parameters
    ----------
    image : str, path-like, bytes, array or Image
        File, content of a file, or samples; with an encoder of CT series the folder of a series, or a file.
    profile : str or path-like
        Descriptor, encoder, folder of a trained embedding, or NETWORK+DESCRIPTOR, as of `cbir index --profile`.
    frame : int, optional
        Frame of a file, from 1.
    region : (int, int, int, int), optional
        Part of the image: x, y, width, height in pixels.
    window : (float, float), optional
        Center and width for a grey DICOM file.

    Returns
    -------
    (d,) float32
        Raw values, before any normalisation of a collection.

    Raises
    ------
    InvalidInput
        For an unknown profile, and options that do not fit the image.
    UnreadableImage
        For a file or array that is no image.
    """
    in_force = settings.load()
    name, _, model = descriptors.resolve_descriptor(os.fspath(profile))
    limits, grid = Limits.from_settings(in_force), volume_grid(name)
    decoded = read_example(image, limits, grid, QueryOptions(frame, region, window))
    return np.asarray(descriptors.get(name, model, in_force.device)(decoded), np.float32)
