"""The report of an audit as a folder of files, which appears as a whole or not at all."""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.system.files import OWNER_FOLDER, SUFFIX, atomic_text, csv_text, sync_folder
from service.features.audit.audit_report import render_audit_report
from service.features.audit.collection_audit import CollectionAudit, summarise_audit
from service.features.audit.privacy import (
    COLUMNS,
    FILE_COLUMNS,
    PrivacyCheck,
    ReportedAudit,
    privacy_files,
    privacy_rows,
    summarise_privacy,
)

MARK = "audit.json"  # a folder with it is a report
NEW, EARLIER = "new", "earlier"  # folders beside a report while it is replaced
REPORT = "report.html"
REPORT_FILES = frozenset(
    f"{name}.csv" for name in ("labels", "duplicates", "leaks", "outliers", "privacy", "privacy_files")
) | {REPORT, MARK}
Progress = Callable[[str, int, int], None]


def check_report_folder(folder: Path, names: frozenset[str]) -> None:
    """Raise InvalidInput unless a report, of files `names`, may be written to `folder`; call it before long work."""
    target = folder.resolve()
    if target.exists():
        if not target.is_dir():
            raise InvalidInput(f"{folder} is a file; name a folder")
        if os.path.ismount(target):  # cannot be renamed; Path.is_mount fails on Windows before Python 3.12
            raise InvalidInput(
                f"{folder} is where a disk is mounted; name a folder in it, such as {folder / 'audit'}"
            )
        try:
            present = {entry.name for entry in target.iterdir()}
        except OSError as error:
            raise InvalidInput(
                f"{folder} cannot be read: {error.strerror}; name a folder elsewhere"
            ) from error
        if present and (MARK not in present or not present <= names):
            raise InvalidInput(f"{folder} holds other files than a report of an audit; name an empty folder")
    elif not target.parent.is_dir():
        raise InvalidInput(f"{folder}: its folder does not exist")
    staging = _staging(target)
    if os.path.lexists(staging) and not _is_left_over(staging, names):
        raise InvalidInput(
            f"{staging} is needed while the report is written; move it away, or name another folder"
        )
    for each in (target.parent, target) if target.exists() else (target.parent,):
        try:
            Path(mkdtemp(dir=each)).rmdir()
        except OSError as error:
            raise InvalidInput(
                f"{folder}: nothing can be written to {each}: {error.strerror}; name a folder elsewhere"
            ) from error


def write_report_folder(folder: Path, files: Mapping[str, str], names: frozenset[str]) -> None:
    """Write files to a folder that only its owner can read, in place of an earlier report.

    Parameters
    ----------
    folder : Path
    files : mapping
        Texts by name.
    names : frozenset of str
        Files that a report may have; a folder with others is refused.

    Raises
    ------
    InvalidInput
        As `check_report_folder`.
    """
    check_report_folder(folder, names)
    folder = folder.resolve()
    staging = _staging(folder)
    new, earlier = staging / NEW, staging / EARLIER
    if earlier.exists() and not folder.exists():  # the process before was killed between two renames
        earlier.replace(folder)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        for each in (staging, new):
            each.mkdir(OWNER_FOLDER)
        for name, text in files.items():
            with atomic_text(new / name) as file:
                file.write(text)
        if folder.exists():
            folder.replace(earlier)
        new.replace(folder)
    except BaseException:
        if earlier.exists() and not folder.exists():
            earlier.replace(folder)
        shutil.rmtree(staging, ignore_errors=True)
        raise
    shutil.rmtree(staging, ignore_errors=True)
    sync_folder(folder.parent)


def _staging(folder: Path) -> Path:
    """Return the folder where a report is written, and where an earlier one goes."""
    return folder.with_name(folder.name + SUFFIX)


def _is_left_over(staging: Path, names: frozenset[str]) -> bool:
    """Return whether a folder holds nothing but reports, of files `names`, that were not finished."""
    if staging.is_symlink() or not staging.is_dir():
        return False
    entries = list(staging.iterdir())
    return {entry.name for entry in entries} <= {NEW, EARLIER} and all(
        entry.is_dir() and {file.name.partition(SUFFIX)[0] for file in entry.iterdir()} <= names
        for entry in entries
    )


def audit_tables(audit: CollectionAudit, privacy: PrivacyCheck | None) -> dict[str, str]:
    """Return the content of each csv file by its name; empty tables have their header alone.

    `privacy`: None if it was not checked, and has no files.
    """
    tables = {
        "labels.csv": csv_text([("image_id", "source", "label", "suspicion", "suggested"), *_labels(audit)]),
        "duplicates.csv": csv_text([("group", "image_id", "source", "change"), *_duplicates(audit)]),
        "leaks.csv": csv_text([("leak", "kind", "image_id", "source", "part"), *_leaks(audit)]),
        "outliers.csv": csv_text([("image_id", "source", "likeness", "distance"), *_outliers(audit)]),
    }
    if privacy is None:
        return tables
    return tables | {
        "privacy.csv": csv_text([COLUMNS, *privacy_rows(privacy)]),
        "privacy_files.csv": csv_text([FILE_COLUMNS, *privacy_files(privacy)]),
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


def write_audit(
    folder: Path,
    audit: CollectionAudit,
    collection: Collection,
    max_pixels: int,
    progress: Progress,
    privacy: PrivacyCheck | None = None,
) -> ReportedAudit:
    """Write the report of an audit and return its message.

    Parameters
    ----------
    folder : Path
        Folder that does not exist, is empty, or has an earlier report, which is replaced.
    audit : CollectionAudit
    collection : Collection
        The audited collection.
    max_pixels : int
        Pixels of the largest picture.
    progress : callable
        As of `run_audit`.
    privacy : PrivacyCheck, optional
        Of the same collection; None if it was not checked.
    """
    of_privacy = None if privacy is None else summarise_privacy(privacy)
    message = ReportedAudit(**vars(summarise_audit(audit)), privacy=of_privacy)
    files = {
        MARK: message.model_dump_json(indent=1),
        **audit_tables(audit, privacy),
        REPORT: render_audit_report(message, collection, max_pixels, progress),
    }
    write_report_folder(folder, files, REPORT_FILES)
    return message
