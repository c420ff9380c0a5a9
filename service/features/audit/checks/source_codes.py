"""The source that each image came from: a label, or the folder of its file."""

import os
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.store import Collection
from service.features.audit.checks.audited_images import AuditedImages

LABEL = "source"  # that names the source, if images have it
MOST_SOURCES = 50
ALL_IMAGES = "all images"


def source_codes(
    collection: Collection, images: AuditedImages, key: str | None
) -> tuple[NDArray[np.int64], list[str], str | None]:
    """Return the codes (n,) of the sources of images, -1 without one, their names, and the label that names them.

    Without a label, the folders below the common one name the sources; of too many, all images are one source.

    Parameters
    ----------
    collection : Collection
        The audited collection.
    images : AuditedImages
        Its images.
    key : str or None
        Label that names the source; None: `source` if images have it, or the folder.

    Raises
    ------
    InvalidInput
        If the label `key` has too many values to be a source.
    """
    label = key or (LABEL if LABEL in collection.label_keys() else None)
    if label is not None:
        codes, names = images.codes(collection, label)
        if len(names) <= MOST_SOURCES:
            return codes, names, label
        if key:
            raise InvalidInput(
                f"the label {key} has {len(names)} values, too many for sources ({MOST_SOURCES})"
            )
    folders = [_folder(source) for source in images.sources]
    names = sorted(set(folders))
    if len(names) > MOST_SOURCES:
        return np.zeros(len(images), np.int64), [ALL_IMAGES], None
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers[name] for name in folders], np.int64), names, None


def _folder(source: str) -> str:
    """Return the name of the folder of a file, or address."""
    return PurePosixPath(source.replace(os.sep, "/")).parent.name or ALL_IMAGES
