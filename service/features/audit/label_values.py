"""Values of labels: their numbers of images and patients, and how well images of a group are retrieved."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cbir.store import Collection
from service.features.audit.audited_images import AuditedImages, IndependentNeighbours
from service.features.audit.label_errors import independent_counts
from service.features.audit.messages import CoverageFindings, CoverageLabel, CoverageValue, GroupFinding

COUNTED = ("modality", "body_part", "anatomy", "view", "view_position", "laterality", "sex", "source")
MOST_VALUES = 200  # a label with more, such as an age, is not a list of classes
LEAST_IMAGES = 20
LEAST_PATIENTS = 5
NEIGHBOURS = 10  # first answers that count
RESAMPLES = 1000
LEAST_BLOCKS = 10  # patients of a group, and of the others of the same label
BAND = 20  # years
AGES = ("age", "patient_age")
LEVEL = 0.05
Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]


def count_coverage(collection: Collection, images: AuditedImages, keys: list[str]) -> CoverageFindings:
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
    counted = [_count_label(collection, images, key) for key in keys_in_use]
    labels = [label for label in counted if label is not None]
    with_patient = images.patient >= 0
    return CoverageFindings(
        patients=len(np.unique(images.patient[with_patient])),
        without_patient=int(np.count_nonzero(~with_patient)),
        thin=sum(value.thin for label in labels for value in label.values),
        labels=labels,
    )


def _count_label(collection: Collection, images: AuditedImages, key: str) -> CoverageLabel | None:
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
    return CoverageLabel(key=key, unlabelled=int(np.count_nonzero(codes < 0)), values=values)


def _value(name: str, images: int, patients: int, unnamed: int) -> CoverageValue:
    """Return the counts of a value; each of the `unnamed` images may be of another patient."""
    thin = images < LEAST_IMAGES or patients + unnamed < LEAST_PATIENTS
    return CoverageValue(value=name, images=images, patients=patients or None, thin=thin)


def precision_of(nearest: IndependentNeighbours, label: Codes) -> Numbers:
    """Return the share (n,) of the first ten answers of other patients that have the label (n,) of an image.

    NaN without a label, or without answers.
    """
    rows = nearest.rows[:, :NEIGHBOURS]
    counted = (rows >= 0) & (label[rows] >= 0)
    total = counted.sum(axis=1)
    same = ((label[rows] == label[:, None]) & counted).sum(axis=1)
    return np.where((label >= 0) & (total > 0), same / np.maximum(total, 1), np.nan)


def age_bands(values: Sequence[str]) -> list[str]:
    """Return the age band of each value, such as 40-59 for 047Y and for 47; empty if it is no age in years."""
    bands = []
    for value in values:
        digits = value.strip().upper().removesuffix("Y")
        years = int(digits) if digits.isdecimal() and len(digits) <= 3 else -1
        low = years // BAND * BAND
        bands.append(f"{low}-{low + BAND - 1}" if years >= 0 else "")
    return bands


def compare_groups(
    key: str, names: Sequence[str], group: Codes, precision: Numbers, label: Codes, block: Codes
) -> list[GroupFinding]:
    """Compare each group with the other images of the same labels; p-values are not corrected yet.

    Parameters
    ----------
    key : str
        Label that divides the images.
    names : sequence of str
        Groups by code.
    group : (n,) int64
        Codes of the groups; -1: none.
    precision : (n,) float64
        See `precision_of`.
    label : (n,) int64
        Classes.
    block : (n,) int64
        Images of one block, as of one patient, are drawn together.
    """
    usable = (group >= 0) & np.isfinite(precision)
    qualities = []
    for code, name in enumerate(names):
        inside = usable & (group == code)
        shared = usable & np.isin(label, label[inside])
        patients = len(np.unique(block[inside]))
        if patients < LEAST_BLOCKS or len(np.unique(block[shared & ~inside])) < LEAST_BLOCKS:
            continue
        difference, low, high, p = _difference(
            inside[shared], precision[shared], label[shared], block[shared]
        )
        mean, images = float(precision[inside].mean()), int(np.count_nonzero(inside))
        qualities.append(
            GroupFinding(
                key=key,
                value=name,
                images=images,
                patients=patients,
                precision=mean,
                difference=difference,
                low=low,
                high=high,
                p=p,
                worse=False,
            )
        )
    return qualities


def correct_holm(groups: Sequence[GroupFinding]) -> list[GroupFinding]:
    """Return the groups with p-values corrected for their number (Holm 1979), and marked where they are worse."""
    order = sorted(range(len(groups)), key=lambda number: groups[number].p)
    corrected, largest = list(groups), 0.0
    for rank, number in enumerate(order):
        largest = max(largest, min(1.0, groups[number].p * (len(groups) - rank)))
        worse = largest < LEVEL and groups[number].difference < 0
        corrected[number] = groups[number].model_copy(update={"p": largest, "worse": worse})
    return corrected


def _difference(
    inside: NDArray[np.bool_], precision: Numbers, label: Codes, block: Codes
) -> tuple[float, float, float, float]:
    """Return difference, interval and p-value by a bootstrap over blocks, with the others weighted by label."""
    _, of_image = np.unique(block, return_inverse=True)
    _, classes = np.unique(label, return_inverse=True)
    # Sums by block and class: a resample of blocks is a product with how often each is drawn.
    cells = of_image * (classes.max() + 1) + classes
    shape = of_image.max() + 1, classes.max() + 1
    sums = [
        np.bincount(cells, weights, shape[0] * shape[1]).reshape(shape)
        for weights in (inside * 1.0, inside * precision, ~inside * 1.0, ~inside * precision)
    ]
    generator = np.random.default_rng(0)
    draws = generator.multinomial(shape[0], np.full(shape[0], 1 / shape[0]), RESAMPLES).astype(np.float64)
    draws = np.concatenate([np.ones((1, shape[0])), draws])
    count_in, sum_in, count_out, sum_out = (draws @ each for each in sums)
    weight = np.where(count_out > 0, count_in, 0.0)
    mean_in = sum_in / np.maximum(count_in, 1e-9)
    mean_out = sum_out / np.maximum(count_out, 1e-9)
    differences = (weight * (mean_in - mean_out)).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-9)
    observed, resampled = float(differences[0]), differences[1:]
    low, high = np.quantile(resampled, [0.025, 0.975]).tolist()
    beyond = min(np.count_nonzero(resampled <= 0), np.count_nonzero(resampled >= 0))
    return observed, low, high, min(1.0, 2 * (int(beyond) + 1) / (RESAMPLES + 1))
