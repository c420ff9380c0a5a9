"""`cbir search --study`."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.search import command_options as options
from cbir.search.dicom_levels import Combination, Exclude, Level
from cbir.system.console import results_console

if TYPE_CHECKING:
    from service.features.similar.messages import SimilarAnswer


def find_similar_cases(
    collection: options.Folder,
    study: Annotated[str, Option(help="Study Instance UID to search with.")],
    series: Annotated[str, Option(help="Series Instance UID: search with one series.")] = "",
    instance: Annotated[str, Option(help="SOP Instance UID: search with one instance.")] = "",
    level: Annotated[Level, Option(help="Results.")] = Level.series,
    combine: Annotated[
        Combination,
        Option(help="Score of a result, from its images; maxsim: from its best image for each of the query."),
    ] = Combination.max,
    exclude: Annotated[
        Exclude, Option(help="Leave out the query's own instance, series, study or patient.")
    ] = Exclude.instance,
    depth: Annotated[
        int | None, Option(help="Images of each ranking list that count; not with maxsim.", min=1)
    ] = None,
    k: Annotated[int, Option("-k", help="Number of results.", min=1)] = 20,
    rerank: options.Rerank = None,
    parameter: options.Parameter = None,
    where: options.Where = None,
    format: Annotated[Literal["table", "json"], Option(help="Output format.")] = "table",
) -> None:
    """Search for instances, series or studies similar to one of the collection; nothing is an answer to itself."""
    from cbir.search import Searcher, Stopwatch
    from cbir.store import Collection
    from cbir.store.records.filter_conditions import DicomScope
    from service.features.similar.similar import SimilarRequest, find_similar, similar_message

    if instance and not series:
        raise InvalidInput("--instance needs --series too")
    parameters = options.parse_parameters(parameter)
    request = SimilarRequest(
        level, combine, exclude, depth, rerank, parameters=parameters, where=where or [], limit=k
    )
    with Collection(collection) as opened:
        searcher = Searcher(opened, settings.load())
        scope = DicomScope(study, series, instance)
        answer = similar_message(scope, request, find_similar(searcher, scope, request, Stopwatch()))
    if format == "json":
        typer.echo(answer.model_dump_json())
    else:
        _print_table(answer)


def _print_table(answer: "SimilarAnswer") -> None:
    from rich.table import Table

    table = Table("rank", "score", "images", "study", "series", "best image", box=None)
    for result in answer.results:
        names = result.study, result.series or "", result.best.image_id
        table.add_row(str(result.rank), f"{result.score:.4f}", str(result.found), *names)
    console = results_console()
    console.print(table)
    searched, milliseconds = answer.query.images, answer.timings_ms["total"]
    console.print(
        f"{answer.combine} over {answer.total} results for {searched} images, {milliseconds:.1f} ms",
        style="dim",
    )
