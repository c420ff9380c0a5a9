"""A request to index sources into a collection: from the command line, or from a job of the service."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cbir.datasets.manifest import Manifest
from cbir.errors import InvalidInput, NotFound
from cbir.hardware import Device
from cbir.images import Limits
from cbir.ingest.image_files import find_images
from cbir.paths import is_inside
from cbir.store import Collection
from cbir.store import profile as profiles
from indexer.index_run import IndexRun, IndexSummary, ReportRefusal

DEFAULT_PROFILE = "huang2012"


@dataclass(frozen=True)
class IndexRequest:
    """Settings of an indexing run.

    sources: folders, walked, and files. collection: its folder, created if needed. profile, weights: of a new
    collection. labels: a manifest. within: folders that links may not lead out of; empty: no restriction.
    actor: name in the collection's history.
    """

    sources: Sequence[Path]
    collection: Path
    profile: str | None = None
    weights: dict[str, float] = field(default_factory=dict)
    labels: Path | None = None
    jobs: int = 1
    limits: Limits = field(default_factory=Limits)
    device: Device = "auto"
    duplicates: bool = False
    restore: bool = False
    within: Sequence[Path] = ()
    actor: str = "command line"

    def check(self) -> None:
        """Raise NotFound or InvalidInput for a source that is missing, or outside the allowed folders."""
        for path in [*self.sources, *([self.labels] if self.labels else [])]:
            if self.within and not is_inside(path, self.within):
                raise InvalidInput(f"{path} lies in none of the folders that may be indexed")
        for source in self.sources:
            if not source.exists():
                raise NotFound(f"there is no file or folder {source}")


class ProgressReport(Protocol):
    """Receives the progress of a run. total: number of files, None until they are counted."""

    total: int | None

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Take the number of files done, and the summary so far."""
        ...


def run_request(
    request: IndexRequest, progress: ProgressReport, report_refusal: ReportRefusal
) -> IndexSummary:
    """Index the sources of a request.

    Parameters
    ----------
    request : IndexRequest
        Sources, collection and options.
    progress : ProgressReport
        Called as the run goes.
    report_refusal : callable
        Called with the path and the reason of every refused file.

    Raises
    ------
    InvalidInput, NotFound
        For a wrong request, before anything is written.
    """
    request.check()
    manifest = Manifest(request.labels) if request.labels else None
    with open_collection(request.collection, request.profile, request.weights) as collection:
        _count_in_background(request, progress)
        run = IndexRun(
            collection,
            request.sources,
            limits=request.limits,
            device=request.device,
            manifest=manifest,
            jobs=request.jobs,
            duplicates=request.duplicates,
            restore=request.restore,
            within=request.within,
            who=request.actor,
            progress=progress,
            report_refusal=report_refusal,
        )
        return run()


def open_collection(
    folder: Path, profile: str | None = None, weights: dict[str, float] | None = None
) -> Collection:
    """Open a collection, or create it.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    profile : str, optional
        Descriptor or trained embedding; huang2012 for a new collection by default.
    weights : dict, optional
        Factor of each part's share of the distance.

    Raises
    ------
    InvalidInput
        If the collection has another profile.
    """
    requested = profiles.get(profile or DEFAULT_PROFILE, weights or {})
    if not Collection.exists(folder):
        return Collection.create(folder, requested)
    collection = Collection(folder)
    if (profile or weights) and collection.profile.hash != requested.hash:
        raise InvalidInput(
            f"{folder} has profile {collection.profile.name} (hash {collection.profile.hash}), not "
            f"{requested.name} (hash {requested.hash}); leave --profile and --weight out, or name another collection"
        )
    return collection


def _count_in_background(request: IndexRequest, progress: ProgressReport) -> None:
    """Set the total once all files are counted; indexing starts meanwhile."""

    def count() -> None:
        with suppress(OSError, NotFound):  # the run itself reports a source that disappears
            progress.total = sum(1 for _ in find_images(request.sources, request.within))

    threading.Thread(target=count, daemon=True).start()
