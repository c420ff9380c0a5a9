"""Describe the images of a collection again, with another profile, into a second collection beside it."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path, PurePath
from typing import Any

from cbir.evaluation.auto_choice import ShowStage, show_nothing, update_choice
from cbir.ingest.description import DescribedFile, DescribeTask
from cbir.ingest.object_store import StoredObject, find_object, is_object_url
from cbir.store import Collection
from cbir.store.upkeep.carry_over import CarryOver, SourceImage
from cbir.system.files import may_exist
from indexer.describe_files import FileTask
from indexer.file_pools import describe_all
from indexer.index_run import BATCH_IMAGES, BATCH_SECONDS, EXAMPLES

NO_ORIGINAL = "its original is not stored, and it has no file"
NO_FILE = "its file is no longer where it was when it was indexed"
OTHER_PICTURE = "its file shows another picture than when it was indexed"
ERASED = (
    "it was erased in the new collection; erase it in the other too, or, if it was restored there, make another new "
    "collection"
)
KEPT = (
    "only the second collection has it, and keeps it: the first neither has it nor knows that it was deleted"
)
NOT_CARRIED = "it is in quarantine, and {}; release or refuse it in the first collection"
FILE_GONE = "its file is no longer there"
PICTURE_CHANGED = "its file shows another picture"

Report = Callable[[str, str], None]
ShowProgress = Callable[[int, int, int], None]


@dataclass
class RedescribeSummary:
    """Counts of a run.

    described: images added. already: images that were there. updated: those of them whose labels or other facts have
    changed. removed: images deleted or erased in the other collection. quarantined: images carried over to the
    quarantine. refused: images that could not be described
    again; kept: images that only the new collection has. The first few of both with their reasons are in `examples`.
    seconds: of the whole run. describing_seconds: until all images were described and added.
    """

    described: int = 0
    already: int = 0
    updated: int = 0
    removed: int = 0
    quarantined: int = 0
    refused: int = 0
    kept: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0
    describing_seconds: float = 0.0


class RedescribeRun:
    """One run from `source` into `target`, which must be writable.

    Parameters
    ----------
    source, target : Collection
        Target from `carry_over.open_counterpart`.
    task : DescribeTask
        Settings, with the profile of the target.
    jobs : int
        Processes.
    report_refusal : callable
        Called with the id of an image that could not be described again, and the reason.
    progress : callable
        Called with the images done, those of the run, and those refused.
    show_stage : callable
        Receives what follows: the stage, steps done and all steps.
    """

    def __init__(
        self,
        source: Collection,
        target: Collection,
        task: DescribeTask,
        jobs: int,
        report_refusal: Report,
        progress: ShowProgress,
        show_stage: ShowStage = show_nothing,
    ) -> None:
        self.source, self.target = source, target
        self.task, self.jobs = FileTask(task), jobs
        self.report_refusal, self.progress, self.show_stage = report_refusal, progress, show_stage
        self.summary = RedescribeSummary()
        self._total = 0
        self._pending: dict[
            str, deque[list[SourceImage]]
        ] = {}  # under way; a source comes twice if its images do
        self._batch: dict[int, Any] = {}
        self._started = 0.0

    def __call__(self) -> RedescribeSummary:
        """Run. Ctrl-C ends the run in order; the same call continues where it stopped."""
        started = time.monotonic()
        with self.target.only_writer() as writer:
            carry_over = CarryOver(self.source, self.target, writer)
            try:
                self._update(carry_over)
                self.summary.already, self._total = len(self.target), carry_over.missing()
                self._describe(carry_over)
                self._commit(carry_over)
                self.summary.quarantined += redescribe_quarantine(
                    carry_over, self.task, self.jobs, self._refuse
                )
                self._update(carry_over)  # what has changed meanwhile
                carry_over.finish()
                for image_id in carry_over.kept:
                    self.summary.kept += 1
                    self._report(image_id, KEPT)
            except KeyboardInterrupt:
                self.summary.interrupted = True
                self._commit(carry_over)
            self.summary.describing_seconds = time.monotonic() - started
            # What came before an interrupt is no sample to compute the statistics from.
            if not self.summary.interrupted or self.target.statistics():
                writer.finish()
                if not self.summary.interrupted:
                    with suppress(KeyboardInterrupt):  # all images are stored; the next run chooses
                        update_choice(self.target, writer, self.summary.updated > 0, self.show_stage)
        self.summary.seconds = time.monotonic() - started
        return self.summary

    def _update(self, carry_over: CarryOver) -> None:
        carried = carry_over.update()
        self.summary.removed += carried.removed
        self.summary.updated += carried.updated

    def _describe(self, carry_over: CarryOver) -> None:
        with closing(describe_all(self._files(carry_over), self.task, self.jobs)) as files:
            for file, described in files:
                source = str(file)
                self._take(self._pending[source].popleft(), described)
                if not self._pending[source]:
                    del self._pending[source]
                if len(self._batch) >= BATCH_IMAGES or time.monotonic() - self._started > BATCH_SECONDS:
                    self._commit(carry_over)
        for image_id in carry_over.erased_in_target:
            self._refuse(image_id, ERASED)

    def _files(self, carry_over: CarryOver) -> Iterator[Path | StoredObject]:
        """Yield each file or object once for all its images, which have consecutive numbers."""
        for source, group in groupby(carry_over.missing_images(), lambda image: image.source):
            images = list(group)
            if file := _present(source):
                self._pending.setdefault(source, deque()).append(images)
                yield file
                continue
            for image in images:
                self._refuse(image.image_id, NO_ORIGINAL if image.is_upload else NO_FILE)

    def _take(self, images: list[SourceImage], file: DescribedFile) -> None:
        """Put the images of a file into the batch, those that it still shows."""
        vectors = _vectors_by_hash(file)
        self._started = self._started if self._batch else time.monotonic()
        for image in images:
            if image.content_hash in vectors:
                self._batch[image.number] = vectors[image.content_hash]
            elif file.refused is not None:
                self._refuse(image.image_id, file.refused.replace(PurePath(image.source).name, "its file"))
            else:
                self._refuse(image.image_id, OTHER_PICTURE)

    def _commit(self, carry_over: CarryOver) -> None:
        batch, self._batch = self._batch, {}
        if batch:
            self.summary.described += carry_over.add(batch)
            self._show()

    def _refuse(self, image_id: str, reason: str) -> None:
        self.summary.refused += 1
        self._report(image_id, reason)
        self._show()

    def _report(self, image_id: str, reason: str) -> None:
        if len(self.summary.examples) < EXAMPLES:
            self.summary.examples.append((image_id, reason))
        self.report_refusal(image_id, reason)

    def _show(self) -> None:
        self.progress(self.summary.described + self.summary.refused, self._total, self.summary.refused)


def redescribe_quarantine(carry_over: CarryOver, task: FileTask, jobs: int, refuse: Report) -> int:
    """Carry quarantined images over; return their number.

    Parameters
    ----------
    carry_over : CarryOver
        Between the two collections.
    task : FileTask
        Settings, with the profile of the second.
    jobs : int
        Processes.
    refuse : callable
        Called with the id of an image that stays behind, and the reason.
    """
    files: dict[Path | StoredObject, list[str]] = {}
    for source, images in groupby(carry_over.missing_in_quarantine(), lambda image: image[1]):
        ids = [image_id for image_id, _ in images]
        if file := _present(source):
            files[file] = ids
            continue
        for image_id in ids:
            refuse(image_id, NOT_CARRIED.format(FILE_GONE))
    count = 0
    sources = iter(files)
    while part := list(islice(sources, BATCH_IMAGES)):
        described = {}
        with closing(describe_all(iter(part), task, jobs)) as results:
            for file, result in results:
                vectors = _vectors_by_hash(result)
                for image_id in files[file]:
                    if image_id in vectors:
                        described[image_id] = vectors[image_id]
                    else:
                        refuse(image_id, NOT_CARRIED.format(PICTURE_CHANGED))
        count += carry_over.quarantine(described)
    return count


def _present(source: str) -> Path | StoredObject | None:
    """Return the file or object that images come from, None if it is gone."""
    if is_object_url(source):
        return find_object(source)
    return Path(source) if may_exist(Path(source)) else None


def _vectors_by_hash(file: DescribedFile) -> dict[str, Any]:
    return {record.content_hash: vector for record, vector in zip(file.records, file.vectors, strict=True)}
