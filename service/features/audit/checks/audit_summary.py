"""From the findings of an audit to its message, which holds ids of images and is of a limited size."""

from collections import Counter
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from service.features.audit.checks.audit_messages import (
    Audit,
    AuditCopy,
    AuditLeak,
    AuditOutlier,
    CoverageFindings,
    CoverageLabel,
    DriftFindings,
    DriftSource,
    DriftWeek,
    DuplicateFindings,
    GroupFinding,
    JudgedValue,
    LabelConfusion,
    LabelFindings,
    LeakedCopy,
    LeakFindings,
    OutlierFindings,
    SuspectLabel,
)
from service.features.audit.checks.collection_audit import CollectionAudit
from service.features.audit.checks.drift import SourceDrift, alarm_threshold
from service.features.audit.checks.label_errors import LabelErrors

LISTED = 1000  # items of each list; the csv files have all
LISTED_MEMBERS = 50  # images of a group of duplicates or a leak
CONFUSIONS = 200
DECIMALS = 6


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
        coverage=_coverage(audit),
        groups=None
        if audit.groups is None
        else [GroupFinding(**asdict(group), worse=group.is_worse) for group in audit.groups],
    )


def _duplicates(audit: CollectionAudit) -> DuplicateFindings:
    groups = audit.duplicates.groups
    items = [
        [
            AuditCopy(image_id=member.image_id, change=member.change)
            for member in group.members[:LISTED_MEMBERS]
        ]
        for group in groups[:LISTED]
    ]
    images = sum(len(group.members) for group in groups)
    return DuplicateFindings(
        groups=len(groups), images=images, unread=len(audit.duplicates.unread), items=items
    )


def _leaks(audit: CollectionAudit) -> LeakFindings | None:
    if audit.leaks is None or audit.options.split is None:
        return None
    items = [
        AuditLeak(
            kind=leak.kind,
            images=[
                LeakedCopy(image_id=image.image_id, part=image.part) for image in leak.images[:LISTED_MEMBERS]
            ],
        )
        for leak in audit.leaks[:LISTED]
    ]
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
        sources=[_source(audit, source) for source in audit.drift],
    )


def _source(audit: CollectionAudit, drift: SourceDrift) -> DriftSource:
    weeks = [
        DriftWeek(
            monday=check.monday,
            images=check.images,
            p=round(check.p, DECIMALS),
            alarm=check.alarm,
            image_ids=[audit.images.image_ids[row] for row in check.rows] if check.alarm else [],
        )
        for check in drift.checks
    ]
    return DriftSource(source=drift.source, images=drift.images, alarms=drift.alarms, weeks=weeks)


def _coverage(audit: CollectionAudit) -> CoverageFindings:
    coverage = audit.coverage
    return CoverageFindings(
        patients=coverage.patients,
        without_patient=coverage.without_patient,
        thin=coverage.thin,
        labels=[CoverageLabel.model_validate(asdict(label)) for label in coverage.labels],
    )
