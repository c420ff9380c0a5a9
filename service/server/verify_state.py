"""Integrity check of a service's state: database, tokens, audit log, and files of features."""

from collections.abc import Callable, Iterator
from functools import partial

from cbir.errors import CbirError, InvalidInput
from cbir.settings import Settings
from cbir.system.features import features
from service.access.audit import AuditFiles
from service.access.chain_check import ChainReport
from service.access.security import audit_key_file, audit_log_place
from service.access.shared_audit import SharedAuditLines
from service.access.token_stores import open_tokens
from service.state.database import StateDatabase, open_state

MAX_FAULTS = 20  # of the audit log; `cbir admin audit-log verify` counts all


def verify_state(settings: Settings, first: int = 1, progress: Callable[[str], object] = str) -> list[str]:
    """Read all that a service has stored about itself, and compare it with its checksums; return the problems.

    Parameters
    ----------
    settings : Settings
        Those of the service.
    first : int
        Of the audit log, see `AuditFiles.verify`.
    progress : callable
        Called with what is read next.

    Raises
    ------
    InvalidInput
        If nothing has been stored yet, or a setting does not fit.
    """
    database = open_state(settings)
    _require_state(settings, database)
    problems: list[str] = []
    for stage, check in (
        ("state database", database.problems),
        ("tokens", lambda: _token_problems(settings, database)),
        ("audit log", lambda: _audit_problems(settings, database, first)),
        *_checks_of_features(settings),
    ):
        progress(stage)
        problems += check()
    return problems


def _require_state(settings: Settings, database: StateDatabase) -> None:
    """Raise InvalidInput if there is nothing: the settings may be others than those of the service."""
    folders = [settings.state_folder, *([settings.annotation_folder] if settings.annotation_folder else [])]
    if not database.shared and not any(folder.is_dir() and any(folder.iterdir()) for folder in folders):
        raise InvalidInput(
            f"state_folder {settings.state_folder} is empty or missing; set state_folder as for the service"
        )


def _token_problems(settings: Settings, database: StateDatabase) -> list[str]:
    try:
        open_tokens(settings, database).all()
    except CbirError as error:
        return [str(error)]
    return []


def _audit_problems(settings: Settings, database: StateDatabase, first: int) -> list[str]:
    path = audit_log_place(settings)
    try:
        if path is None:
            shared = SharedAuditLines(database, audit_key_file(settings))
            return _faults(shared.verify(first)) if shared.exists() else []
        files = AuditFiles(path)
        return _faults(files.verify(first)) if files.exists() else []
    except CbirError as error:
        return [str(error)]


def _faults(report: ChainReport) -> list[str]:
    lines = [f"audit log: {fault}" for fault in report.faults[:MAX_FAULTS]]
    more = len(report.faults) - MAX_FAULTS
    return [*lines, f"audit log: {more} more; see `cbir admin audit-log verify`"] if more > 0 else lines


def _checks_of_features(settings: Settings) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    for feature in features():
        for stage, reference in feature.checks.items():
            yield stage, partial(feature.load(reference), settings)
