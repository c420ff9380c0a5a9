"""The command `cbir index dicomweb`, and its options."""

import re
import signal
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from cbir import settings
from cbir.errors import CollectionBusy, InvalidInput
from cbir.search import command_options as options
from cbir.store.index.follow_index import follow_index
from cbir.system.console import OutputFormat, StageBars, echo
from indexer import index_progress
from indexer.index_progress import (
    DONE,
    FETCHES_A_PROCESS,
    INTERRUPTED,
    SOME_REFUSED,
    RayOption,
    handle_signals,
    print_totals,
    refusal_report,
)

if TYPE_CHECKING:
    from indexer.intake import Intake

Format = Annotated[OutputFormat, typer.Option(help="Format of the summary.")]
DAY = re.compile(r"[0-9]{8}")
CODE_STRING = re.compile(r"[A-Z0-9 _]{1,16}")  # VR CS


def crawl_dicomweb(
    url: Annotated[
        str, typer.Argument(help="Address of the archive's DICOMweb service, before /studies.", metavar="URL")
    ],
    collection: options.CreatedFolder,
    modality: Annotated[
        list[str] | None, typer.Option(help="Only this modality, for instance CT. Repeatable.")
    ] = None,
    body_part: Annotated[
        list[str] | None,
        typer.Option(help="Only this body part, for instance CHEST, if the series names one. Repeatable."),
    ] = None,
    since: Annotated[str, typer.Option(help="Only studies of this day (YYYYMMDD) and later.")] = "",
    until: Annotated[str, typer.Option(help="Only studies of this day (YYYYMMDD) and earlier.")] = "",
    watch: Annotated[bool, typer.Option(help="Keep running, and add new studies as they come.")] = False,
    every: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two checks, with --watch.", hidden=True)
    ] = 60.0,
    changes: Annotated[
        str | None,
        typer.Option(
            help="Orthanc's own address: --watch reads stable studies from its /changes.", hidden=True
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            help="Add nothing: list what of the collection is deleted or different in the archive now."
        ),
    ] = False,
    apply: Annotated[
        bool,
        typer.Option(
            help="With --compare: follow the archive, deletions included, instead of listing only.",
            hidden=True,
        ),
    ] = False,
    pixels: Annotated[
        bool,
        typer.Option(
            "--pixels/--no-pixels",
            help="With --compare: fetch all images; without, only those of studies that have another patient now.",
            hidden=True,
        ),
    ] = True,
    qido_prefix: Annotated[
        str | None, typer.Option(help="Path after URL for QIDO-RS, if there is one.", hidden=True)
    ] = None,
    wado_prefix: Annotated[
        str | None, typer.Option(help="Path after URL for WADO-RS, if there is one.", hidden=True)
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(help="'Name: value', sent with every request. Repeatable.", hidden=True),
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(help="PEM file of the authority that signed the archive's certificate.", hidden=True),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="PEM file with the client's certificate and key.", hidden=True)
    ] = None,
    frames: index_progress.FramesOption = "all",
    burned_in: index_progress.BurnedInOption = None,
    secondary_captures: index_progress.SecondaryCapturesOption = True,
    study_dates: index_progress.StudyDatesOption = "drop",
    jobs: index_progress.JobsOption = None,
    ray: RayOption = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write refused instances and the reasons, or differences, to this CSV file."),
    ] = None,
    profile: index_progress.ProfileOption = None,
    format: Format = OutputFormat.text,
) -> None:
    """Add the images of a DICOMweb archive to a collection. Run an interrupted command again to continue it.

    Credentials come from the environment: CBIR_DICOMWEB_USER and CBIR_DICOMWEB_PASSWORD, or CBIR_DICOMWEB_TOKEN. Exit
    code 0: all done; 1: --compare found differences that were not applied; 3: done, but some were refused or could
    not be compared; 2: wrong use, or the archive failed or refuses the credentials; 130: interrupted.
    """
    from cbir.evaluation.auto_choice import update_choice
    from cbir.images import Limits
    from indexer.describe_instance import InstanceFilter
    from indexer.dicomweb.archive_comparison import ComparisonOptions
    from indexer.dicomweb.archive_items import StudyFilter
    from indexer.dicomweb.archive_requests import check_url, open_session
    from indexer.dicomweb.compare_command import compare_with_archive
    from indexer.dicomweb.crawl import PRINTED, Crawl, RefusedItems
    from indexer.dicomweb.dicomweb_archive import DicomwebArchive
    from indexer.dicomweb.orthanc_lists import OrthancChanges
    from indexer.file_pools import connect_cluster
    from indexer.index_request import open_collection
    from indexer.intake import Intake

    _check_days(since, until)
    if changes and not watch:
        raise InvalidInput("--changes says what is new for --watch; use both")
    _check_comparison(compare, watch or ray is not None, apply or not pixels)
    study_filter = StudyFilter(_code_strings(modality), _code_strings(body_part), since, until)
    loaded = settings.load()
    instance_filter = InstanceFilter(
        frames, index_progress.accepts_burned_in(burned_in, loaded), secondary_captures, study_dates
    )
    limits = Limits.from_settings(loaded)
    session = open_session(header or [], limits.bytes, authority, certificate)
    orthanc_url = check_url(changes) if changes else None
    archive = DicomwebArchive(check_url(url), session, qido_prefix, wado_prefix, orthanc_url)
    archive.check()  # before the collection is created
    archive.repeated.report = _print_line
    if compare:
        code = compare_with_archive(
            collection,
            archive,
            ComparisonOptions(study_filter, pixels, apply),
            replace(instance_filter, frames="all", study_dates="shift"),
            settings=loaded,
            jobs=jobs,
            report=report,
            format=format,
        )
        raise typer.Exit(code)
    orthanc = OrthancChanges(orthanc_url, session) if orthanc_url else None
    stop = Event()
    with (
        connect_cluster(ray, jobs),
        open_collection(collection, profile) as opened,
        refusal_report(report, "study", "series", "instance") as write_row,
    ):
        intake = Intake(
            opened,
            instance_filter=instance_filter,
            limits=limits,
            jobs=jobs,
            who="DICOMweb",
            settings=loaded,
            on_cluster=ray is not None,
        )
        handle_signals(lambda *_: stop.set())
        crawl = Crawl(
            archive,
            intake,
            study_filter,
            jobs=FETCHES_A_PROCESS * intake.jobs,
            stop=stop,
            refused=RefusedItems(write_row, None if watch else PRINTED),
            retry_seconds=every,
        )
        try:
            with StageBars() as bars:
                bars.show("instances")  # before threads do
                crawl.show_progress = partial(bars.show, "instances")
                crawl()
            if watch:
                echo("watching")
                crawl.watch(orthanc, every)
        finally:
            intake.close()
            totals = [(fate.value, number) for fate, number in intake.counts.items()]
            print_totals(totals, format, "nothing matched")
        if opened.statistics() and not stop.is_set():
            # Another writer is no failure: the next run chooses.
            with suppress(CollectionBusy), opened.writer("DICOMweb") as writer, StageBars() as bars:
                update_choice(opened, writer, show=bars.show)
    handle_signals(signal.SIG_DFL)  # an index can be left at any moment
    if watch or not stop.is_set():
        follow_index(collection, loaded)
    raise typer.Exit(INTERRUPTED if stop.is_set() and not watch else _exit_code(intake))


