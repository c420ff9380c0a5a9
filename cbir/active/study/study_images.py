"""The images of a collection at the size a ranker looks at, read from their files once."""

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.active.study.study_files import write_study_file
from cbir.severity.grey_images import read_grey_image
from cbir.store import Collection

Pictures = NDArray[np.uint8]


def read_study_images(
    collection: Collection, ids: Sequence[str], side: int, cache: Path, stop: Callable[[], bool]
) -> tuple[list[str], Pictures]:
    """The images that can still be read, of `ids`: their ids, and (n, side, side) uint8.

    cache: file that keeps them for the next time; those of images that are not asked for any more go. stop: asked
    before each image; where it says True, what was read so far comes back and nothing is kept.
    """
    known = _cached(cache, side)
    records = {record.image_id: record for _, record in collection.iterate()}
    most = settings.load().max_pixels
    found: dict[str, Pictures] = {}
    for image_id in ids:
        if stop():
            break
        if image_id in known:
            found[image_id] = known[image_id]
        elif image_id in records:
            made = read_grey_image(collection, records[image_id], side, most)
            if made is not None:
                found[image_id] = made
    all_made = np.stack(list(found.values())) if found else np.empty((0, side, side), np.uint8)
    if found.keys() != known.keys() and not stop():
        content = io.BytesIO()
        np.savez(content, ids=np.array(list(found), str), pictures=all_made)
        write_study_file(cache, content.getvalue())
    return list(found), all_made


def _cached(path: Path, side: int) -> dict[str, Pictures]:
    try:
        with np.load(path, allow_pickle=False) as held:
            ids, made = held["ids"].tolist(), held["pictures"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}  # none yet, or damaged: they are read again
    fits = made.dtype == np.uint8 and made.shape == (len(ids), side, side)
    return dict(zip(ids, made, strict=True)) if fits else {}
