"""What stores the editions of an index: a file of FAISS, a table of pgvector, or a server of Milvus."""

from pathlib import Path
from typing import Protocol

from cbir.store.collection import Collection
from cbir.store.index_feed import scope_conditions
from cbir.vector_index.editions import FOLDER
from cbir.vector_index.port import IndexScope, Numbers, VectorIndex


class IndexEngine(Protocol):
    """Opens and deletes editions by name.

    durable: images are stored for good when `put` returns, so that an interrupted fill can go on.
    """

    durable: bool

    def open(self, name: str, dimensions: int) -> VectorIndex:
        """Return an edition, which is created if it does not exist."""

    def drop(self, name: str) -> None:
        """Delete an edition, if it exists."""

    def drop_others(self, names: set[str]) -> None:
        """Delete what interrupted processes have left beside the editions `names`."""


class HnswEngine:
    """Graphs of FAISS in files of the collection's files folder."""

    durable = False

    def __init__(self, collection: Collection) -> None:
        self._folder: Path = collection.folder / FOLDER
        self._feed = collection.index_feed()

    def open(self, name: str, dimensions: int) -> VectorIndex:
        """Return an edition, which is created if it does not exist."""
        from cbir.vector_index.faiss_index import FaissIndex

        return FaissIndex(self._folder, name, dimensions, self._matching)

    def drop(self, name: str) -> None:
        """Delete the files of an edition; copies in memory go when no search uses them any more."""
        for path in self._folder.glob(f"{name}.*"):
            path.unlink(missing_ok=True)

    def drop_others(self, names: set[str]) -> None:
        """Delete the files of other editions."""
        for path in self._folder.glob("cbir_*"):
            if path.name.partition(".")[0] not in names:
                path.unlink(missing_ok=True)

    def _matching(self, scope: IndexScope) -> Numbers:
        conditions = scope_conditions(
            scope.where, scope.of_patients, scope.without_patients, scope.without_contents, scope.outside
        )
        return self._feed.matching(conditions)
