"""Writing side of what is derived from a collection's database: statistics, snapshot, candidate index."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cbir.store.base.normalisation import Statistics
from cbir.store.records.database import Database, is_sqlite
from cbir.store.safety.writer_lock import wait_for_writer, writer_lock
from cbir.store.views import index_build


class DerivedFiles:
    """Writes the files derived from the database of the collection in `folder`.

    In SQLite, the holder of the writer lock may do so. In PostgreSQL it is taken here, and CollectionBusy raised if
    another process of this machine writes files.
    """

    def __init__(self, folder: Path, engine: Database) -> None:
        self.folder = folder
        self._engine = engine

    def finish(self) -> None:
        """End an indexing run: write a snapshot if there is none or too much has changed since."""
        outgrown = index_build.statistics_are_outgrown(self._engine)
        if outgrown or index_build.index_is_stale(self.folder, self._engine):
            with self._files_when_free():
                if outgrown or index_build.index_is_stale(self.folder, self._engine):
                    index_build.rebuild_index(self.folder, self._engine, outgrown)

    def snapshot(self, refit: bool = False) -> None:
        """Rebuild the derived index from the database and switch to it; `refit` fits new statistics."""
        with self._files():
            index_build.rebuild_index(self.folder, self._engine, refit)

    def adopt_statistics(self, statistics: Statistics, fitted_here: bool) -> None:
        """Normalise by `statistics`, until `snapshot` or `compact` fit new ones.

        `fitted_here`: they were fitted to images of this collection, so that erasing a patient fits new ones.
        """
        with self._files():
            adopted = index_build.AdoptedStatistics(statistics, fitted_here)
            index_build.rebuild_index(self.folder, self._engine, adopted=adopted)

    def _files(self) -> AbstractContextManager[None]:
        """Hold the lock of the files: in SQLite, `Collection.writer` does. Raises CollectionBusy."""
        return nullcontext() if is_sqlite(self._engine) else writer_lock(self.folder)

    def _files_when_free(self) -> AbstractContextManager[None]:
        return nullcontext() if is_sqlite(self._engine) else wait_for_writer(self.folder)
