"""An indexing run: find, describe and add files, in batches that are on disk before the next is counted."""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

from cbir.errors import CbirError
from cbir.evaluation.auto_choice import update_choice
from cbir.images.ct_series import CtSeries, find_series
from cbir.ingest.description import DescribedFile, DescribeTask, Refusal
from cbir.ingest.image_files import find_images, series_stamp
from cbir.ingest.intake_check import IntakeCheck
from cbir.ingest.manifest import Manifest
from cbir.ingest.object_store import StoredObject, StoreSilent
from cbir.store import Collection
from cbir.store.records.add_transaction import Added
from cbir.store.records.label_changes import PATIENT, DuplicateLabels, LabelConflict
from cbir.store.records.records import UNUSABLE_LABEL, Record, add_labels, hash_patient
from cbir.store.writing.writer import Writer
from cbir.system.console import printable
from cbir.system.files import is_inside
from indexer.describe_files import (
    OUTSIDE,
    FileTask,
    SomeSource,
    describe_in,
    read_file_inside,
    read_header_facts,
    read_source,
    source_stamp,
)
from indexer.file_pools import connect_cluster, describe_batches, open_file_pool, share_gpu
from indexer.index_progress import IndexSummary, ProgressReport, ReportRefusal
from indexer.index_request import (
    IndexRequest,
    check_series_sources,
    find_sources,
    open_collection,
    read_manifest,
    require_images,
    source_exists,
)

BATCH_IMAGES = 512  # committed together, or as many as came within BATCH_SECONDS
BATCH_SECONDS = 1.0
LOOKUP = 512  # files looked up in the collection at a time
EXAMPLES = 10  # refused files, and conflicts, in the summary
LONGEST_VALUE = 40  # characters of a label in a message


def run_request(
    request: IndexRequest,
    progress: ProgressReport,
    report_refusal: ReportRefusal,
    report_duplicate: ReportRefusal = lambda path, reason: None,
) -> IndexSummary:
    """Index the sources of a request.

    Parameters
    ----------
    request : IndexRequest
        Sources, collection and options.
    progress : ProgressReport
        Entered once the collection is open, and called as the run goes.
    report_refusal : callable
        Called with the path and the reason of every refused file.
    report_duplicate : callable
        Called with the path of every image that is left out as a duplicate, and the id of the image with its picture;
        with that of a duplicate with another label, and the path of that image; and with that of an image that is
        added, but has attributes for display that cannot be used.

    Raises
    ------
    InvalidInput, NotFound
        For a wrong request, before anything is written.
    """
    request.check()
    require_images(request)
    manifest = read_manifest(request)
    with (
        connect_cluster(request.ray, request.jobs),
        open_collection(request.collection, request.profile, request.weights) as collection,
        progress,
    ):
        if collection.profile.volume_grid is None:  # series are counted when they have been grouped
            threading.Thread(target=_count_files, args=(request, progress), daemon=True).start()
        return IndexRun(collection, request, manifest, progress, report_refusal, report_duplicate)()


def _count_files(request: IndexRequest, progress: ProgressReport) -> None:
    """Set the total once all files are counted; indexing starts meanwhile."""
    with suppress(OSError, CbirError):  # the run itself reports a source that disappears
        progress.total = sum(1 for _ in find_sources(request))


