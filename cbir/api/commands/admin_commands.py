"""`cbir admin ...`: look after the service."""

import typer

from cbir.system.lazy_commands import LazyCommands


class AdminCommands(LazyCommands):
    """Commands of the entry-point group."""

    entry_point_group = "cbir.commands.admin"


app = typer.Typer(cls=AdminCommands, no_args_is_help=True, add_completion=False)


@app.callback()
def _admin() -> None:
    """Look after the service: tokens, state, logs, jobs, other sites and settings."""
