"""The vector index that the settings name for a collection."""

import ssl
from dataclasses import dataclass, replace
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.store.collection import Collection
from cbir.store.index.current_gap import CurrentGap
from cbir.store.index.current_index import CurrentIndex
from cbir.store.index.editions import Editions, FolderEditions, IndexEngine
from cbir.store.index.engines import LocalEngine, MilvusEngine, PgvectorEngine
from cbir.store.index.follower import Follower
from cbir.store.index.index_status import IndexStatus, find_problem, read_status
from cbir.store.index.indexed_vectors import IndexedVectors
from cbir.store.index.shared_editions import SharedEditions
from cbir.store.index.stored_neighbours import StoredNeighbours
from cbir.store.snapshot.index_record import IndexRecord
from cbir.store.views.index_feed import IndexFeed

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
    return SharedEditions(IndexRecord(database, kind))


def _kind(collection: Collection, settings: Settings) -> str | None:
    """Return the kind of vector index that the settings name; None where the snapshot itself is searched."""
    if settings.index == "auto":
        return "ivf" if len(collection) > settings.exact_limit else None
    return None if settings.index == "flat" else settings.index.partition(":")[0]


def _engine(collection: Collection, kind: str, settings: Settings) -> IndexEngine:
    if kind in LOCAL:
        return LocalEngine(collection, kind, settings.index_probes)
    if kind == "pgvector":
        return PgvectorEngine(collection)
    password, ca_file = _read_password(settings.index_password_file), settings.index_ca_file
    _require_certificate(ca_file)
    return MilvusEngine(settings.index, password, ca_file)


def _read_password(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the setting index_password_file: {file} cannot be read") from error


def _require_certificate(file: Path | None) -> None:
    """Raise InvalidInput for a file without certificates: gRPC would report no more than a lost connection."""
    if file is None:
        return
    try:
        ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"the setting index_ca_file: {file} has no certificates (PEM) to read") from error
