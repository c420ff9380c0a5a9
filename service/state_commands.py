"""`cbir state`: move the state of the service to PostgreSQL."""

from typing import Annotated

import typer

from cbir import settings
from cbir.commands.output import OutputFormat, Printed, print_values
from cbir.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def state() -> None:  # without it `copy` would be no command of its own, since there is no other
    """Move logins, saved cases and other state of the service to PostgreSQL."""


@app.command("copy")
def copy_to_server(
    only_tokens: Annotated[bool, typer.Option(help="Copy the tokens only, not state.sqlite.")] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Copy state.sqlite and tokens.json of state_folder to state_database; print the rows of each table.

    The tables must be empty. Stop the service first: what it stores meanwhile is not copied. The files stay.
    """
    from service.access.shared_tokens import copy_tokens
    from service.access.tokens import TokenStore
    from service.state.database import StateDatabase, open_state
    from service.state.postgresql import continue_numbers
    from service.state.table_copy import copy_state

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
    copied = {} if only_tokens or not source.exists() else copy_state(source, target, continue_numbers)
    print_values(copied | {"tokens": copy_tokens(tokens, target)}, format)
