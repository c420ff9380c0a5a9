"""Storage of the editions of an index: a file of FAISS, a table of pgvector, or a server of Milvus."""

from pathlib import Path
from typing import TYPE_CHECKING

from cbir.errors import InvalidInput
from cbir.store.collection import Collection
from cbir.store.index.editions import FOLDER
from cbir.store.index.port import IndexScope, Numbers, VectorIndex
from cbir.store.views.index_feed import Version, scope_conditions

if TYPE_CHECKING:
    from cbir.store.index.milvus.milvus_connection import MilvusConnection


SCOPES_IN_MEMORY = 8  # scopes whose numbers are kept in memory


class LocalEngine:
    """Graphs or inverted lists of FAISS in files of the collection's files folder."""

    durable = False

    def __init__(self, collection: Collection, kind: str, probes: int) -> None:
        """Open an engine.

        Parameters
        ----------
        collection : Collection
        kind : str
            "hnsw" or "ivf".
        probes : int
            Inverted lists that a search reads.
        """
        folder: Path = collection.folder / FOLDER
        self._folder = folder if kind == "hnsw" else folder / kind
        self._kind, self._probes = kind, probes
        self._feed = collection.index_feed()
        self._kept: dict[IndexScope, tuple[Version, Numbers]] = {}

    def open(self, name: str, dimensions: int) -> VectorIndex:
        """Return an edition, which is created if it does not exist."""
        from cbir.store.index.local.faiss_index import HNSW, FaissIndex, inverted_lists

        kind = HNSW if self._kind == "hnsw" else inverted_lists(self._probes)
        return FaissIndex(self._folder, name, dimensions, self._matching, kind)

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
        """Return the numbers of the images in a scope, those of the latest few from memory."""
        version = self._feed.version()
        cached_version, numbers = self._kept.get(scope, (None, None))
        if numbers is None or cached_version != version:
            conditions = scope_conditions(
                scope.where, scope.of_patients, scope.without_patients, scope.without_contents, scope.outside
            )
            numbers = self._feed.matching(conditions)
            latest = list(self._kept.items())[-SCOPES_IN_MEMORY:]
            self._kept = {**dict(latest), scope: (version, numbers)}  # a new one: other threads may read it
        return numbers


class PgvectorEngine:
    """Tables of the extension pgvector in the schema of a collection in PostgreSQL."""

    durable = True

    def __init__(self, collection: Collection) -> None:
        """Raise InvalidInput for a collection in SQLite."""
        self._database = collection.postgresql()
        if self._database is None:
            raise InvalidInput(
                "the setting index: pgvector is for collections in PostgreSQL; use hnsw or milvus://host:port"
            )

    def open(self, name: str, dimensions: int) -> VectorIndex:
        """Return an edition, which is created if it does not exist."""
        from cbir.store.index.pgvector_index import PgvectorIndex

        assert self._database is not None
        return PgvectorIndex(self._database.engine, name, dimensions)

    def drop(self, name: str) -> None:
        """Delete the table of an edition."""
        self.open(name, 1).drop()

    def drop_others(self, names: set[str]) -> None:
        """Do nothing: the record names all tables."""


class MilvusEngine:
    """Collections of a Milvus server, one for each edition."""

    durable = True

    def __init__(self, address: str, password: str | None, ca_file: Path | None) -> None:
        self._arguments = address, password, ca_file
        self._connection: MilvusConnection | None = None

    def open(self, name: str, dimensions: int) -> VectorIndex:
        """Return an edition, which is created if it does not exist."""
        from cbir.store.index.milvus.milvus_index import MilvusIndex

        return MilvusIndex(self._connected(), name, dimensions)

    def drop(self, name: str) -> None:
        """Delete the Milvus collection of an edition."""
        from cbir.store.index.milvus.milvus_collection import drop_milvus_collection

        drop_milvus_collection(self._connected(), name)

    def drop_others(self, names: set[str]) -> None:
        """Do nothing: others may use the server."""

    def _connected(self) -> "MilvusConnection":
        from cbir.store.index.milvus.milvus_connection import MilvusConnection

        self._connection = self._connection or MilvusConnection(*self._arguments)
        return self._connection
