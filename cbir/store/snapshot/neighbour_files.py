"""Files of the k-NN graphs of vector indexes, which `cbir.store.index.stored_neighbours` writes and builds again."""

from pathlib import Path

from cbir.system.files import SUFFIX


def drop_neighbours(folder: Path) -> None:
    """Delete the graphs of the collection in `folder` on this machine: they have numbers of erased images."""
    for pattern in ("*.neighbours", f"*.neighbours{SUFFIX}"):  # and what a build that was killed left
        for path in (folder / "vector_index").glob(pattern):
            path.unlink(missing_ok=True)
