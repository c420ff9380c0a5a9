"""An indexing run: find, describe and add files, in batches that are on disk before the next is counted."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from cbir.datasets.manifest import Manifest
from cbir.hardware import Device
from cbir.images import Limits
from cbir.ingest.description import DescribedFile, DescribeTask
from cbir.ingest.image_files import file_stamp, find_images
from cbir.paths import is_inside
from cbir.store import Collection
from cbir.store.image_rows import Entry
from cbir.store.records import add_labels, hash_patient
from cbir.store.writer import Writer
from indexer.describe_files import FileTask, describe_all
from indexer.guarded_read import OUTSIDE

BATCH_IMAGES = 512  # committed together, or as many as came within BATCH_SECONDS
BATCH_SECONDS = 1.0
LOOKUP = 512  # files looked up in the collection at a time
EXAMPLES = 10  # refused files in the summary


@dataclass
class IndexSummary:
    """Counts of a run.

    files: walked. indexed: images added. already: files that were in the collection. relabelled: those of them
    whose labels or patient changed. duplicates: images left out because the same picture is in the collection.
    deleted_earlier: images left out because someone deleted them. refused: files without a usable image; the
    first few of them with their reasons in `examples`. manifest_unused: rows whose file is not in the sources.
    """

    files: int = 0
    indexed: int = 0
    already: int = 0
    relabelled: int = 0
    duplicates: int = 0
    deleted_earlier: int = 0
    refused: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)
    manifest_unused: int = 0
    interrupted: bool = False
    seconds: float = 0.0


ReportProgress = Callable[[int, IndexSummary], None]
ReportRefusal = Callable[[str, str], None]


class IndexRun:
    """One run over `sources` into an open collection.

    Parameters
    ----------
    collection : Collection
        Open for reading; the run takes its writer.
    sources : sequence of Path
        Folders and files.
    limits : Limits
        Largest files and images.
    device : {"auto", "cpu", "cuda"}
        Device of a network.
    manifest : Manifest, optional
        Labels of the files.
    jobs : int
        Greatest number of processes.
    duplicates : bool
        Add pictures that the collection has already.
    restore : bool
        Add pictures that were deleted earlier.
    within : sequence of Path
        Folders that links may not lead out of; empty: no restriction.
    who : str
        Name in the collection's history.
    progress : callable
        Called with the files done and the summary so far.
    report_refusal : callable
        Called with the path and the reason of every refused file.
    """

    def __init__(
        self,
        collection: Collection,
        sources: Sequence[Path],
        *,
        limits: Limits,
        device: Device = "auto",
        manifest: Manifest | None = None,
        jobs: int = 1,
        duplicates: bool = False,
        restore: bool = False,
        within: Sequence[Path] = (),
        who: str = "command line",
        progress: ReportProgress = lambda done, summary: None,
        report_refusal: ReportRefusal = lambda path, reason: None,
    ) -> None:
        self.collection = collection
        self.sources = sources
        self.manifest = manifest
        self.jobs = jobs
        self.duplicates = duplicates
        self.restore = restore
        self.who = who
        self.progress = progress
        self.report_refusal = report_refusal
        self.task = FileTask(DescribeTask.for_collection(collection, limits, device), tuple(within))
        self.summary = IndexSummary()
        self.done = 0
        self._pending_labels: dict[Path, dict[str, str]] = {}  # of files under way

    def __call__(self) -> IndexSummary:
        """Run. Ctrl-C ends the run in order; the same call continues where it stopped."""
        started = time.monotonic()
        with self.collection.writer(self.who) as writer:
            try:
                self._index(writer)
            except KeyboardInterrupt:
                self.summary.interrupted = True
            # What came before an interrupt is no sample to compute the statistics from.
            if not self.summary.interrupted or self.collection.statistics():
                writer.finish()
        if self.manifest and not self.summary.interrupted:
            self.summary.manifest_unused = self.manifest.unused()
        self.summary.seconds = time.monotonic() - started
        return self.summary

    def _index(self, writer: Writer) -> None:
        batch: list[tuple[Path, DescribedFile]] = []
        images, first_added = 0, 0.0
        described_files = describe_all(self._new_files(writer), self.task, self.jobs)
        try:
            for path, described in described_files:
                if described.refused is not None:
                    self._refuse(path, described.refused)
                else:
                    first_added = first_added if batch else time.monotonic()
                    batch.append((path, described))
                    images += len(described.records)
                if batch and (images >= BATCH_IMAGES or time.monotonic() - first_added > BATCH_SECONDS):
                    full_batch, batch, images = batch, [], 0
                    self._commit(writer, full_batch)
        except KeyboardInterrupt:
            described_files.close()
            self._commit(writer, batch)
            raise
        finally:
            described_files.close()
        self._commit(writer, batch)

    def _new_files(self, writer: Writer) -> Iterator[Path]:
        """Yield files that are not in the collection, or have changed since."""
        paths = find_images(self.sources, self.task.within)
        while part := list(islice(paths, LOOKUP)):
            self.summary.files += len(part)
            allowed = [path for path in part if self._has_utf8_name(path) and self._may_be_read(path)]
            stamps = writer.source_stamps([str(path) for path in allowed])
            labels = self.manifest.labels(allowed) if self.manifest else {}
            for path in allowed:
                if stamps.get(str(path)) != _stamp_or_missing(path):
                    self._pending_labels[path] = labels.get(path, {})
                    yield path
                    continue
                self.summary.already += 1
                if path in labels:
                    patient = hash_patient(self.task.describe.secret, labels[path].pop("patient", ""))
                    self.summary.relabelled += writer.relabel(str(path), labels[path], patient)
                self._step(1)

    def _has_utf8_name(self, path: Path) -> bool:
        try:
            str(path).encode()
        except UnicodeEncodeError:
            self._refuse(path, "its name is not UTF-8; rename it")
            return False
        return True

    def _may_be_read(self, path: Path) -> bool:
        if self.task.within and not is_inside(path, self.task.within):
            self._refuse(path, OUTSIDE)
            return False
        return True

    def _refuse(self, path: Path, reason: str) -> None:
        self._pending_labels.pop(path, None)
        name = str(path).encode(errors="backslashreplace").decode()
        self.summary.refused += 1
        if len(self.summary.examples) < EXAMPLES:
            self.summary.examples.append((name, reason))
        self.report_refusal(name, reason)
        self._step(1)

    def _commit(self, writer: Writer, batch: Sequence[tuple[Path, DescribedFile]]) -> None:
        if not batch:
            return
        entries: list[Entry] = []
        for path, described in batch:
            labels = self._pending_labels.pop(path, {})
            for record, vector in described.entries:
                entries.append((add_labels(record, labels, self.task.describe.secret), vector))
        added = writer.add(entries, duplicates=self.duplicates, restore=self.restore)
        self.summary.indexed += len(added.ids)
        self.summary.already += added.updated
        self.summary.duplicates += added.duplicates
        self.summary.deleted_earlier += added.deleted_earlier
        self._step(len(batch))

    def _step(self, files: int) -> None:
        self.done += files
        self.progress(self.done, self.summary)


def _stamp_or_missing(path: Path) -> str:
    try:
        return file_stamp(path)
    except OSError:
        return "missing"  # describing it gives the reason
