"""Indexing from Python: `cbir.index`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cbir import settings
from cbir.threads import cores
from indexer.index_progress import ProgressBar
from indexer.index_request import IndexRequest
from indexer.index_run import IndexSummary, ProgressReport, run_request

Source = str | os.PathLike[str]


class NoProgress:
    """Shows nothing."""

    def __init__(self) -> None:
        self.total: int | None = None

    def __enter__(self) -> "NoProgress":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Ignore the number of files."""

    def begin_stage(self, stage: str) -> None:
        """Ignore the stage."""


def index_images(
    sources: Source | Sequence[Source],
    collection: Source,
    labels: Source | None = None,
    *,
    profile: str | None = None,
    weights: Mapping[str, float] | None = None,
    jobs: int | None = None,
    duplicates: bool = False,
    restore: bool = False,
    progress: bool = False,
) -> IndexSummary:
    """Add images to a collection, as `cbir index` does. An interrupted call continues when it is repeated.

    Parameters
    ----------
    sources : str, path-like or sequence of them
        Folders, searched recursively, and image files.
    collection : str or path-like
        Folder of the collection; created if it does not exist.
    labels : str or path-like, optional
        CSV file with a column `path`, relative to the file, and any label columns; `patient` becomes a keyed hash.
    profile : str, optional
        Encoder, descriptor, folder of a trained embedding, or NETWORK+DESCRIPTOR, of a new collection.
    weights : mapping of str to float, optional
        Factor of each part's share of the distance, of a new collection.
    jobs : int, optional
        Processes, at least 1; by default the number of cores.
    duplicates, restore : bool
        Also add pictures that the collection has already, and those that were deleted earlier.
    progress : bool
        Show a bar on stderr.

    Returns
    -------
    IndexSummary
        Counts: `indexed`, `already`, `duplicates`, `refused`, ...; `examples` has refused files with the reasons.

    Raises
    ------
    NotFound
        For a missing source.
    InvalidInput
        If the collection has another profile, or a file of labels fits none of the images.
    CollectionBusy
        If another process is writing to the collection.
    """
    several = [sources] if isinstance(sources, str | os.PathLike) else sources
    request = IndexRequest.with_settings(
        settings.load(),
        [Path(source) for source in several],
        Path(collection),
        profile=profile,
        weights=dict(weights or {}),
        labels=None if labels is None else Path(labels),
        jobs=cores() if jobs is None else jobs,
        duplicates=duplicates,
        restore=restore,
        actor="Python",
    )
    report: ProgressReport = ProgressBar() if progress else NoProgress()
    return run_request(request, report, lambda path, reason: None)
