"""Audit of a collection: everything that can be found in its vectors, labels and history, and the message of it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cbir.settings import Settings
from cbir.store import Collection
from service.features.audit.audited_images import (
    AuditedImages,
    IndependentNeighbours,
    Outliers,
    find_independent,
    find_outliers,
    read_audited_images,
    source_codes,
)
from service.features.audit.drift import alarm_threshold, find_drift
from service.features.audit.duplicates import Duplicates, Leak, find_duplicates, find_leaks
from service.features.audit.label_errors import VOTERS, LabelErrors, find_label_errors, require_classes
from service.features.audit.label_values import (
    AGES,
    age_bands,
    compare_groups,
    correct_holm,
    count_coverage,
    precision_of,
)
from service.features.audit.messages import (
    Audit,
    AuditCopy,
    AuditLeak,
    AuditOutlier,
    CoverageFindings,
    DriftFindings,
    DriftSource,
    DuplicateFindings,
    GroupFinding,
    JudgedValue,
    LabelConfusion,
    LabelFindings,
    LeakFindings,
    OutlierFindings,
    SuspectLabel,
)

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
LISTED = 1000  # items of each list; the csv files have all
LISTED_MEMBERS = 50  # images of a group of duplicates or a leak
CONFUSIONS = 200
DECIMALS = 6


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
    drift: list[DriftSource]
    coverage: CoverageFindings
    groups: list[GroupFinding] | None


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
) -> list[GroupFinding]:
    """Compare the groups of every label that divides images into groups."""
    available, precision = collection.label_keys(), precision_of(nearest, label)
    qualities = list[GroupFinding]()
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


def summarise_audit(audit: CollectionAudit) -> Audit:
    """Return the message of an audit."""
    return Audit(
        read_at=audit.read_at,
        generation=audit.generation,
        images=len(audit.images),
        duplicates=_duplicates(audit),
        leaks=_leaks(audit),
        labels=None if audit.label_errors is None else _labels(audit, audit.label_errors),
        outliers=_outliers(audit),
        drift=_drift(audit),
        coverage=audit.coverage,
        groups=audit.groups,
    )


def _duplicates(audit: CollectionAudit) -> DuplicateFindings:
    groups = audit.duplicates.groups
    items = [
        [AuditCopy.model_validate(member, from_attributes=True) for member in group.members[:LISTED_MEMBERS]]
        for group in groups[:LISTED]
    ]
    images = sum(len(group.members) for group in groups)
    return DuplicateFindings(
        groups=len(groups), images=images, unread=len(audit.duplicates.unread), items=items
    )


def _leaks(audit: CollectionAudit) -> LeakFindings | None:
    if audit.leaks is None or audit.options.split is None:
        return None
    listed = (replace(leak, images=leak.images[:LISTED_MEMBERS]) for leak in audit.leaks[:LISTED])
    items = [AuditLeak.model_validate(leak, from_attributes=True) for leak in listed]
    counts: Counter[str] = Counter(leak.kind for leak in audit.leaks)
    return LeakFindings(key=audit.options.split, counts=dict(counts), items=items)


def _labels(audit: CollectionAudit, errors: LabelErrors) -> LabelFindings:
    suspects, ids, names = errors.suspects(), audit.images.image_ids, errors.names
    pairs = Counter(
        (names[errors.label[position]], names[errors.suggested[position]]) for position in suspects.tolist()
    )
    confusions = [
        LabelConfusion(label=label, suggested=suggested, images=images)
        for (label, suggested), images in pairs.most_common(CONFUSIONS)
    ]
    items = [
        SuspectLabel(
            image_id=ids[errors.rows[position]],
            label=names[errors.label[position]],
            suggested=names[errors.suggested[position]],
            suspicion=round(float(errors.suspicion[position]), DECIMALS),
            neighbours=[ids[row] for row in errors.neighbours[position].tolist() if row >= 0],
        )
        for position in suspects[:LISTED].tolist()
    ]
    return LabelFindings(
        key=audit.options.label or "",
        judged=len(errors.rows),
        suspects=len(suspects),
        rare=[name for name, rare in zip(names, errors.rare.tolist(), strict=True) if rare],
        values=_judged_values(errors, suspects),
        confusions=confusions,
        items=items,
    )


def _judged_values(errors: LabelErrors, suspects: NDArray[np.int64]) -> list[JudgedValue]:
    """Return the numbers of images and suspects of each value, the largest share of suspects first."""
    images = np.bincount(errors.label, minlength=len(errors.names)).tolist()
    suspect = np.bincount(errors.label[suspects], minlength=len(errors.names)).tolist()
    values = [
        JudgedValue(value=value, images=count, suspects=number)
        for value, count, number in zip(errors.names, images, suspect, strict=True)
        if count
    ]
    return sorted(values, key=lambda each: (-each.suspects / each.images, each.value))


def _outliers(audit: CollectionAudit) -> OutlierFindings:
    outliers = audit.outliers
    items = [
        AuditOutlier(
            image_id=audit.images.image_ids[row], likeness=round(float(outliers.likeness[row]), DECIMALS)
        )
        for row in outliers.rows[:LISTED].tolist()
    ]
    return OutlierFindings(images=len(outliers.rows), items=items)


def _drift(audit: CollectionAudit) -> DriftFindings:
    return DriftFindings(
        key=audit.source_key,
        threshold=alarm_threshold(len(audit.drift)),
        alarms=sum(source.alarms for source in audit.drift),
        sources=audit.drift,
    )
