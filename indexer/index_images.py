"""Indexing from Python: `cbir.index`."""

import os
from collections.abc import Mapping, Sequence

from cbir import settings
from cbir.errors import InvalidInput
from cbir.store.collection_address import collection_folder
from indexer.index_progress import IndexSummary, NoProgress, ProgressReport, ShownProgress
from indexer.index_request import IndexRequest
from indexer.index_run import run_request

Source = str | os.PathLike[str]


def index_images(
    sources: Source | Sequence[Source],
    collection: Source,
    labels: Source | None = None,
    *,
    profile: Source | None = None,
    weights: Mapping[str, float] | None = None,
    jobs: int | None = None,
    duplicates: bool = False,
    restore: bool = False,
    progress: bool = False,
    ray: str | None = None,
) -> IndexSummary:
    """Add images to a collection, as `cbir index` does. An interrupted call continues when it is repeated.

    Parameters
    ----------
    sources, collection, labels
        As of `cbir.index`.
    profile, weights
        Of a new collection: name of a descriptor or encoder, and factors of its parts.
    jobs : int, optional
        Processes, at least 1, with `ray` on each node; by default the number of cores.
    duplicates, restore : bool
        Also add pictures that the collection has already, and those that were deleted earlier.
    progress : bool
        Show a bar on stderr.
    ray : str, optional
        Address of a Ray cluster that describes the images: "auto", "local", "HOST:PORT" or "ray://HOST:PORT".
    """
    if jobs is not None and jobs < 1:
        raise InvalidInput(f"jobs: at least 1, not {jobs}")
    several = [sources] if isinstance(sources, str | os.PathLike) else sources
    request = IndexRequest.with_settings(
        settings.load(),
        [os.fspath(source) for source in several],
        collection_folder(collection),
        profile=None if profile is None else os.fspath(profile),
        weights=dict(weights or {}),
        labels=None if labels is None else os.fspath(labels),
        jobs=jobs,
        ray=ray,
        duplicates=duplicates,
        restore=restore,
        actor="Python",
    )
    report: ProgressReport = ShownProgress() if progress else NoProgress()
    return run_request(request, report, lambda path, reason: None)
