"""What a collection acknowledged, and a check that the collection on disk agrees."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from cbir.store import Collection
from cbir.store.upkeep.verify import verify_collection

LABEL = "label"


@dataclass(frozen=True)
class Step:
    """A change. kind: "add", "job", "delete", "erase" or "label". value: of the label, None if it is removed."""

    kind: str
    ids: tuple[str, ...]
    value: str | None = None


@dataclass
class Ledger:
    """Acknowledged state. Thread-safe.

    labels: value of the label by id of every image. gone: ids of images that were deleted or erased. pending: steps
    that were begun and not acknowledged: each may have happened or not, and all but jobs as a whole or not at all.
    """

    labels: dict[str, str | None] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    pending: list[Step] = field(default_factory=list)
    acknowledged: Counter[str] = field(default_factory=Counter)
    interrupted: int = 0
    _lock: Lock = field(default_factory=Lock)

    def begin(self, step: Step) -> None:
        """Record that a step begins."""
        with self._lock:
            self.pending.append(step)

    def acknowledge(self, step: Step) -> None:
        """Record that a step was acknowledged."""
        with self._lock:
            self.pending.remove(step)
            self.acknowledged[step.kind] += len(step.ids)
            if step.kind in ("delete", "erase"):
                self.gone.update(step.ids)
                for image_id in step.ids:
                    self.labels.pop(image_id, None)
            else:
                self.labels.update(dict.fromkeys(step.ids, step.value))
                self.gone.difference_update(step.ids)

    @contextmanager
    def doing(self, step: Step) -> Iterator[None]:
        """Record a step that is acknowledged if the block ends without an error."""
        self.begin(step)
        yield
        self.acknowledge(step)

    def settle(self, folder: Path) -> list[str]:
        """Compare with the collection in `folder` and book what pending steps did; return the contradictions."""
        with Collection(folder) as collection:
            stored = {record.image_id: record for _, record in collection.iterate()}
            contents = Counter(record.content_hash for record in stored.values())
            problems = [f"verify: {problem}" for problem in verify_collection(collection)]
            if len(collection.view()) != len(stored):
                problems.append("the view shows other images than the records")
            if collection.snapshot_problem:
                problems.append(f"the view is incomplete: {collection.snapshot_problem}")
        problems += self._contradictions({key: value.labels.get(LABEL) for key, value in stored.items()})
        problems += _listed("stored twice", [key for key, number in contents.items() if number > 1])
        removed = {image_id for step in self._pending("delete", "erase") for image_id in step.ids}
        self.gone |= removed - stored.keys()
        self.gone -= stored.keys()
        self.labels = {image_id: record.labels.get(LABEL) for image_id, record in stored.items()}
        self.interrupted += len(self.pending)
        self.pending.clear()
        return problems

    def _contradictions(self, stored: dict[str, str | None]) -> list[str]:
        added = {image_id for step in self._pending("add", "job") for image_id in step.ids}
        removed = {image_id for step in self._pending("delete", "erase") for image_id in step.ids}
        problems = _listed("lost", self.labels.keys() - stored.keys() - removed)
        problems += _listed("came back after deletion", (stored.keys() & self.gone) - added)
        problems += _listed("never added", stored.keys() - self.labels.keys() - added - self.gone)
        possible = {image_id: {value} for image_id, value in self.labels.items()}
        for step in self._pending("add", "job", "label"):
            for image_id in step.ids:
                possible.setdefault(image_id, set()).add(step.value)
        wrong = [
            image_id for image_id, value in stored.items() if value not in possible.get(image_id, {value})
        ]
        problems += _listed("with another label", wrong)
        for step in self.pending:
            happened = {image_id in stored for image_id in step.ids}
            if step.kind not in ("job", "label") and len(happened) > 1:
                problems.append(f"a step ({step.kind}) happened by half")
        return problems

    def _pending(self, *kinds: str) -> list[Step]:
        return [step for step in self.pending if step.kind in kinds]


def _listed(text: str, ids: Iterable[str]) -> list[str]:
    ids = sorted(ids)
    return [f"{len(ids)} images {text}: {' '.join(ids[:3])}"] if ids else []
