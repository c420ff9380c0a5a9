"""`cbir index dicomweb --compare`: list what differs from the archive, and follow it with --apply."""

import signal
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from cbir.store.index.follow_index import follow_index
from cbir.system.console.output import OutputFormat, StageBars, print_json
from cbir.system.console.printable import echo
from indexer.exit_codes import DIFFERENT, DONE, INTERRUPTED, SOME_REFUSED
from indexer.refusal_report import refusal_report

if TYPE_CHECKING:
    from cbir.settings import Settings
    from indexer.dicom.instance_filter import InstanceFilter
    from indexer.dicomweb.archive_comparison import ComparisonOptions
    from indexer.dicomweb.archive_items import ArchiveItem
    from indexer.dicomweb.dicomweb_archive import DicomwebArchive

FETCHES_A_PROCESS = 2


def compare_with_archive(
    collection: Path,
    archive: "DicomwebArchive",
    options: "ComparisonOptions",
    instance_filter: "InstanceFilter",
    *,
    settings: "Settings",
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
    from cbir.images import Limits
    from cbir.store import Collection
    from cbir.store.upkeep.archive_instances import count_sent_instances
    from indexer.dicom.intake import Intake
    from indexer.dicomweb.archive_comparison import ArchiveComparison
    from indexer.dicomweb.compared_copies import compare_all

    stop = Event()
    with Collection(collection) as opened, refusal_report(report, "study", "series", "instance") as write_row:

        def note(item: "ArchiveItem", difference: str) -> None:
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
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
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
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # an index can be left at any moment
    _print_counts(comparison.counts, format)
    if options.apply:
        follow_index(collection, settings)
    return INTERRUPTED if stop.is_set() else _exit_code(comparison.counts, options.apply)


def _show(bars: StageBars, total: int, done: int) -> None:
    bars.show("instances compared", min(done, total), total)


def _exit_code(counts: Any, is_applied: bool) -> int:
    from indexer.dicomweb.archive_comparison import EQUAL, LEFT_OUT, NOT_COMPARED

    if counts[NOT_COMPARED]:
        return SOME_REFUSED
    differences = counts.total() - counts[EQUAL] - counts[LEFT_OUT]
    return DIFFERENT if differences and not is_applied else DONE


def _print_counts(counts: Any, format: OutputFormat) -> None:
    values = dict(sorted((name, number) for name, number in counts.items() if number))
    if format is OutputFormat.json:
        print_json(values)
    else:
        echo(", ".join(f"{number} {name}" for name, number in values.items()) or "nothing to compare")
