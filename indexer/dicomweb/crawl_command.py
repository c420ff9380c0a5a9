"""`cbir index dicomweb`."""

import json
import re
import signal
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from cbir import settings
from cbir.errors import ArchiveFailed, InvalidInput
from cbir.images import Limits
from cbir.threads import cores
from indexer.dicom.describe_instance import Fate
from indexer.dicom.instance_filter import InstanceFilter
from indexer.dicom.intake import Intake
from indexer.index_command import DONE, INTERRUPTED, SOME_REFUSED, Format, open_collection
from indexer.refusal_report import refusal_report as write_report

if TYPE_CHECKING:
    from indexer.dicomweb.crawl import Crawl
    from indexer.dicomweb.orthanc_changes import OrthancChanges

DAY = re.compile(r"(\d{8})?")
NAME = re.compile(r"[A-Z0-9 _]{1,16}")  # VR CS


def dicomweb(
    url: Annotated[str, typer.Argument(help="Address of the archive's DICOMweb service, before /studies.")],
    collection: Annotated[Path, typer.Option(help="Folder of the collection; made where it does not exist.")],
    modality: Annotated[
        list[str] | None, typer.Option(help="Only these, as CT; several times for several.")
    ] = None,
    body_part: Annotated[
        list[str] | None, typer.Option(help="Only these, as CHEST, where series say one.")
    ] = None,
    since: Annotated[str, typer.Option(help="Studies of this day (YYYYMMDD) and later.")] = "",
    until: Annotated[str, typer.Option(help="Studies of this day (YYYYMMDD) and earlier.")] = "",
    watch: Annotated[bool, typer.Option(help="Go on, and take new studies as they come.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks, with --watch.")] = 60.0,
    changes: Annotated[
        str | None, typer.Option(help="Orthanc's own address: --watch asks its /changes for stable studies.")
    ] = None,
    qido_prefix: Annotated[
        str | None, typer.Option(help="Path after URL for QIDO-RS, if there is one.")
    ] = None,
    wado_prefix: Annotated[
        str | None, typer.Option(help="Path after URL for WADO-RS, if there is one.")
    ] = None,
    header: Annotated[list[str] | None, typer.Option(help="'Name: value', sent with every request.")] = None,
    authority: Annotated[Path | None, typer.Option(help="PEM file of who signed its certificate.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="PEM file of our certificate and key.")] = None,
    frames: Annotated[str, typer.Option(help="Of instances with several: all, middle, or every:N.")] = "all",
    burned_in: Annotated[bool, typer.Option(help="Take images that say they have text burned in.")] = True,
    secondary_captures: Annotated[bool, typer.Option(help="Take pictures of screens and films.")] = True,
    study_dates: Annotated[str, typer.Option(help="drop, or shift: a label, moved per patient.")] = "drop",
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores if not given.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write refused instances and reasons to this csv.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Of a new collection, as for cbir index.")] = None,
    format: Annotated[Format, typer.Option(help="Of the summary.")] = Format.text,
) -> None:
    """Bring the images of a DICOMweb archive into a collection. The same command goes on where one stopped.

    Credentials come from the environment: CBIR_DICOMWEB_USER and CBIR_DICOMWEB_PASSWORD, or CBIR_DICOMWEB_TOKEN. Exit
    code 0: all done; 3: done, but some were refused; 2: wrong use, or the archive failed; 130: interrupted.
    """
    from indexer.dicomweb.archive_session import check_url, open_session
    from indexer.dicomweb.crawl import Crawl, Filters
    from indexer.dicomweb.dicomweb_archive import DicomwebArchive
    from indexer.dicomweb.orthanc_changes import OrthancChanges

    for day in (since, until):
        if not DAY.fullmatch(day):
            raise InvalidInput(f"{day!r} is no day; write it as 20240131")
    named = [text.upper() for text in (*(modality or []), *(body_part or []))]
    for text in named:
        if not NAME.fullmatch(text):
            raise InvalidInput(f"{text!r} is no modality or body part, for instance CT or CHEST")
    if changes and not watch:
        raise InvalidInput("--changes tells --watch what is new; give both")
    filters = Filters(
        tuple(text.upper() for text in modality or []),
        tuple(text.upper() for text in body_part or []),
        since,
        until,
    )
    choice = InstanceFilter(frames, burned_in, secondary_captures, study_dates)
    chosen = settings.load()
    limits = Limits(pixels=chosen.max_pixels)
    session = open_session(header or [], limits.bytes, authority, certificate)
    archive = DicomwebArchive(check_url(url), session, qido_prefix, wado_prefix)
    archive.check()  # before anything is made
    followed = OrthancChanges(check_url(changes), session) if changes else None
    stop = Event()
    processes = jobs if jobs is not None else cores()
    with open_collection(collection, profile, []) as opened, write_report(report) as refused:
        intake = Intake(
            opened,
            choice=choice,
            limits=limits,
            jobs=processes,
            who="DICOMweb",
            keep_originals=chosen.keep_originals,
            store_thumbnails=chosen.store_thumbnails,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        crawl = Crawl(archive, intake, filters, jobs=2 * processes, stop=stop, refused=refused)
        try:
            crawl()
            if watch:
                typer.echo("watching")
                _watch(crawl, followed, every)
        finally:
            intake.close()
            _print(intake, format)
    if stop.is_set() and not watch:
        raise typer.Exit(INTERRUPTED)
    wrong = sum(intake.counts[fate] for fate in (Fate.unreadable, Fate.full, Fate.failed))
    raise typer.Exit(SOME_REFUSED if wrong else DONE)


def _watch(crawl: "Crawl", followed: "OrthancChanges | None", every: float) -> None:
    """Look again and again; an archive that is gone for a while is told of once."""
    from indexer.dicomweb.dicomweb_archive import ArchiveStudy

    told = False
    while not crawl.stop.wait(every):
        try:
            if followed is None:
                crawl()
            else:
                for uid in followed.stable_studies():
                    crawl.study(ArchiveStudy(uid))
            told = False
        except ArchiveFailed as error:
            if not told:
                typer.echo(f"cbir: {error}; trying on", err=True)
            told = True


def _print(intake: Intake, format: Format) -> None:
    counts = {
        fate.value: number for fate, number in sorted(intake.counts.items(), key=lambda one: one[0].value)
    }
    if format is Format.json:
        typer.echo(json.dumps(counts))
        return
    typer.echo(", ".join(f"{number} {what}" for what, number in counts.items()) or "nothing matched")
