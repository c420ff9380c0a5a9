"""`cbir evaluate study`: blinded reader studies that compare two methods."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json, results_console
from cbir.system.threads import cores

if TYPE_CHECKING:
    from service.state.database import StateDatabase

MAX_QUERIES, MAX_ANSWERS, MAX_READERS = 1000, 50, 50
MAX_SEED = 2**31 - 1  # fits into an integer of any database

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Compare two methods in a blinded reader study, on the page /study of the service.",
)
Name = Annotated[str, typer.Argument(help="Name of the study.")]


@app.command("create")
def create_study(
    name: Annotated[str, typer.Argument(help="Name of the study, part of its address /study/NAME.")],
    collection: options.Folder,
    a: Annotated[str, Option("--a", help="First re-ranker, as eprf:P=9.")],
    b: Annotated[str, Option("--b", help="Second re-ranker.")],
    k: Annotated[int, Option("-k", min=1, max=MAX_ANSWERS, help="Images of each list.")] = 10,
    queries: Annotated[int, Option(min=1, max=MAX_QUERIES, help="Number of queries to draw.")] = 40,
    label: Annotated[
        str | None, Option(help="Label from whose values queries are drawn in turn. [default: all images]")
    ] = None,
    where: options.Where = None,
    query_file: Annotated[
        Path | None, Option(help="File with image ids, one a line, in place of a draw.")
    ] = None,
    readers: Annotated[int, Option(min=1, max=MAX_READERS, help="Number of readers.")] = 2,
    judge_images: Annotated[bool, Option("--judge-images", help="Also ask about each image.")] = False,
    same_patient: Annotated[bool, Option("--same-patient", help="Allow results of the patient.")] = False,
    served_as: Annotated[
        str | None, Option(help="Name of the collection in the service. [default: name of its folder]")
    ] = None,
    seed: Annotated[int, Option(min=0, max=MAX_SEED, help="Random seed of queries, order and sides.")] = 0,
    jobs: Annotated[int | None, Option(min=1, help="Processes. [default: number of cores]")] = None,
) -> None:
    """Draw queries, search with both methods, and store the lists; conditions apply to the queries only."""
    from cbir.evaluation.runs import parse_methods
    from service.features.annotate.reader_study.create_reader_study import StudyDesign, design_items
    from service.features.annotate.reader_study.tables import add_study, list_studies

    (first, *more), (second, *others) = parse_methods(a), parse_methods(b)
    if more or others:
        raise InvalidInput("--a and --b each name one re-ranker")
    loaded, database = settings.load(), _database()
    if name in [study.name for study, *_ in list_studies(database)]:
        raise InvalidInput(f"there is a study {name} already; choose another name")
    design = StudyDesign(
        name, collection, served_as or collection.resolve().name, first, second, k, queries, label,
        tuple(where or ()), query_file, readers, judge_images, same_patient, seed,
    )  # fmt: skip
    with StageBars() as bars:
        study, items = design_items(design, loaded, jobs or cores(), bars.show)
    add_study(database, study, items)
    same = sum(item.a == item.b for item in items)
    echo(
        f"{len(items)} queries, {same} with the same list by both methods. The service that has the collection "
        f"{study.collection} shows the study at /study/{name}"
    )


@app.command("list")
def list_all_studies(format: Printed = OutputFormat.text) -> None:
    """List all studies with their numbers of queries and answers."""
    from rich.table import Table

    from service.features.annotate.reader_study.tables import list_studies

    rows = [
        {
            "study": study.name, "collection": study.collection, "a": study.method_a, "b": study.method_b,
            "queries": items, "readers": study.readers, "answers": answers,
        }
        for study, items, answers in list_studies(_database())
    ]  # fmt: skip
    if format is OutputFormat.json:
        print_json(rows)
    elif rows:
        table = Table(*rows[0], box=None)
        for row in rows:
            table.add_row(*map(str, row.values()))
        results_console().print(table)
    else:
        echo("there is no study; make one with `cbir evaluate study create`")


@app.command("report")
def report_study(
    name: Name,
    out: Annotated[Path | None, Option(help="HTML file to write, with a chart. [default: none]")] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Print the results of the study of this name, in a format for people or programs; --out adds a report."""
    from service.features.annotate.reader_study.reader_results import reader_study_results
    from service.features.annotate.reader_study.tables import find_study, read_answers, read_items

    database = _database()
    study = find_study(database, name)
    results = reader_study_results(study, read_items(database, name), read_answers(database, name))
    if out:
        from cbir.system.files import atomic_text
        from service.features.annotate.reader_study.reader_report import render_reader_report

        with atomic_text(out) as file:
            file.write(render_reader_report(results))
    if format is OutputFormat.json:
        print_json(results)
        return
    from service.features.annotate.reader_study.reader_report import result_lines

    echo("\n".join(result_lines(results)))
    if out:
        echo(str(out))


@app.command("export")
def export_answers(
    name: Name, file: Annotated[Path, typer.Argument(help="CSV file to write, for its owner alone.")]
) -> None:
    """Write a row for each answer: reader, query, usefulness, preference, judged images and note."""
    from cbir.system.files import atomic_text, csv_text
    from service.features.annotate.reader_study.reader_results import reader_answer_rows
    from service.features.annotate.reader_study.tables import find_study

    database = _database()
    rows = reader_answer_rows(database, find_study(database, name))
    with atomic_text(file) as out:
        out.write(csv_text(rows))
    echo(f"{len(rows) - 1} answers in {file}")


@app.command("delete")
def remove_study(name: Name, yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False) -> None:
    """Delete a study with its answers."""
    from service.features.annotate.reader_study.tables import delete_study, find_study

    database = _database()
    find_study(database, name)
    if not yes:
        typer.confirm(f"Delete the study {name} with its answers?", abort=True)
    delete_study(database, name)
    echo(f"{name} deleted")


def _database() -> "StateDatabase":
    from service.state.database import open_state

    return open_state(settings.load())
