"""`cbir admin usage`: show, export and delete the usage log of the search page; `cbir evaluate replay` of it."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, results_console
from cbir.system.remedies import install_command
from cbir.system.threads import cores

if TYPE_CHECKING:
    from service.features.usage.replay import ReplayResult
    from service.features.usage.replay_log import LoggedSearch
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


def replay_usage(
    collection: options.Folder,
    out: Annotated[Path, Option(help="Folder for figures and report.")],
    rerank: Annotated[
        list[str], Option(help="Re-ranker to compare, as eprf:P=9. Repeatable; the first is the baseline.")
    ],
    log: Annotated[
        Path | None, Option(help="CSV of `cbir admin usage export`. [default: the usage log in state_folder]")
    ] = None,
    name: Annotated[
        str | None, Option(help="Name of the collection in the log. [default: name of its folder]")
    ] = None,
    depth: Annotated[int, Option(min=1, help="Answers to each query.")] = 1000,
    eta: Annotated[
        float | None,
        Option(min=0, help="Position bias: rank r is seen r^-ETA times as often. [default: estimated]"),
    ] = None,
    clip: Annotated[float, Option(min=1, help="Largest weight of a click.")] = 20.0,
    seed: Annotated[int, Option(min=0, help="Random seed of the statistics.")] = 0,
    jobs: Annotated[int | None, Option(min=1, help="Processes. [default: number of cores]")] = None,
) -> None:
    """Search again with the queries of the usage log, and compare re-rankers on what people opened and judged."""
    if find_spec("statsmodels") is None:
        raise InvalidInput(f"statsmodels is not installed: {install_command('evaluate')}")
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"{out} is a file; the results need a folder")
    from cbir.evaluation.runs import parse_methods
    from cbir.system.files import atomic_text, csv_text, private_folder
    from service.features.usage.replay import ReplayPlan, replay_log
    from service.features.usage.replay_report import (
        query_rows,
        render_replay,
        replay_summary,
        usage_by_method,
    )

    loaded = settings.load()
    methods = parse_methods(" ".join(rerank))
    searches = _searches(log, name or collection.resolve().name)
    plan = ReplayPlan(collection, methods, depth, eta, clip, seed, jobs or cores())
    with StageBars() as bars:
        result = replay_log(plan, searches, loaded, bars.show)
    usage = usage_by_method(searches)
    private_folder(out)
    with atomic_text(out / "queries.csv") as file:
        file.write(csv_text([("method", "query", "measure", "value"), *query_rows(result)]))
    with atomic_text(out / "summary.json") as file:
        json.dump(replay_summary(result, usage), file, indent=2)
    with atomic_text(out / "report.html") as file:
        file.write(render_replay(result, usage))
    _print_replay(result, out)


def _searches(log: Path | None, name: str) -> "list[LoggedSearch]":
    """Return the logged searches of the collection with this name."""
    from service.features.usage.replay_log import read_usage_csv
    from service.features.usage.tables import read_usage

    searches = read_usage_csv(log) if log else list(read_usage(_database()))
    if of_collection := [search for search in searches if search.collection == name]:
        return of_collection
    others = ", ".join(sorted({search.collection for search in searches}))
    raise InvalidInput(
        f"the usage log has no searches of the collection {name}; "
        + (f"--name takes {others}" if others else "the setting usage_log turns it on")
    )


def _print_replay(result: "ReplayResult", out: Path) -> None:
    from rich.table import Table

    from service.features.usage.replay_report import describe_bias

    measures = [measure for measure in result.measures if measure.queries]
    table = Table("method", *(measure.name for measure in measures), "judged of 10", "shown of 10", box=None)
    for row, method in enumerate(result.plan.methods):
        means = [f"{measure.means[row]:.4g}" for measure in measures]
        shares = [f"{values[row]:.0%}" for values in (result.judged_share, result.shown_share)]
        table.add_row(method.name, *means, *shares)
    console = results_console()
    console.print(table)
    console.print(
        f"{len(result.queries)} queries of {result.searches} searches; {describe_bias(result)}",
        highlight=False,
    )
    console.print(f"{out / 'report.html'}", highlight=False)
