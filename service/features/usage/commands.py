"""`cbir admin usage`: show, export and delete the usage log of the search page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbir import settings
from cbir.system.console import OutputFormat, Printed, echo, print_json, results_console

if TYPE_CHECKING:
    from service.state.database import StateDatabase

NAMES = ("collection", "method", "searches", "opened", "relevant", "irrelevant", "useful", "not_useful")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Show, export and delete the usage log of the search page.",
)
CollectionName = Annotated[
    str | None, typer.Option("--collection", help="Name of a collection. [default: all]")
]


@app.command("show")
def show_usage(format: Printed = OutputFormat.text) -> None:
    """Count searches, opened answers and judgements of each collection and method."""
    from service.features.usage.tables import count_usage

    rows = count_usage(_database())
    if format is OutputFormat.json:
        print_json(rows)
    elif rows:
        _print_table(rows)
    else:
        echo("no searches are logged; the setting usage_log turns the log of the service on")


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(*(name.replace("_", " ") for name in NAMES), box=None)
    for row in rows:
        table.add_row(*(str(row[name]) for name in NAMES))
    results_console().print(table)


@app.command("export")
def export_usage(
    file: Annotated[Path, typer.Argument(help="CSV file to write, for its owner alone.")],
    collection: CollectionName = None,
) -> None:
    """Write a row for each search: method, parameters, query, answers shown, opened and judged."""
    from cbir.system.files import atomic_text
    from service.features.usage.replay_log import write_usage_csv
    from service.features.usage.tables import read_usage

    with atomic_text(file) as out:
        count = write_usage_csv(read_usage(_database(), collection), out)
    echo(f"{count} searches in {file}")


@app.command("delete")
def clear_usage(
    collection: CollectionName = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete the log, or that of one collection."""
    from service.features.usage.tables import delete_usage

    if not yes:
        typer.confirm(f"Delete the usage log of {collection or 'all collections'}?", abort=True)
    echo(f"{delete_usage(_database(), collection)} searches deleted")


def _database() -> "StateDatabase":
    from service.state.database import open_state

    return open_state(settings.load())
