"""Audit of a collection: everything that can be found in its vectors, labels and history."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import numpy as np

from cbir.settings import Settings
from cbir.store import Collection
from service.features.audit.checks.audited_images import AuditedImages, read_audited_images
from service.features.audit.checks.coverage import Coverage, count_coverage
from service.features.audit.checks.drift import SourceDrift, find_drift
from service.features.audit.checks.duplicate_groups import Duplicates
from service.features.audit.checks.duplicates import find_duplicates
from service.features.audit.checks.group_quality import (
    AGES,
    GroupQuality,
    age_bands,
    compare_groups,
    correct_holm,
    precision_of,
)
from service.features.audit.checks.independent_neighbours import IndependentNeighbours, find_independent
from service.features.audit.checks.label_errors import VOTERS, LabelErrors, find_label_errors, require_classes
from service.features.audit.checks.leaks import Leak, find_leaks
from service.features.audit.checks.outliers import Outliers, find_outliers
from service.features.audit.checks.source_codes import source_codes

GROUPS = (
    "sex",
    "patient_sex",
    *AGES,
    "scanner",
    "manufacturer",
    "device",
    "laterality",
)  # compared where used
MOST_GROUPS = 50  # values of a label that divides images into groups

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class AuditOptions:
    """Options of an audit. label: key to judge; split: of the parts; source; groups: keys beside `GROUPS`."""

    label: str | None = None
    split: str | None = None
    source: str | None = None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CollectionAudit:
    """Findings, by rows of `images`. leaks, label_errors, groups: None where there is no key for them."""

    options: AuditOptions
    read_at: str
    generation: int
    images: AuditedImages
    duplicates: Duplicates
    leaks: list[Leak] | None
    label_errors: LabelErrors | None
    outliers: Outliers
    source_key: str | None
    drift: list[SourceDrift]
    coverage: Coverage
    groups: list[GroupQuality] | None


def run_audit(
    collection: Collection,
    options: AuditOptions,
    settings: Settings,
    progress: Progress = lambda stage, done, total: None,
) -> CollectionAudit:
    """Audit a collection.

    Parameters
    ----------
    collection : Collection
    options : AuditOptions
    settings : Settings
        Limits.
    progress : callable
        Called with a stage, steps done and steps in all; what it raises ends the audit.

    Raises
    ------
    InvalidInput
        For a label that no image has, or that has no classes; for a collection with too many vectors to load.
    """
    for key in (options.label, options.split, options.source, *options.groups):
        if key is not None:
            collection.conditions([f"{key}?"])  # raises for an unknown key
    read_at, generation = datetime.now(UTC).isoformat(timespec="seconds"), collection.generation()
    images = read_audited_images(collection, settings)
    if options.label:
        require_classes(images.codes(collection, options.label)[0], images.block, options.label)
    duplicates = find_duplicates(collection, (), progress, settings.max_pixels)
    leaks = find_leaks(collection, options.split, duplicates) if options.split else None
    images = images.joined([member.number for member in group.members] for group in duplicates.groups)
    progress("neighbours", 0, 1)
    nearest = find_independent(images.units, images.block, VOTERS)
    progress("neighbours", 1, 1)
    errors, groups = None, None
    if options.label:
        progress("labels", 0, 1)
        label, names = images.codes(collection, options.label)
        errors = find_label_errors(images.units, images.block, label, names, nearest)
        groups = _compare_all_groups(collection, images, nearest, label, options)
        progress("labels", 1, 1)
    source, names, source_key = source_codes(collection, images, options.source)
    drift = find_drift(images, source, names, partial(progress, "drift"))
    keys = [key for key in (options.label, options.split, source_key, *options.groups) if key]
    return CollectionAudit(
        options,
        read_at,
        generation,
        images,
        duplicates,
        leaks,
        errors,
        find_outliers(nearest),
        source_key,
        drift,
        count_coverage(collection, images, keys),
        groups,
    )


def _compare_all_groups(
    collection: Collection,
    images: AuditedImages,
    nearest: IndependentNeighbours,
    label: np.ndarray[tuple[int], np.dtype[np.int64]],
    options: AuditOptions,
) -> list[GroupQuality]:
    """Compare the groups of every label that divides images into groups."""
    available, precision = collection.label_keys(), precision_of(nearest, label)
    qualities = list[GroupQuality]()
    for key in dict.fromkeys([*options.groups, *GROUPS]):
        if key not in available or key == options.label:
            continue
        codes, names = images.codes(collection, key)
        if key in AGES:
            bands = age_bands(names)
            merged = sorted({band for band in bands if band}, key=lambda band: int(band.split("-")[0]))
            of_name = np.array([merged.index(band) if band else -1 for band in bands] + [-1])
            codes, names = of_name[codes], merged
        if len(names) <= MOST_GROUPS:
            qualities += compare_groups(key, names, codes, precision, label, images.block)
    return correct_holm(qualities)
