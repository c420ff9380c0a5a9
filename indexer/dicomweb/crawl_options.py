"""Options of `cbir index dicomweb`."""

from pathlib import Path
from typing import Annotated

import typer

from cbir.system.console import OutputFormat

Url = Annotated[
    str, typer.Argument(help="Address of the archive's DICOMweb service, before /studies.", metavar="URL")
]
Modality = Annotated[list[str] | None, typer.Option(help="Only this modality, for instance CT. Repeatable.")]
BodyPart = Annotated[
    list[str] | None,
    typer.Option(help="Only this body part, for instance CHEST, if the series names one. Repeatable."),
]
Since = Annotated[str, typer.Option(help="Only studies of this day (YYYYMMDD) and later.")]
Until = Annotated[str, typer.Option(help="Only studies of this day (YYYYMMDD) and earlier.")]
Watch = Annotated[bool, typer.Option(help="Keep running, and add new studies as they come.")]
Every = Annotated[float, typer.Option(min=0.1, help="Seconds between two checks, with --watch.")]
Changes = Annotated[
    str | None,
    typer.Option(help="Orthanc's own address: --watch reads stable studies from its /changes."),
]
Compare = Annotated[
    bool,
    typer.Option(help="Add nothing: list what of the collection is deleted or different in the archive now."),
]
Apply = Annotated[
    bool,
    typer.Option(help="With --compare: follow the archive, deletions included, instead of listing only."),
]
Pixels = Annotated[
    bool,
    typer.Option(
        "--pixels/--no-pixels",
        help="With --compare: fetch all images; without, only those of studies that have another patient now.",
    ),
]
QidoPrefix = Annotated[str | None, typer.Option(help="Path after URL for QIDO-RS, if there is one.")]
WadoPrefix = Annotated[str | None, typer.Option(help="Path after URL for WADO-RS, if there is one.")]
Header = Annotated[list[str] | None, typer.Option(help="'Name: value', sent with every request. Repeatable.")]
Authority = Annotated[
    Path | None, typer.Option(help="PEM file of the authority that signed the archive's certificate.")
]
Certificate = Annotated[Path | None, typer.Option(help="PEM file with the client's certificate and key.")]
Report = Annotated[
    Path | None,
    typer.Option(help="Write refused instances and the reasons, or differences, to this CSV file."),
]
Format = Annotated[OutputFormat, typer.Option(help="Format of the summary.")]
