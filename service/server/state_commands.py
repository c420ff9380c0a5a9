"""`cbir admin state`: check the state of the service, and move it to PostgreSQL."""

from typing import Annotated

import typer

from cbir import settings
from cbir.errors import InvalidInput
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, print_values

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def state() -> None:
    """Check logins, saved cases, tokens and other state of the service, or move it to PostgreSQL."""


@app.command()
def verify(
    first: Annotated[
        int, typer.Option(help="Number of the audit log's first line, if older files are archived.", min=1)
    ] = 1,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Keep what is left of a damaged state.sqlite as it is, and say so."),
    ] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Read state database, tokens, audit log and segmentations, and compare them with their checksums.

    Exit code 1 if there is a problem.
    """
    from service.server.verify_state import verify_state
    from service.state.database import open_state

    active = settings.load()
    database = open_state(active)
    lost = database.accept_loss() if accept else None
    accepted = database.accept_rows() if accept else []
    with StageBars() as bars:
        problems = verify_state(active, first, bars.show)
    if format is OutputFormat.json:
        result = {"accepted": accepted, "lost": [lost] if lost else []} if accept else {}
        print_json({"ok": not problems, "problems": problems} | result)
    else:
        lines = [f"not kept: {lost}"] if lost else []
        lines += [f"kept as they are: rows of the table {name}" for name in accepted]
        echo("\n".join([*lines, *(problems or ["no problems"])]))
    raise typer.Exit(1 if problems else 0)


@app.command("copy")
def copy_to_server(
    only_tokens: Annotated[bool, typer.Option(help="Copy the tokens only, not state.sqlite.")] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Copy state.sqlite and tokens.json of state_folder to state_database; print the rows of each table.

    The tables must be empty. Stop the service first: what it stores meanwhile is not copied. The files stay.
    """
    from service.access.token_stores import TokenStore, copy_tokens
    from service.state.database import StateDatabase, copy_state, open_state

    active = settings.load()
    if not active.state_database:
        raise InvalidInput("state_database is not set; set it to the PostgreSQL database to copy to")
    source, tokens = StateDatabase(active.state_folder), TokenStore(active.state_folder)
    if only_tokens and not tokens.all():
        raise InvalidInput(
            f"state_folder {active.state_folder} has no tokens.json, so there is nothing to copy"
        )
    if not source.exists() and not tokens.all():
        raise InvalidInput(
            f"state_folder {active.state_folder} has no state.sqlite and no tokens.json, so nothing to copy"
        )
    target = open_state(active)
    copied = {} if only_tokens or not source.exists() else copy_state(source, target)
    print_values(copied | {"tokens": copy_tokens(tokens, target)}, format)
