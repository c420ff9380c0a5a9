"""`cbir admin audit-log`: check that no line of the audit log was changed or removed."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbir import settings
from cbir.errors import InvalidInput
from cbir.system.console import StageBars, echo

if TYPE_CHECKING:
    from service.access.audit import AuditFiles
    from service.access.audit_chain import ChainHead
    from service.access.shared_audit import SharedAuditLines

HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{32})")
MAX_FAULTS = 20  # printed

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Check that no line of the service's audit log was changed or removed.",
)
File = Annotated[
    Path | None,
    typer.Option("--file", help="Audit log file. [default: that of the settings]"),
]


@app.command()
def verify(
    file: File = None,
    first: Annotated[
        int, typer.Option(help="Number of the first line, if older files are archived elsewhere.", min=1)
    ] = 1,
    head: Annotated[
        list[str] | None,
        typer.Option(
            help="A line that `cbir admin audit-log head` printed earlier; it must be there. Repeatable."
        ),
    ] = None,
) -> None:
    """Report every changed, removed, added or reordered line, and files that do not belong; then exit with 1."""
    heads = tuple(map(_parse_head, head or []))
    with StageBars() as bars:
        bars.show("reading the log")
        report = _log(file).verify(first, heads)
    for note in report.notes:
        echo(f"note: {note}")
    for fault in report.faults[:MAX_FAULTS]:
        echo(fault)
    if len(report.faults) > MAX_FAULTS:
        echo(f"and {len(report.faults) - MAX_FAULTS} more")
    if report.faults:
        raise typer.Exit(1)
    echo(f"{report.lines} lines, unbroken; the last is {report.head or 'none'}")


@app.command("head")
def show_head(file: File = None) -> None:
    """Print number and hash of the last line. Keep them elsewhere: `verify --head` finds lines removed after that."""
    echo(str(_log(file).head()))


@app.command("export")
def export_lines(
    since: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"], metavar="DAY", help="First day, UTC, as in 2030-01-31. [default: all]"
        ),
    ] = None,
) -> None:
    """Print the lines of an audit log in state_database, as a file has them."""
    from service.access.shared_audit import SharedAuditLines

    log = _log(None)
    if not isinstance(log, SharedAuditLines):
        raise InvalidInput(f"the audit log is the file {log.path}; read that")
    first = since.replace(tzinfo=UTC).timestamp() if since else 0
    for line in log.since(int(first)):
        typer.echo(line)


def _log(file: Path | None) -> "AuditFiles | SharedAuditLines":
    from service.access.audit import AuditFiles
    from service.access.security import audit_key_file, audit_log_place
    from service.access.shared_audit import SharedAuditLines
    from service.state.database import open_state

    active = settings.load()
    path = file or audit_log_place(active)
    return AuditFiles(path) if path else SharedAuditLines(open_state(active), audit_key_file(active))


def _parse_head(text: str) -> "ChainHead":
    from service.access.audit_chain import ChainHead

    match = HEAD.fullmatch(text.strip())
    if not match:
        raise InvalidInput(f"--head {text!r}: expected NUMBER:HASH, as `cbir admin audit-log head` prints it")
    return ChainHead(int(match[1]), match[2])
