"""Report of an indexing run: its counts, its progress and the files that it refuses."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

NAMING_FILES = (
    "examples",
    "conflict_examples",
)  # parts of a summary with paths, which may be names of patients


@dataclass
class IndexSummary:
    """Counts of a run.

    files: walked. indexed: images added. already: files that were in the collection. relabelled: those of them
    whose labels or patient changed, and duplicates that brought labels. duplicates: images left out because the same
    picture is in the collection. deleted_earlier: images left out because someone deleted them. flagged, quarantined:
    images with a finding of the intake check. refused: files without a usable image; the first few of them with their
    reasons in `examples`. manifest_unused: rows whose file is not in the sources. manifest_lost: rows whose labels
    are with no picture, since their file was refused or its picture deleted earlier. completed: files whose images
    got facts that an older version had not read in their headers. conflicts: labels of duplicates that differ from
    those of the picture, which stay; the first few are in `conflict_examples`. seconds: of the whole run.
    describing_seconds: until all files were described and added.
    """

    files: int = 0
    indexed: int = 0
    already: int = 0
    relabelled: int = 0
    duplicates: int = 0
    deleted_earlier: int = 0
    flagged: int = 0
    quarantined: int = 0
    refused: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)
    manifest_unused: int = 0
    manifest_lost: int = 0
    completed: int = 0
    conflicts: int = 0
    conflict_examples: list[tuple[str, str]] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0
    describing_seconds: float = 0.0


ReportRefusal = Callable[[str, str], None]


class ProgressReport(Protocol):
    """Receives the progress of a run, in a context. total: number of files, None until they are counted."""

    total: int | None

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: object) -> None: ...

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Take the number of files done, and the summary so far."""
        ...

    def begin_stage(self, stage: str) -> None:
        """Take the name of what follows: the nodes at work, or what is done when all files are."""
        ...

    def show_stage(self, stage: str, done: int, total: int) -> None:
        """Take the steps `done` of a `stage` that comes when all files are, and their `total`."""
        ...
