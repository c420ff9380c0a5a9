"""`cbir index dicomweb --compare`: list what differs from the archive, and follow it with --apply.

Of the comparison this has the part that is not of images: copies of pixels under other UIDs, and quarantined images.
"""

import signal
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import NamedTuple

from cbir.errors import ArchiveFailed, NotFound
from cbir.images import Limits
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.index.follow_index import follow_index
from cbir.store.records.originals import UPLOAD
from cbir.store.records.quarantine import QuarantinedImage
from cbir.store.records.records import Record
from cbir.store.upkeep.archive_instances import (
    StoredCopy,
    count_sent_instances,
    drop_quarantined,
    forget_copy,
    move_copy,
    move_quarantined,
    stored_copies,
)
from cbir.store.upkeep.quarantine_release import read_quarantined
from cbir.system.console import OutputFormat, StageBars, echo
from indexer.describe_instance import InstanceFilter
from indexer.dicomweb.archive_comparison import (
    DELETED,
    EQUAL,
    LEFT_OUT,
    NOT_COMPARED,
    ArchiveComparison,
    ComparisonOptions,
)
from indexer.dicomweb.archive_items import ArchiveItem, ItemRefused
from indexer.dicomweb.dicomweb_archive import DicomwebArchive
from indexer.index_progress import (
    DIFFERENT,
    DONE,
    FETCHES_A_PROCESS,
    INTERRUPTED,
    SOME_REFUSED,
    handle_signals,
    print_totals,
    refusal_report,
)
from indexer.intake import Intake

ROWS = 100  # read from the collection at a time
PIXELS, PATIENT = "other pixels", "another patient"


def compare_all(comparison: ArchiveComparison) -> None:
    """Compare images, copies and quarantined images. Raises ArchiveFailed, also if the archive has none of them."""
    try:
        comparison.compare_images()
        compare_copies(comparison)
        compare_quarantined(comparison)
        comparison.delete_gone()
    except ArchiveFailed:
        if not comparison.stop.is_set():
            raise


def compare_copies(comparison: ArchiveComparison) -> None:
    """Compare the instances whose pixels an image of another instance shows; with a filter none of them."""
    after = ""
    while copies := stored_copies(comparison.collection, after, ROWS):
        for copy in copies:
            if comparison.stop.is_set():
                return
            if comparison.options.has_filter:
                comparison.count(LEFT_OUT)
            else:
                _compare_copy(comparison, copy)
        after = copies[-1].instance


def _compare_copy(comparison: ArchiveComparison, copy: StoredCopy) -> None:
    compared = _compare_picture(comparison, ArchiveItem(instance=copy.instance), copy)
    if compared is None:
        return
    if not compared.is_there:
        comparison.gone_copies.append(copy.instance)
    elif comparison.options.apply:
        with comparison.writer() as writer:
            if compared.record:
                move_copy(writer, copy.instance, compared.record.patient_key)
            else:
                forget_copy(writer, copy.instance)  # the next run adds what it shows now


def compare_quarantined(comparison: ArchiveComparison) -> None:
    """Compare quarantined images; with a filter none of them."""
    after = ""
    while quarantined := read_quarantined(comparison.collection, after, ROWS):
        for image in quarantined:
            if comparison.stop.is_set():
                return
            if image.record.source.startswith(UPLOAD) and image.record.instance:
                if comparison.options.has_filter:
                    comparison.count(LEFT_OUT)
                else:
                    _compare_quarantined(comparison, image)
        after = quarantined[-1].image_id


def _compare_quarantined(comparison: ArchiveComparison, image: QuarantinedImage) -> None:
    record = image.record
    item = ArchiveItem(record.study, record.series, record.instance)
    compared = _compare_picture(comparison, item, record)
    if compared is None:
        return
    if not compared.is_there:
        comparison.gone_quarantined.append(image.image_id)
    elif comparison.options.apply:
        with suppress(NotFound), comparison.writer() as writer:  # released or refused meanwhile
            if compared.record:
                move_quarantined(writer, image.image_id, compared.record)
            else:
                drop_quarantined(writer, image.image_id)


class _ComparedPicture(NamedTuple):
    """A picture that differs in the archive. is_there: its instance is. record: of the frame that shows it there."""

    is_there: bool
    record: Record | None


def _compare_picture(
    comparison: ArchiveComparison, item: ArchiveItem, stored: StoredCopy | Record
) -> _ComparedPicture | None:
    """Compare a stored picture with its instance in the archive; None if they are equal or cannot be compared."""
    try:
        now = comparison.archive.find_instance(item.instance)
    except ItemRefused as error:
        comparison.not_compared(item, str(error))
        return None
    comparison.present_count += now is not None
    described = comparison.read(now)[1] if now else None
    if isinstance(described, str):
        comparison.not_compared(now or item, described)
        return None
    records = described.records if described else ()
    same = next((record for record in records if record.content_hash == stored.content_hash), None)
    if same is None:
        comparison.differ(PIXELS if now else DELETED, [now or item])
    elif same.patient_key != stored.patient_key:
        comparison.differ(PATIENT, [now or item])
    else:
        comparison.count(EQUAL)
        return None
    return _ComparedPicture(now is not None, same)


def compare_with_archive(
    collection: Path,
    archive: DicomwebArchive,
    options: ComparisonOptions,
    instance_filter: InstanceFilter,
    *,
    settings: Settings,
    jobs: int | None,
    report: Path | None,
    format: OutputFormat,
) -> int:
    """Compare, print the differences and return the exit code.

    Parameters
    ----------
    collection : Path
        Folder of the collection.
    archive : DicomwebArchive
        Archive that its images come from.
    options : ComparisonOptions
        What is compared, and whether differences are applied.
    instance_filter : InstanceFilter
        Instances that are refused.
    settings : Settings
        Settings of the service.
    jobs : int or None
        Processes that describe.
    report : Path or None
        CSV file of the differences.
    format : OutputFormat
        Text also names the differences.
    """
    stop = Event()
    with Collection(collection) as opened, refusal_report(report, "study", "series", "instance") as write_row:

        def note(item: ArchiveItem, difference: str) -> None:
            write_row(item.study, item.series, item.instance, f"{item.gap} {difference}".strip())
            if format is OutputFormat.text:
                echo(f"{difference}: {item}")

        intake = Intake(
            opened,
            instance_filter=instance_filter,
            limits=Limits.from_settings(settings),
            jobs=jobs,
            who="DICOMweb",
            settings=settings,
        )
        handle_signals(lambda *_: stop.set())
        try:
            comparison = ArchiveComparison(
                opened, archive, intake, settings, options, FETCHES_A_PROCESS * intake.jobs, stop, note
            )
            with StageBars() as bars:
                bars.show("instances compared")
                total = count_sent_instances(opened)
                comparison.show_progress = partial(_show, bars, total)
                compare_all(comparison)
        finally:
            intake.close()
        if options.apply and opened.statistics():
            with comparison.writer() as writer:
                writer.finish()
    handle_signals(signal.SIG_DFL)  # an index can be left at any moment
    print_totals(comparison.counts.items(), format, "nothing to compare")
    if options.apply:
        follow_index(collection, settings)
    return INTERRUPTED if stop.is_set() else _exit_code(comparison.counts, options.apply)


def _show(bars: StageBars, total: int, done: int) -> None:
    bars.show("instances compared", min(done, total), total)


def _exit_code(counts: Counter[str], is_applied: bool) -> int:
    if counts[NOT_COMPARED]:
        return SOME_REFUSED
    differences = counts.total() - counts[EQUAL] - counts[LEFT_OUT]
    return DIFFERENT if differences and not is_applied else DONE
