"""An indexing run: find, extract, add, in batches that are on the disk before the next is counted."""

import csv
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from cbir.collection import Collection
from cbir.collection.records import add_labels
from cbir.collection.writer import Entry, Writer
from cbir.datasets.manifest import Manifest
from cbir.errors import CollectionDamaged, InvalidInput
from cbir.images import Limits
from indexer.extract import Extracted, Task
from indexer.folder import stamp, walk
from indexer.pool import extract_all

BATCH_IMAGES = 512  # committed together, or as many as came in
BATCH_SECONDS = 1.0
LOOKUP = 512  # files looked up in the collection at once


@dataclass
class Summary:
    """What became of the files of a run.

    files: found. indexed: images added. already: files that were in the collection, unchanged. duplicates:
    images not added since the same picture is there. deleted_earlier: images not added since somebody deleted
    them. relabelled: files whose labels were changed. refused: files without a usable image, with reasons.
    """

    files: int = 0
    indexed: int = 0
    already: int = 0
    relabelled: int = 0
    duplicates: int = 0
    deleted_earlier: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)
    manifest_unused: int = 0
    interrupted: bool = False
    seconds: float = 0.0


Progress = Callable[[int, Summary], None]


class Run:
    """One run over `sources` into an open collection. `progress(files done, summary)` is called as it goes."""

    def __init__(
        self,
        collection: Collection,
        sources: Sequence[Path],
        *,
        manifest: Manifest | None = None,
        jobs: int = 1,
        limits: Limits,
        duplicates: bool = False,
        restore: bool = False,
        progress: Progress = lambda done, summary: None,
    ) -> None:
        if jobs < 1:
            raise InvalidInput(f"--jobs must be at least 1, not {jobs}")
        self.collection = collection
        self.sources = sources
        self.manifest = manifest
        self.jobs = jobs
        self.duplicates = duplicates
        self.restore = restore
        self.progress = progress
        self.task = Task(collection.profile.descriptor, collection.secret, limits)
        self.summary = Summary()
        self.done = 0

    def __call__(self) -> Summary:
        """Do it. An interrupt (Ctrl-C) ends the run in order; the same call goes on where it stopped."""
        started = time.monotonic()
        with self.collection.writer() as writer:
            try:
                self._index(writer)
            except KeyboardInterrupt:
                self.summary.interrupted = True
            writer.finish()
        if self.manifest and not self.summary.interrupted:
            self.summary.manifest_unused = self.manifest.unused()
        self.summary.seconds = time.monotonic() - started
        return self.summary

    def _index(self, writer: Writer) -> None:
        batch: list[Extracted] = []
        images, since = 0, time.monotonic()
        extracted = extract_all(self._wanted(writer), self.task, self.jobs)
        try:
            for one in extracted:
                if one.refused is not None:
                    self.summary.refused.append((str(one.path), one.refused))
                    self._step(1)
                    continue
                batch.append(one)
                images += len(one.records)
                if images >= BATCH_IMAGES or time.monotonic() - since > BATCH_SECONDS:
                    self._commit(writer, batch)
                    batch, images, since = [], 0, time.monotonic()
        finally:
            extracted.close()
            self._commit(writer, batch)

    def _wanted(self, writer: Writer) -> Iterator[Path]:
        """Files that the collection does not know, or knows otherwise."""
        paths = walk(self.sources)
        while part := list(islice(paths, LOOKUP)):
            known = writer.known([str(path) for path in part])
            for path in part:
                self.summary.files += 1
                if known.get(str(path)) != _stamp(path):
                    yield path
                    continue
                self.summary.already += 1
                self._relabel(writer, path)
                self._step(1)

    def _relabel(self, writer: Writer, path: Path) -> None:
        given = self.manifest.labels([path]).get(path) if self.manifest else None
        if given:
            given.pop("patient", None)  # whose picture it is does not change with its labels
            self.summary.relabelled += writer.relabel(str(path), given)

    def _commit(self, writer: Writer, batch: list[Extracted]) -> None:
        if not batch:
            return
        given = self.manifest.labels([one.path for one in batch]) if self.manifest else {}
        entries: list[Entry] = []
        for one in batch:
            its_labels = given.get(one.path, {})
            assert one.vectors is not None
            for record, vector in zip(one.records, one.vectors, strict=True):
                entries.append((add_labels(record, its_labels, self.task.secret), vector))
        added = writer.add(entries, duplicates=self.duplicates, restore=self.restore)
        self.summary.indexed += len(added.ids)
        self.summary.duplicates += added.duplicates
        self.summary.deleted_earlier += added.deleted_earlier
        self._step(len(batch))

    def _step(self, files: int) -> None:
        self.done += files
        self.progress(self.done, self.summary)


def _stamp(path: Path) -> str:
    try:
        return stamp(path)
    except OSError:
        return "gone"  # extraction will say why


def write_report(path: Path, refused: Sequence[tuple[str, str]]) -> None:
    """A csv `path,reason` of the files that were refused."""
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["path", "reason"])
            rows.writerows(refused)
    except OSError as error:
        raise CollectionDamaged(f"the report {path} cannot be written: {error.strerror}") from error
