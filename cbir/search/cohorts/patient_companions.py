"""Other images of the patients of whom an image was found, which often belong to a cohort too."""

from typing import NamedTuple

import numpy as np

from cbir.gallery.vector_blocks import is_among
from cbir.store import Collection
from cbir.store.index.port import Numbers


class Companions(NamedTuple):
    """Images of patients with a relevant image.

    numbers: ascending, of all images of these patients. agreement: share of the judged ones that are relevant, with
    one assumed, and without the first relevant image of each patient.
    """

    numbers: Numbers
    agreement: float


NO_COMPANIONS = Companions(np.empty(0, np.int64), 0.0)


def find_companions(collection: Collection, relevant: Numbers, irrelevant: Numbers) -> Companions:
    """Return the images of the patients of relevant images.

    Parameters
    ----------
    collection : Collection
        Whose patient keys say which images are of a patient.
    relevant, irrelevant : (p,), (n,) int64
        Numbers of the judged images.
    """
    keys = collection.group_keys(relevant.tolist(), "patient")
    if not keys:
        return NO_COMPANIONS
    patients = set(keys.values())
    numbers = collection.numbers_of_patients(patients)
    hits, misses = len(keys) - len(patients), int(is_among(irrelevant, numbers).sum())
    return Companions(numbers, (hits + 1) / (hits + misses + 1))
