"""The csv files of an audit."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from cbir.system.csv_cells import harmless_cell
from service.features.audit.checks.collection_audit import CollectionAudit
from service.features.audit.checks.privacy import PrivacyCheck
from service.features.audit.checks.privacy_messages import COLUMNS, FILE_COLUMNS, privacy_files, privacy_rows


def audit_tables(audit: CollectionAudit, privacy: PrivacyCheck | None) -> dict[str, str]:
    """Return the content of each csv file by its name; empty tables have their header alone.

    `privacy`: None if it was not checked, and has no files.
    """
    tables = {
        "labels.csv": _csv(("image_id", "source", "label", "suspicion", "suggested"), _labels(audit)),
        "duplicates.csv": _csv(("group", "image_id", "source", "change"), _duplicates(audit)),
        "leaks.csv": _csv(("leak", "kind", "image_id", "source", "part"), _leaks(audit)),
        "outliers.csv": _csv(("image_id", "source", "likeness", "distance"), _outliers(audit)),
    }
    if privacy is None:
        return tables
    return tables | {
        "privacy.csv": _csv(COLUMNS, privacy_rows(privacy)),
        "privacy_files.csv": _csv(FILE_COLUMNS, privacy_files(privacy)),
    }


def _labels(audit: CollectionAudit) -> Iterable[Sequence[Any]]:
    errors, images = audit.label_errors, audit.images
    if errors is None:
        return
    for position in (-errors.suspicion).argsort(kind="stable").tolist():
        row, label, suggested = errors.rows[position], errors.label[position], errors.suggested[position]
        name = images.image_ids[row], images.sources[row]
        yield *name, errors.names[label], f"{errors.suspicion[position]:.6f}", errors.names[suggested]


def _duplicates(audit: CollectionAudit) -> Iterable[Sequence[Any]]:
    for number, group in enumerate(audit.duplicates.groups, start=1):
        for member in group.members:
            yield number, member.image_id, member.source, member.change


def _leaks(audit: CollectionAudit) -> Iterable[Sequence[Any]]:
    for number, leak in enumerate(audit.leaks or (), start=1):
        for image in leak.images:
            yield number, leak.kind, image.image_id, image.source, image.part


def _outliers(audit: CollectionAudit) -> Iterable[Sequence[Any]]:
    images, outliers = audit.images, audit.outliers
    for row in outliers.rows.tolist():
        name = images.image_ids[row], images.sources[row]
        yield *name, f"{outliers.likeness[row]:.6f}", f"{outliers.distance[row]:.6f}"


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([harmless_cell(cell) for cell in row] for row in rows)
    return text.getvalue()
