"""The source that each image came from: a label, or the folder of its file."""

import os
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from cbir.audit.audited_images import AuditedImages
from cbir.errors import InvalidInput
from cbir.store import Collection

LABEL = "source"  # that names the source, if images have it
MOST_SOURCES = 50
WHOLE = "all images"


def source_codes(
    collection: Collection, images: AuditedImages, key: str | None
) -> tuple[NDArray[np.int64], list[str], str | None]:
    """Return the codes (n,) of the sources of images, -1 without one, their names, and the label that names them.

    Without a label, the folders below the common one name the sources; of too many, all images are one source.

    Raises
    ------
    InvalidInput
        If the label `key` has too many values to be a source.
    """
    chosen = key or (LABEL if LABEL in collection.label_keys() else None)
    if chosen is not None:
        codes, names = images.codes(collection, chosen)
        if len(names) <= MOST_SOURCES:
            return codes, names, chosen
        if key:
            raise InvalidInput(
                f"the label {key} has {len(names)} values, too many for sources ({MOST_SOURCES})"
            )
    folders = [_folder(source) for source in images.sources]
    names = sorted(set(folders))
    if len(names) > MOST_SOURCES:
        return np.zeros(len(images), np.int64), [WHOLE], None
    codes = {name: code for code, name in enumerate(names)}
    return np.array([codes[name] for name in folders], np.int64), names, None


def _folder(source: str) -> str:
    """Return the name of the folder of a file, or address."""
    return PurePosixPath(source.replace(os.sep, "/")).parent.name or WHOLE
