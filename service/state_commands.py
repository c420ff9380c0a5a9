"""`cbir state`: move the state of the service to PostgreSQL."""

import typer

from cbir import settings
from cbir.commands.output import OutputFormat, Printed, print_values
from cbir.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def state() -> None:  # without it `copy` would be no command of its own, since there is no other
    """Move logins, saved cases and other state of the service to PostgreSQL."""


@app.command("copy")
def copy_to_server(format: Printed = OutputFormat.text) -> None:
    """Copy state.sqlite of state_folder to state_database, which must be empty, and print the rows of each table.

    Stop the service first: what it stores meanwhile is not copied. The file stays as it is.
    """
    from service.state.database import StateDatabase, open_state
    from service.state.postgresql import continue_numbers
    from service.state.table_copy import copy_state

    active = settings.load()
    if not active.state_database:
        raise InvalidInput("state_database is not set; set it to the PostgreSQL database to copy to")
    source = StateDatabase(active.state_folder)
    if not source.exists():
        raise InvalidInput(
            f"state_folder {active.state_folder} has no state.sqlite, so there is nothing to copy"
        )
    print_values(copy_state(source, open_state(active), continue_numbers), format)
