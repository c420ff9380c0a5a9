"""Values of labels with their numbers of images and patients; thin ones are marked."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.store import Collection
from service.features.audit.checks.audited_images import AuditedImages
from service.features.audit.checks.label_errors import independent_counts

COUNTED = ("modality", "body_part", "anatomy", "view", "view_position", "laterality", "sex", "source")
MOST_VALUES = 200  # a label with more, such as an age, is not a list of classes
LEAST_IMAGES = 20
LEAST_PATIENTS = 5


@dataclass(frozen=True)
class CoveredValue:
    """A value of a label. patients: None where none of its images names one. thin: too few images or patients."""

    value: str
    images: int
    patients: int | None
    thin: bool


@dataclass(frozen=True)
class CoveredLabel:
    """A label. unlabelled: images without it. values: the most frequent first."""

    key: str
    unlabelled: int
    values: tuple[CoveredValue, ...]


@dataclass(frozen=True)
class Coverage:
    """Counts of a collection. patients: different ones; without_patient: images that name none."""

    images: int
    patients: int
    without_patient: int
    labels: tuple[CoveredLabel, ...]

    @property
    def thin(self) -> int:
        """Number of values that are thin."""
        return sum(value.thin for label in self.labels for value in label.values)


def count_coverage(collection: Collection, images: AuditedImages, keys: list[str]) -> Coverage:
    """Count the images and patients of each value of the labels `keys`, and of `COUNTED` where they are used.

    Parameters
    ----------
    collection : Collection
        The audited collection.
    images : AuditedImages
        Its images.
    keys : list of str
        Labels; those that no image has, or with more than `MOST_VALUES` values, are left out.
    """
    available = collection.label_keys()
    keys_in_use = [key for key in dict.fromkeys([*keys, *COUNTED]) if key in available]
    labels = [_count_label(collection, images, key) for key in keys_in_use]
    with_patient = images.patient >= 0
    return Coverage(
        len(images),
        len(np.unique(images.patient[with_patient])),
        int(np.count_nonzero(~with_patient)),
        tuple(label for label in labels if label is not None),
    )


def _count_label(collection: Collection, images: AuditedImages, key: str) -> CoveredLabel | None:
    codes, names = images.codes(collection, key)
    if len(names) > MOST_VALUES:
        return None
    sizes = np.bincount(codes[codes >= 0], minlength=len(names))
    with_patient = (codes >= 0) & (images.patient >= 0)
    with_patient_sizes = np.bincount(codes[with_patient], minlength=len(names))
    patients: NDArray[np.int64] = np.zeros(len(names), np.int64)
    if with_patient.any():
        patients = independent_counts(codes[with_patient], images.patient[with_patient], len(names))
    values = [
        _value(name, *counts)
        for name, *counts in zip(
            names, sizes.tolist(), patients.tolist(), (sizes - with_patient_sizes).tolist(), strict=True
        )
    ]
    values.sort(key=lambda value: (-value.images, value.value))
    return CoveredLabel(key, int(np.count_nonzero(codes < 0)), tuple(values))


def _value(name: str, images: int, patients: int, unnamed: int) -> CoveredValue:
    """Return the counts of a value; each of the `unnamed` images may be of another patient."""
    thin = images < LEAST_IMAGES or patients + unnamed < LEAST_PATIENTS
    return CoveredValue(name, images, patients or None, thin)
