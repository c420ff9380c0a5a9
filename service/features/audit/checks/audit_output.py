"""The report of an audit as a folder of files."""

from collections.abc import Callable
from pathlib import Path

from cbir.store import Collection
from service.features.audit.checks.audit_report import render_audit_report
from service.features.audit.checks.audit_summary import summarise_audit
from service.features.audit.checks.audit_tables import audit_tables
from service.features.audit.checks.collection_audit import CollectionAudit
from service.features.audit.checks.privacy import PrivacyCheck
from service.features.audit.checks.privacy_messages import ReportedAudit, summarise_privacy
from service.features.audit.checks.report_folder import MARK, write_report_folder

REPORT = "report.html"
REPORT_FILES = frozenset(
    f"{name}.csv" for name in ("labels", "duplicates", "leaks", "outliers", "privacy", "privacy_files")
) | {REPORT, MARK}

Progress = Callable[[str, int, int], None]


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
