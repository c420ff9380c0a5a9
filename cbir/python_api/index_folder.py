"""Indexing, which the package `indexer` provides through an entry point."""

import os
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from cbir.errors import InvalidInput

GROUP = "cbir.functions"
Source = str | os.PathLike[str]


def index_folder(
    sources: Source | Sequence[Source], collection: Source, labels: Source | None = None, **options: Any
) -> Any:
    """Add images to a collection, as `cbir index` does. An interrupted call continues when it is repeated.

    Parameters
    ----------
    sources : str, path-like or sequence of them
        Folders, searched recursively, and image files.
    collection : str or path-like
        Folder of the collection; created if it does not exist.
    labels : str or path-like, optional
        CSV file with a column `path`, relative to the file, and any label columns; `patient` becomes a keyed hash.
    **options
        profile : str or path-like, of a new collection: encoder, descriptor, folder of a trained embedding, or
        NETWORK+DESCRIPTOR. weights : mapping of str to float, of a new collection: factors of the parts. jobs : int,
        number of processes, by default of cores. duplicates, restore : bool, also add pictures that the collection
        has already, or that were deleted earlier. progress : bool, show a bar on stderr.

    Returns
    -------
    indexer.index_run.IndexSummary
        Counts: `indexed`, `already`, `duplicates`, `refused`, ...; `examples` has refused files with the reasons.

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
    return next(iter(entries)).load()(sources, collection, labels, **options)