def _print_line(line: str) -> None:
    echo(f"cbir: {line}", err=True)


def _check_comparison(compare: bool, adds: bool, only_for_comparison: bool) -> None:
    if compare and adds:
        raise InvalidInput("--compare adds nothing; use it without --watch and --ray")
    if only_for_comparison and not compare:
        raise InvalidInput("--apply and --no-pixels are for --compare; use it too")


def _check_days(since: str, until: str) -> None:
    for day in filter(None, (since, until)):
        try:
            datetime.strptime(day if DAY.fullmatch(day) else "", "%Y%m%d")
        except ValueError:
            raise InvalidInput(f"{day!r} is not a day; write it as 20240131") from None
    if since and until and since > until:
        raise InvalidInput(f"--since {since} is later than --until {until}: no study matches")


def _exit_code(intake: "Intake") -> int:
    from indexer.describe_instance import Fate

    fates = (Fate.unreadable, Fate.full, Fate.failed, Fate.undelivered)
    refused = sum(intake.counts[fate] for fate in fates)
    return SOME_REFUSED if refused else DONE


def _code_strings(values: list[str] | None) -> tuple[str, ...]:
    """Return modalities or body parts in upper case."""
    upper = tuple(value.upper() for value in values or [])
    for value in upper:
        if not CODE_STRING.fullmatch(value):
            raise InvalidInput(f"{value!r} is not a modality or body part, for instance CT or CHEST")
    return upper
