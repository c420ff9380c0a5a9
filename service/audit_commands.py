"""`cbir audit-log`: check that no line of the audit log was changed or removed."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbir import settings
from cbir.commands.output import StageBars
from cbir.errors import InvalidInput

if TYPE_CHECKING:
    from service.access.audit_chain import ChainHead
    from service.access.audit_files import AuditFiles

HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{32})")
MAX_FAULTS = 20  # printed

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Check that no line of the service's audit log was changed or removed.",
)
File = Annotated[
    Path | None,
    typer.Option("--file", help="Audit log file [that of the settings, or audit.jsonl in state_folder]."),
]


@app.command()
def verify(
    file: File = None,
    first: Annotated[
        int, typer.Option(help="Number of the first line, if older files are archived elsewhere.", min=1)
    ] = 1,
    head: Annotated[
        list[str] | None,
        typer.Option(help="A line that `cbir audit-log head` printed earlier; it must be there. Repeatable."),
    ] = None,
) -> None:
    """Report every changed, removed, added or reordered line, also in rotated files. Exit code 1 if there is one."""
    heads = tuple(map(_parse_head, head or []))
    with StageBars() as bars:
        bars.show("reading the log")
        report = _files(file).verify(first, heads)
    for note in report.notes:
        typer.echo(f"note: {note}")
    for fault in report.faults[:MAX_FAULTS]:
        typer.echo(fault)
    if len(report.faults) > MAX_FAULTS:
        typer.echo(f"and {len(report.faults) - MAX_FAULTS} more")
    if report.faults:
        raise typer.Exit(1)
    typer.echo(f"{report.lines} lines, unbroken; the last is {report.head or 'none'}")


@app.command("head")
def show_head(file: File = None) -> None:
    """Print number and hash of the last line. Keep them elsewhere: `verify --head` finds lines removed after that."""
    typer.echo(str(_files(file).head()))


def _files(file: Path | None) -> "AuditFiles":
    from service.access.audit_files import AuditFiles
    from service.access.startup_checks import AUDIT_FILE

    active = settings.load()
    return AuditFiles(file or active.audit_log or active.state_folder / AUDIT_FILE)


def _parse_head(text: str) -> "ChainHead":
    from service.access.audit_chain import ChainHead

    match = HEAD.fullmatch(text.strip())
    if not match:
        raise InvalidInput(f"--head {text!r}: expected NUMBER:HASH, as `cbir audit-log head` prints it")
    return ChainHead(int(match[1]), match[2])
