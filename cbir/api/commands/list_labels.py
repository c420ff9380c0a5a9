"""`cbir collection labels`."""

from typing import Annotated, Any

from typer import Argument, Option

from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, print_json, results_console


def list_labels(
    collection: options.Folder,
    key: Annotated[str | None, Argument(metavar="KEY", help="Label whose values are listed.")] = None,
    where: options.Where = None,
    limit: Annotated[int, Option(min=1, help="Most values that are listed, the most frequent first.")] = 100,
    format: Printed = OutputFormat.text,
) -> None:
    """List the labels with their numbers of images and values, or the values of one with their numbers of images."""
    from cbir.store import Collection

    with Collection(collection) as opened:
        conditions = opened.conditions(where or ())
        if key is None:
            keys = [row._asdict() for row in opened.list_label_keys(conditions)]
            _print_rows({"items": keys}, format)
            return
        values = opened.list_label_values(key, conditions, 0, limit)
    _print_rows(values._asdict() | {"items": [row._asdict() for row in values.items]}, format)


def _print_rows(values: dict[str, Any], format: OutputFormat) -> None:
    """Print JSON, or `items` as a table with a line about what is not in it."""
    from rich.table import Table

    if format is OutputFormat.json:
        print_json(values)
        return
    rows, console = values["items"], results_console()
    table = Table(*(rows[0] if rows else ()), box=None)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)
    if values.get("minimum") is not None:
        console.print(f"from {values['minimum']:g} to {values['maximum']:g}", style="dim")
    if values.get("values", 0) > len(rows):
        console.print(f"and {values['values'] - len(rows)} more values; --limit shows them", style="dim")
