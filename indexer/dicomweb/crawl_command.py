"""The command `cbir index dicomweb`."""

import json
import re
import signal
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from cbir import settings
from cbir.commands.output import OutputFormat
from cbir.errors import InvalidInput
from cbir.images import Limits
from indexer.dicom import intake_options
from indexer.dicom.describe_instance import Fate
from indexer.dicom.instance_filter import InstanceFilter
from indexer.dicom.intake import Intake
from indexer.exit_codes import DONE, INTERRUPTED, SOME_REFUSED
from indexer.index_request import open_collection
from indexer.refusal_report import refusal_report

DAY = re.compile(r"(\d{8})?")
CODE_STRING = re.compile(r"[A-Z0-9 _]{1,16}")  # VR CS
FETCHES_A_PROCESS = 2


def crawl_dicomweb(
    url: Annotated[
        str, typer.Argument(help="Address of the archive's DICOMweb service, before /studies.", metavar="URL")
    ],
    collection: intake_options.CollectionOption,
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
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two checks, with --watch.")] = 60.0,
    changes: Annotated[
        str | None,
        typer.Option(help="Orthanc's own address: --watch reads stable studies from its /changes."),
    ] = None,
    qido_prefix: Annotated[
        str | None, typer.Option(help="Path after URL for QIDO-RS, if there is one.")
    ] = None,
    wado_prefix: Annotated[
        str | None, typer.Option(help="Path after URL for WADO-RS, if there is one.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="'Name: value', sent with every request. Repeatable.")
    ] = None,
    authority: Annotated[
        Path | None, typer.Option(help="PEM file of the authority that signed the archive's certificate.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="PEM file with the client's certificate and key.")
    ] = None,
    frames: intake_options.FramesOption = "all",
    burned_in: intake_options.BurnedInOption = None,
    secondary_captures: intake_options.SecondaryCapturesOption = True,
    study_dates: intake_options.StudyDatesOption = "drop",
    jobs: intake_options.JobsOption = None,
    report: Annotated[
        Path | None, typer.Option(help="Write refused instances and the reasons to this CSV file.")
    ] = None,
    profile: intake_options.ProfileOption = None,
    format: Annotated[OutputFormat, typer.Option(help="Format of the summary.")] = OutputFormat.text,
) -> None:
    """Add the images of a DICOMweb archive to a collection. Run an interrupted command again to continue it.

    Credentials come from the environment: CBIR_DICOMWEB_USER and CBIR_DICOMWEB_PASSWORD, or CBIR_DICOMWEB_TOKEN. Exit
    code 0: all done; 3: done, but some were refused; 2: wrong use, or the archive failed; 130: interrupted.
    """
    from indexer.dicomweb.archive_session import check_url, open_session
    from indexer.dicomweb.crawl import Crawl, StudyFilter
    from indexer.dicomweb.dicomweb_archive import DicomwebArchive
    from indexer.dicomweb.orthanc_changes import OrthancChanges

    for day in (since, until):
        if not DAY.fullmatch(day):
            raise InvalidInput(f"{day!r} is not a day; write it as 20240131")
    if changes and not watch:
        raise InvalidInput("--changes says what is new for --watch; use both")
    study_filter = StudyFilter(_code_strings(modality), _code_strings(body_part), since, until)
    loaded = settings.load()
    instance_filter = InstanceFilter(
        frames, intake_options.accepts_burned_in(burned_in, loaded), secondary_captures, study_dates
    )
    limits = Limits.from_settings(loaded)
    session = open_session(header or [], limits.bytes, authority, certificate)
    archive = DicomwebArchive(check_url(url), session, qido_prefix, wado_prefix)
    archive.check()  # before the collection is created
    orthanc = OrthancChanges(check_url(changes), session) if changes else None
    stop = Event()
    with open_collection(collection, profile) as opened, refusal_report(report) as report_refusal:
        intake = Intake(
            opened, instance_filter=instance_filter, limits=limits, jobs=jobs, who="DICOMweb", settings=loaded
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        crawl = Crawl(
            archive,
            intake,
            study_filter,
            jobs=FETCHES_A_PROCESS * intake.jobs,
            stop=stop,
            report_refusal=report_refusal,
        )
        try:
            crawl()
            if watch:
                typer.echo("watching")
                crawl.watch(orthanc, every)
        finally:
            intake.close()
            _print_counts(intake, format)
    if stop.is_set() and not watch:
        raise typer.Exit(INTERRUPTED)
    refused = sum(intake.counts[fate] for fate in (Fate.unreadable, Fate.full, Fate.failed))
    raise typer.Exit(SOME_REFUSED if refused else DONE)


def _code_strings(values: list[str] | None) -> tuple[str, ...]:
    """Return modalities or body parts in upper case."""
    upper = tuple(value.upper() for value in values or [])
    for value in upper:
        if not CODE_STRING.fullmatch(value):
            raise InvalidInput(f"{value!r} is not a modality or body part, for instance CT or CHEST")
    return upper


def _print_counts(intake: Intake, format: OutputFormat) -> None:
    counts = dict(sorted((fate.value, number) for fate, number in intake.counts.items()))
    if format is OutputFormat.json:
        typer.echo(json.dumps(counts))
    else:
        typer.echo(", ".join(f"{number} {fate}" for fate, number in counts.items()) or "nothing matched")