@dataclass
class IndexRun:
    """One run of `request` into an open collection, which must be writable."""

    collection: Collection
    request: IndexRequest
    manifest: Manifest | None
    progress: ProgressReport
    report_refusal: ReportRefusal
    report_duplicate: ReportRefusal = lambda path, reason: None
    summary: IndexSummary = field(default_factory=IndexSummary)
    done: int = 0
    # of files under way
    _pending_labels: dict[Path | StoredObject, dict[str, str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        request, collection = self.request, self.collection
        describe = DescribeTask(
            collection.profile,
            collection.secret,
            request.limits,
            request.device,
            request.decoder_bytes,
            request.decode_seconds,
            request.refuse_burned_in,
            request.intake != "accept",
            request.study_days,
        )
        self._intake = IntakeCheck(collection, request.intake)
        self.task = FileTask(describe, request.within, collection.profile.volume_grid)

    def __call__(self) -> IndexSummary:
        """Run. Ctrl-C ends the run in order; the same call continues where it stopped."""
        started = time.monotonic()
        with self.collection.writer(self.request.actor) as writer:
            writer.source_exists = source_exists
            try:
                self._index(writer)
            except KeyboardInterrupt:
                self.summary.interrupted = True
            self.summary.describing_seconds = time.monotonic() - started
            # What came before an interrupt is no sample to compute the statistics from.
            if not self.summary.interrupted or self.collection.statistics():
                self.progress.begin_stage("fitting and writing the index")
                writer.finish()
                if not self.summary.interrupted:
                    with suppress(KeyboardInterrupt):  # all images are stored; the next run chooses
                        changed = self.summary.relabelled > 0
                        update_choice(self.collection, writer, changed, self.progress.show_stage)
        if self.manifest and not self.summary.interrupted:
            self.summary.manifest_unused = self.manifest.unused()
        self.summary.seconds = time.monotonic() - started
        return self.summary

    def _index(self, writer: Writer) -> None:
        self._complete_originals(writer)
        batch: list[tuple[Path | StoredObject, DescribedFile]] = []
        images, first_added = 0, 0.0
        try:
            with closing(self._describe(writer)) as files:
                for path, described in files:
                    if described.refusal is Refusal.store_silent:  # all others would be refused
                        self._commit(writer, batch)
                        raise StoreSilent(f"{described.refused}; run the command again to continue")
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
            self._commit(writer, batch)
            raise
        self._commit(writer, batch)

    def _describe(self, writer: Writer) -> Generator[tuple[Path | StoredObject, DescribedFile], None, None]:
        if self.task.grid is None:
            yield from self._describe_sources(self._new_files(writer))
            return
        with closing(self._describe_sources(self._new_series(writer))) as all_series:
            for series, described in all_series:
                yield series.source, described

    def _describe_sources(
        self, sources: Iterator[SomeSource]
    ) -> Generator[tuple[SomeSource, DescribedFile], None, None]:
        task, descriptor = self.task, None
        if self.request.ray is None:
            task, descriptor, sources = share_gpu(task, sources)
        with open_file_pool(self.request, task, self.progress.begin_stage) as pool:
            yield from describe_batches(describe_in(pool, sources, task), descriptor)

    def _new_series(self, writer: Writer) -> Iterator[CtSeries]:
        """Yield series that are not in the collection, or have changed since."""
        check_series_sources(self.request)
        paths = [
            path for path in find_images(self.request.sources, self.task.within) if self._is_allowed(path)
        ]
        self.summary.files = len(paths) + self.summary.refused
        read_bytes = partial(read_file_inside, within=self.task.within, limits=self.task.describe.limits)
        found = find_series(paths, self.task.describe.limits, read_bytes)
        self.progress.total = len(found.series) + len(found.refused) + self.summary.refused
        for path, reason in found.refused:
            self._refuse(path, reason)
        for series in found.series:
            stamps = writer.source_stamps([str(path) for path in series.paths])
            if stamps:  # more slices may have another middle, but they are the same series
                series = replace(series, shown=Path(next(iter(stamps))))
            labels = self._series_labels(series)
            stamp = series_stamp(series)
            held = writer.quarantined_records([str(series.source)])
            if stamps.get(str(series.source)) == stamp:
                self._complete([series.source], writer)
                self._count_already(series.source, labels, writer)
            elif not self._count_held(held.get(str(series.source), []), stamp, labels):
                self._pending_labels[series.source] = labels
                yield series

    def _series_labels(self, series: CtSeries) -> dict[str, str]:
        """Return the labels of the folder of a series, and of its slices."""
        if self.manifest is None:
            return {}
        named = self.manifest.labels(sorted({path.parent for path in series.paths} | set(series.paths)))
        return {key: value for path in sorted(named) for key, value in named[path].items()}

    def _count_already(self, path: Path | StoredObject, labels: dict[str, str], writer: Writer) -> None:
        """Count a source that is in the collection, with the labels that it has now."""
        self.summary.already += 1
        if labels:
            patient = hash_patient(self.task.describe.secret, labels.pop("patient", ""))
            self.summary.relabelled += writer.relabel(str(path), labels, patient)
        self._step(1)

    def _complete(self, paths: Sequence[Path | StoredObject], writer: Writer) -> None:
        """Read from headers what an older version did not, of those of the files whose images lack it."""
        unplaced = writer.unplaced_sources([str(path) for path in paths]) if paths else set()
        self._add_facts(
            {str(path): partial(read_source, path, self.task) for path in paths if str(path) in unplaced},
            writer,
        )

    def _complete_originals(self, writer: Writer) -> None:
        """Do the same for images that were sent, whose files the collection has stored."""
        paths = list(writer.unplaced_originals().items())
        for start in range(0, len(paths), LOOKUP):
            self._add_facts(
                {source: path.read_bytes for source, path in paths[start : start + LOOKUP]}, writer
            )

    def _add_facts(self, readers: Mapping[str, Callable[[], bytes]], writer: Writer) -> None:
        facts = {source: read_header_facts(read, self.task.describe) for source, read in readers.items()}
        if facts:
            writer.add_missing_labels(facts)
            self.summary.completed += sum(bool(frames) for frames in facts.values())

    def _count_held(self, records: Sequence[Record], stamp: str, labels: dict[str, str]) -> bool:
        """Count the quarantined images of a source; False if it has none, or has changed, or has other labels now."""
        secret = self.task.describe.secret
        if not records or any(
            record.source_stamp != stamp or add_labels(record, labels, secret) != record for record in records
        ):
            return False
        self.summary.quarantined += len(records)
        self._step(1)
        return True

    def _new_files(self, writer: Writer) -> Iterator[Path | StoredObject]:
        """Yield files that are not in the collection, or have changed since."""
        paths = find_sources(self.request)
        while part := list(islice(paths, LOOKUP)):
            self.summary.files += len(part)
            allowed = [path for path in part if self._is_allowed(path)]
            stamps = writer.source_stamps([str(path) for path in allowed])
            held = writer.quarantined_records([str(path) for path in allowed])
            in_manifest = self.manifest.labels(allowed) if self.manifest else {}
            current = {path: _stamp_or_missing(path) for path in allowed}
            self._complete([path for path in allowed if stamps.get(str(path)) == current[path]], writer)
            for path in allowed:
                known = dict(path.labels) if isinstance(path, StoredObject) else {}
                labels = known | in_manifest.get(path, {})
                stamp = current[path]
                if stamps.get(str(path)) == stamp:
                    self._count_already(path, labels, writer)
                elif not self._count_held(held.get(str(path), []), stamp, labels):
                    self._pending_labels[path] = labels
                    yield path

    def _is_allowed(self, path: Path | StoredObject) -> bool:
        try:
            str(path).encode()
        except UnicodeEncodeError:
            self._refuse(path, "its name is not UTF-8; rename it")
            return False
        if self.task.within and isinstance(path, Path) and not is_inside(path, self.task.within):
            self._refuse(path, OUTSIDE)
            return False
        return True

    def _refuse(self, path: Path | StoredObject, reason: str) -> None:
        self.summary.manifest_lost += bool(self._pending_labels.pop(path, None))
        name = str(path).encode(errors="backslashreplace").decode()
        self.summary.refused += 1
        if len(self.summary.examples) < EXAMPLES:
            self.summary.examples.append((name, reason))
        self.report_refusal(name, reason)
        self._step(1)

    def _commit(self, writer: Writer, batch: Sequence[tuple[Path | StoredObject, DescribedFile]]) -> None:
        if not batch:
            return
        labelled = [(self._pending_labels.pop(path, {}), described) for path, described in batch]
        secret = self.task.describe.secret
        entries = [
            (add_labels(record, labels, secret), vector)
            for labels, described in labelled
            for record, vector in described.entries
        ]
        entries = self._intake.check(writer, entries, [described for _, described in batch])
        added = writer.add(entries, duplicates=self.request.duplicates, restore=self.request.restore)
        for position, ((record, _), (kind, image_id)) in enumerate(zip(entries, added.outcomes, strict=True)):
            if kind == "duplicate":
                other = ", an image of another patient" if position in added.other_patients else ""
                self.report_duplicate(record.source, f"left out: the same picture as {image_id}{other}")
            elif (attributes := record.labels.get(UNUSABLE_LABEL)) and record.frame in (None, 1):
                reason = f"{kind}, though it has display attributes that cannot be used: {attributes}"
                self.report_duplicate(record.source, reason)
        self._keep_labels(writer, labelled, added)
        self.summary.flagged += self._intake.count_flagged(entries, added)
        self.summary.quarantined += added.quarantined
        self.summary.indexed += len(added.ids)
        self.summary.already += added.updated
        self.summary.duplicates += added.duplicates
        self.summary.deleted_earlier += added.deleted_earlier
        self._step(len(batch))

    def _keep_labels(
        self, writer: Writer, labelled: Sequence[tuple[dict[str, str], DescribedFile]], added: Added
    ) -> None:
        """Give the labels of duplicates to the images with their pictures, and report those that differ."""
        outcomes = iter(added.outcomes)
        duplicates: list[DuplicateLabels] = []
        for labels, described in labelled:
            own = {key: value for key, value in labels.items() if key != PATIENT}
            patient = hash_patient(self.task.describe.secret, labels.get(PATIENT, ""))
            fates = list(zip(described.records, outcomes, strict=False))
            duplicates += [
                DuplicateLabels(image_id, record.source, own, patient)
                for record, (kind, image_id) in fates
                if labels and kind == "duplicate" and image_id
            ]
            if labels and all(kind == "deleted earlier" for _, (kind, _) in fates):
                self.summary.manifest_lost += 1
        if duplicates:
            merged, conflicts = writer.merge_labels(duplicates)
            self.summary.relabelled += merged
            for conflict in conflicts:
                self._report_conflict(conflict)

    def _report_conflict(self, conflict: LabelConflict) -> None:
        kept = f"{conflict.kept_source}, which has the same picture and was there first"
        reason = f"is of another patient than {kept}"
        if conflict.key != PATIENT:
            value, kept_value = (
                printable(text)[:LONGEST_VALUE] for text in (conflict.value, conflict.kept_value)
            )
            reason = f"its {conflict.key} is {value}, but {kept_value} for {kept}"
        self.summary.conflicts += 1
        if len(self.summary.conflict_examples) < EXAMPLES:
            self.summary.conflict_examples.append((conflict.source, reason))
        self.report_duplicate(conflict.source, reason)

    def _step(self, files: int) -> None:
        self.done += files
        self.progress(self.done, self.summary)


def _stamp_or_missing(path: Path | StoredObject) -> str:
    try:
        return source_stamp(path)
    except OSError:
        return "missing"  # describing it gives the reason
