"""The vector index that the settings name for a collection, and its storage: files of FAISS, pgvector, or Milvus."""

import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.store.collection import Collection
from cbir.store.index.current_index import CurrentGap, CurrentIndex, IndexStatus, find_problem, read_status
from cbir.store.index.editions import (
    FOLDER,
    Editions,
    FolderEditions,
    IndexEngine,
    SharedEditions,
)
from cbir.store.index.follower import Follower
from cbir.store.index.indexed_vectors import IndexedVectors
from cbir.store.index.port import IndexScope, Numbers, VectorIndex
from cbir.store.index.stored_neighbours import StoredNeighbours
from cbir.store.views.index_feed import IndexFeed, Version, scope_conditions
from cbir.system.files import read_password

if TYPE_CHECKING:
    from cbir.store.index.milvus_collection import MilvusConnection


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
        from cbir.store.index.faiss_index import HNSW, FaissIndex, inverted_lists

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
        from cbir.store.index.milvus_index import MilvusIndex

        return MilvusIndex(self._connected(), name, dimensions)

    def drop(self, name: str) -> None:
        """Delete the Milvus collection of an edition."""
        from cbir.store.index.milvus_collection import drop_milvus_collection

        drop_milvus_collection(self._connected(), name)

    def drop_others(self, names: set[str]) -> None:
        """Do nothing: others may use the server."""

    def _connected(self) -> "MilvusConnection":
        from cbir.store.index.milvus_collection import MilvusConnection

        self._connection = self._connection or MilvusConnection(*self._arguments)
        return self._connection


LOCAL = ("hnsw", "ivf")


@dataclass(frozen=True)
class CollectionIndex:
    """The vector index of a collection: what searches read, and what follows the collection."""

    kind: str
    vectors: IndexedVectors
    follower: Follower
    feed: IndexFeed
    current: CurrentIndex
    neighbours: StoredNeighbours

    def problem(self) -> str | None:
        """Return why it cannot answer; None if it can."""
        return find_problem(self.current)

    def status(self) -> IndexStatus:
        """Return its state, also while the engine does not answer."""
        status = read_status(self.kind, self.feed, self.current)
        graph = self.neighbours.of(status.edition) if status.edition else None
        return status if graph is None else replace(status, linked=len(graph))


def open_index(collection: Collection, settings: Settings) -> CollectionIndex | None:
    """Return the index of a collection, which need not be built yet; None if the settings name none.

    A last good copy has none: it is read as it is.

    Nothing connects before it is needed. Raises InvalidInput if the index does not fit the collection.
    """
    kind = _kind(collection, settings)
    if kind is None:
        return None
    engine = _engine(collection, kind, settings)
    current = CurrentIndex(_editions(collection, kind), engine)
    feed = collection.index_feed()
    neighbours = StoredNeighbours(
        collection.folder, kind, collection.profile, feed, current, settings.graph_limit
    )
    vectors = IndexedVectors(feed, CurrentGap(feed, current), neighbours=neighbours, index_name=kind)
    return CollectionIndex(kind, vectors, Follower(feed, current), feed, current, neighbours)


def _editions(collection: Collection, kind: str) -> Editions:
    database = collection.postgresql()
    if database is None or kind in LOCAL:  # whose files each machine has for itself
        return FolderEditions(collection.folder, kind)
    return SharedEditions(database, kind)


def _kind(collection: Collection, settings: Settings) -> str | None:
    """Return the kind of vector index that the settings name; None where the snapshot itself is searched."""
    if collection.fallback_for:
        return None
    if settings.index == "auto":
        return "ivf" if len(collection) > settings.exact_limit else None
    return None if settings.index == "flat" else settings.index.partition(":")[0]


def _engine(collection: Collection, kind: str, settings: Settings) -> IndexEngine:
    if kind in LOCAL:
        return LocalEngine(collection, kind, settings.index_probes)
    if kind == "pgvector":
        return PgvectorEngine(collection)
    password_file, ca_file = settings.index_password_file, settings.index_ca_file
    password = read_password(password_file, "index_password_file").strip() if password_file else None
    _require_certificate(ca_file)
    return MilvusEngine(settings.index, password, ca_file)


def _require_certificate(file: Path | None) -> None:
    """Raise InvalidInput for a file without certificates: gRPC would report no more than a lost connection."""
    if file is None:
        return
    try:
        ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"the setting index_ca_file: {file} has no certificates (PEM) to read") from error
