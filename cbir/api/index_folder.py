"""Indexing, which the package `indexer` provides through an entry point."""

import os
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

from cbir.errors import InvalidInput

GROUP = "cbir.functions"
Source = str | os.PathLike[str]


class IndexCounts(Protocol):
    """Counts of an indexing run; a class of the package `indexer` has them.

    files: walked. indexed: images added. already: files that were in the collection. relabelled: those of them
    whose labels or patient changed, and duplicates that brought labels. duplicates: images left out because the same
    picture is in the collection. deleted_earlier: images left out because they were deleted. flagged, quarantined:
    images with a finding of the intake check, stored or set aside. refused: files without a usable image; the first
    few of them with their reasons in `examples`. manifest_unused: rows whose file is not in the sources.
    manifest_lost: rows whose labels are with no picture, since their file was refused or its picture deleted earlier.
    completed: files whose images got facts that an older version had not read in their headers. conflicts: labels of
    duplicates that differ from those of the picture, which stay; the first few are in `conflict_examples`.
    interrupted: whether the run was stopped. seconds: its duration. describing_seconds: until all files were
    described and added.
    """

    files: int
    indexed: int
    already: int
    relabelled: int
    duplicates: int
    deleted_earlier: int
    flagged: int
    quarantined: int
    refused: int
    examples: list[tuple[str, str]]
    manifest_unused: int
    manifest_lost: int
    completed: int
    conflicts: int
    conflict_examples: list[tuple[str, str]]
    interrupted: bool
    seconds: float
    describing_seconds: float


def index_folder(
    sources: Source | Sequence[Source], collection: Source, labels: Source | None = None, **options: Any
) -> IndexCounts:
    """Add images to a collection, as `cbir index` does. An interrupted call continues when it is repeated.

    Parameters
    ----------
    sources : str, path-like or sequence of them
        Folders, searched recursively, image files, and addresses in object stores (s3://BUCKET/PREFIX).
    collection : str or path-like
        Folder of the collection, or its address in PostgreSQL; created if it does not exist.
    labels : str or path-like, optional
        CSV file, or its address in an object store, with a column `path`, relative to the file, and any label
        columns; `patient` becomes a keyed hash.
    **options
        profile : str or path-like, of a new collection: encoder, descriptor, folder of a trained embedding, or
        NETWORK+DESCRIPTOR. weights : mapping of str to float, of a new collection: factors of the parts. jobs : int,
        number of processes, by default of cores. duplicates, restore : bool, also add pictures that the collection
        has already, or that were deleted earlier. progress : bool, show a bar on stderr. ray : str, address of a Ray
        cluster that describes the images.

    Returns
    -------
    IndexCounts
        `indexed`, `already`, `duplicates`, `refused`, ...; `examples` has refused files with the reasons.

    Raises
    ------
    NotFound
        For a missing source.
    InvalidInput
        If the collection has another profile, or the file of labels names none of the files.
    CollectionBusy
        If another process is writing to the collection.
    """
    entries = entry_points(group=GROUP, name="index")
    if not entries:
        raise InvalidInput("this installation of cbir has no indexer; install it again: pip install .")
    counts: IndexCounts = next(iter(entries)).load()(sources, collection, labels, **options)
    return counts
