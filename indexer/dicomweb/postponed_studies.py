"""Studies that are tried again, after pauses that grow."""

import time
from dataclasses import dataclass, field

from indexer.dicomweb.archive_items import ArchiveStudy

LONGEST_SECONDS = 3600.0


@dataclass
class _Postponed:
    study: ArchiveStudy
    pause: float
    due: float


@dataclass
class PostponedStudies:
    """Studies of which something was not delivered.

    first_seconds: until a study is tried again; each further pause is twice as long.
    """

    first_seconds: float = 60.0
    _by_uid: dict[str, _Postponed] = field(default_factory=dict, init=False)

    def postpone(self, study: ArchiveStudy) -> None:
        """Try a study again, later than after its previous failure."""
        earlier = self._by_uid.get(study.uid)
        pause = min(2 * earlier.pause, LONGEST_SECONDS) if earlier else self.first_seconds
        self._by_uid[study.uid] = _Postponed(study, pause, time.monotonic() + pause)

    def remove(self, study: ArchiveStudy) -> None:
        """Forget a study that is complete."""
        self._by_uid.pop(study.uid, None)

    def due(self) -> list[ArchiveStudy]:
        """Return the studies whose time has come."""
        now = time.monotonic()
        return [entry.study for entry in self._by_uid.values() if entry.due <= now]

    def waits(self, study: ArchiveStudy) -> bool:
        """Return whether a study, as it is listed now, is to be tried later."""
        entry = self._by_uid.get(study.uid)
        if entry is None or entry.study.instances != study.instances:
            return False
        return entry.due > time.monotonic()
