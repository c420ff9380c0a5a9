"""The edition of an index that answers, opened once for all searches of a process and for what follows."""

import weakref
from dataclasses import dataclass
from threading import Lock

from cbir.errors import IndexUnavailable
from cbir.store.base.normalisation import Statistics, read_statistics
from cbir.store.index.editions import EditionRecord, Editions, IndexEngine
from cbir.store.index.port import VectorIndex

NOT_BUILT = "the vector index is not built yet; the service builds it, or `cbir collection build-index`"


@dataclass(frozen=True, eq=False)
class OpenedEdition:
    """An edition that is open. statistics: of the vectors in it, which normalise queries too."""

    name: str
    fingerprint: str
    statistics: Statistics
    index: VectorIndex

    def __post_init__(self) -> None:
        # Searches may still use an edition that another has replaced.
        weakref.finalize(self, self.index.close).atexit = False


class CurrentIndex:
    """Opens the current edition, and the next one once that has taken its place. Thread-safe."""

    def __init__(self, editions: Editions, engine: IndexEngine) -> None:
        self.editions, self.engine = editions, engine
        self._lock = Lock()
        self._version: object = None
        self._opened: OpenedEdition | None = None

    def opened(self) -> OpenedEdition:
        """Return the current edition; raises IndexUnavailable without one."""
        opened = self.find()
        if opened is None:
            raise IndexUnavailable(NOT_BUILT)
        return opened

    def find(self) -> OpenedEdition | None:
        """Return the current edition, None without one; raises IndexUnavailable if it cannot be opened."""
        version = self.editions.version()
        opened = self._opened
        if version == self._version:
            return opened
        with self._lock:
            record = self.editions.read()
            if self._opened is None or record.current != self._opened.name:
                self._opened = self._open(record)
            self._version = version
            return self._opened

    def replace(self, opened: OpenedEdition) -> None:
        """Use an edition that this process has filled, and that the record names."""
        with self._lock:
            self._opened, self._version = opened, self.editions.version()

    def _open(self, record: EditionRecord) -> OpenedEdition | None:
        if record.current is None:
            return None
        statistics = read_statistics(record.statistics)
        index = self.engine.open(record.current, statistics.dimensions)
        return OpenedEdition(record.current, record.fingerprint, statistics, index)
