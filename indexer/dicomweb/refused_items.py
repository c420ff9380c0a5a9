"""Items that were not added: named once, and noted until they arrive."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from cbir.system.console import echo
from indexer.dicom.describe_instance import Fate
from indexer.dicomweb.archive_items import ArchiveItem

PRINTED = 10  # items of a run that are named on stderr; the report names all


@dataclass(eq=False)
class RefusedItems:
    """Names refused items on stderr and in the report. Thread-safe.

    Parameters
    ----------
    write_row : callable
        Gets study, series, instance and reason of each; a row of the report.
    most_printed : int or None
        Items that are named on stderr; None: all.
    """

    write_row: Callable[..., None] = lambda *cells: None
    most_printed: int | None = PRINTED
    _open: dict[ArchiveItem, Fate] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _printed: int = field(default=0, init=False)

    def add(self, item: ArchiveItem, reason: str, fate: Fate) -> bool:
        """Note an item that may arrive later, with its `reason` and `fate`; return False if it is noted already."""
        with self._lock:
            is_new = item not in self._open
            self._open.setdefault(item, fate)
            if is_new:
                self._name(item, reason)
            return is_new

    def report(self, item: ArchiveItem, reason: str, show: bool = True) -> None:
        """Name an `item` and its `reason` for good: it is gone, or not wanted; with `show` on stderr too."""
        with self._lock:
            self._name(item, reason, show)

    def discard(self, item: ArchiveItem) -> Fate | None:
        """Forget an item that has arrived; return the fate that it was noted with."""
        with self._lock:
            return self._open.pop(item, None)

    def of_study(self, uid: str) -> set[ArchiveItem]:
        """Return the items of a study that are noted; of "", studies that are not known."""
        with self._lock:
            return {item for item in self._open if item.study == uid}

    def _name(self, item: ArchiveItem, reason: str, show: bool = True) -> None:
        self.write_row(item.study, item.series, item.instance, f"{item.gap} {reason}".strip())
        if not show:
            return
        if self.most_printed is None or self._printed < self.most_printed:
            echo(f"cbir: {item}: {reason}", err=True)
        elif self._printed == self.most_printed:
            echo("cbir: further ones are in the file that --report names", err=True)
        self._printed += 1
