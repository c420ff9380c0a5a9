"""An indexing run: find, extract, add, in batches that are on the disk before the next is counted."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from cbir.datasets.manifest import Manifest
from cbir.images import Limits
from cbir.paths import is_inside
from cbir.store import Collection
from cbir.store.model import FOLDER as MODEL
from cbir.store.records import add_labels, hash_patient
from cbir.store.writer import Entry, Writer
from indexer.extract import Extracted, Task
from indexer.folder import stamp, walk
from indexer.guarded import OUTSIDE
from indexer.pool import extract_all

BATCH_IMAGES = 512  # committed together, or as many as came in
BATCH_SECONDS = 1.0
LOOKUP = 512  # files looked up in the collection at once
EXAMPLES = 10  # refused files that the summary names


@dataclass
class Summary:
    """What became of the files of a run.

    files: found. indexed: images added. already: files that were in the collection. relabelled: those of them
    whose labels or patient were changed. duplicates: images not added since the same picture is there.
    deleted_earlier: images not added since somebody deleted them. refused: files without a usable image; the
    first few of them with their reasons in `examples`. manifest_unused: rows whose file was not among the sources.
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


Progress = Callable[[int, Summary], None]
Refused = Callable[[str, str], None]


class Run:
    """One run over `sources` into an open collection.

    within: folders that links may not lead out of; none: they may lead anywhere.
    who: whom the collection's history names.
    progress(files done, summary) is called as it goes, refused(path, reason) for every file that was refused.
    """

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
        within: Sequence[Path] = (),
        who: str = "command line",
        progress: Progress = lambda done, summary: None,
        refused: Refused = lambda path, reason: None,
    ) -> None:
        self.collection = collection
        self.sources = sources
        self.manifest = manifest
        self.jobs = jobs
        self.duplicates = duplicates
        self.restore = restore
        self.who = who
        self.progress = progress
        self.refused = refused
        model = collection.folder / MODEL
        self.task = Task(
            collection.profile.descriptor,
            collection.secret,
            limits,
            tuple(within),
            model if model.is_dir() else None,
        )
        self.summary = Summary()
        self.done = 0
        self._given: dict[Path, dict[str, str]] = {}  # labels of files under way

    def __call__(self) -> Summary:
        """Do it. An interrupt (Ctrl-C) ends the run in order; the same call goes on where it stopped."""
        started = time.monotonic()
        with self.collection.writer(self.who) as writer:
            try:
                self._index(writer)
            except KeyboardInterrupt:
                self.summary.interrupted = True
            # What came before an interrupt is no sample to learn the normalisation from.
            if not self.summary.interrupted or self.collection.statistics():
                writer.finish()
        if self.manifest and not self.summary.interrupted:
            self.summary.manifest_unused = self.manifest.unused()
        self.summary.seconds = time.monotonic() - started
        return self.summary

    def _index(self, writer: Writer) -> None:
        waiting: list[Extracted] = []
        images, since = 0, 0.0  # since the first that waits came
        extracted = extract_all(self._wanted(writer), self.task, self.jobs)
        try:
            for one in extracted:
                if one.refused is not None:
                    self._refuse(one.path, one.refused)
                else:
                    since = since if waiting else time.monotonic()
                    waiting.append(one)
                    images += len(one.records)
                if waiting and (images >= BATCH_IMAGES or time.monotonic() - since > BATCH_SECONDS):
                    batch, waiting, images = waiting, [], 0
                    self._commit(writer, batch)
        except KeyboardInterrupt:
            extracted.close()
            self._commit(writer, waiting)
            raise
        finally:
            extracted.close()
        self._commit(writer, waiting)

    def _wanted(self, writer: Writer) -> Iterator[Path]:
        """Files that the collection does not know, or knows otherwise."""
        paths = walk(self.sources, self.task.within)
        while part := list(islice(paths, LOOKUP)):
            self.summary.files += len(part)
            named = [path for path in part if self._can_be_named(path) and self._may_be_read(path)]
            known = writer.known([str(path) for path in named])
            given = self.manifest.labels(named) if self.manifest else {}
            for path in named:
                if known.get(str(path)) != _stamp(path):
                    self._given[path] = given.get(path, {})
                    yield path
                    continue
                self.summary.already += 1
                if path in given:
                    patient = hash_patient(self.task.secret, given[path].pop("patient", ""))
                    self.summary.relabelled += writer.relabel(str(path), given[path], patient)
                self._step(1)

    def _can_be_named(self, path: Path) -> bool:
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
        self._given.pop(path, None)
        name = str(path).encode(errors="backslashreplace").decode()
        self.summary.refused += 1
        if len(self.summary.examples) < EXAMPLES:
            self.summary.examples.append((name, reason))
        self.refused(name, reason)
        self._step(1)

    def _commit(self, writer: Writer, batch: list[Extracted]) -> None:
        if not batch:
            return
        entries: list[Entry] = []
        for one in batch:
            its_labels = self._given.pop(one.path, {})
            assert one.vectors is not None
            for record, vector in zip(one.records, one.vectors, strict=True):
                entries.append((add_labels(record, its_labels, self.task.secret), vector))
        added = writer.add(entries, duplicates=self.duplicates, restore=self.restore)
        self.summary.indexed += len(added.ids)
        self.summary.already += added.updated
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
