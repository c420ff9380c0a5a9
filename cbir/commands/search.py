"""`cbir search`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cbir import settings
from cbir.collection import Collection
from cbir.errors import InvalidInput
from cbir.evaluation.trec import run_lines
from cbir.images import Limits, read
from cbir.search import Answer, Request, Searcher, Stopwatch, query_frame


class Format(StrEnum):
    """How the answer is printed."""

    table = "table"
    json = "json"
    trec = "trec"


def search(
    image: Annotated[str, typer.Argument(help="An image file, or id:IMAGE_ID of one in the collection.")],
    collection: Annotated[Path, typer.Option(help="Folder of the collection.")],
    k: Annotated[int, typer.Option("-k", help="Number of answers.", min=1)] = 20,
    rerank: Annotated[str | None, typer.Option(help="As none or eprf; a wrong name lists all.")] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the re-ranker, e.g. P=9.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only images with this label, e.g. modality=CT.")
    ] = None,
    exclude_patient: Annotated[str | None, typer.Option(help="Leave this patient's images out.")] = None,
    frame: Annotated[int | None, typer.Option(help="Frame of a multi-frame file, from 1.")] = None,
    format: Annotated[Format, typer.Option(help="How the answer is printed.")] = Format.table,
) -> None:
    """Find the images most like one image."""
    in_force = settings.load()
    request = Request(
        k=k,
        rerank=rerank,
        parameters=dict(_parameter(text) for text in parameter or []),
        where=where or [],
        exclude_patient=exclude_patient,
    )
    with Collection(collection) as opened:
        searcher, watch = Searcher(opened, in_force), Stopwatch()
        if image.startswith("id:"):
            if frame is not None:
                raise InvalidInput("--frame is for files; an image of the collection is one frame already")
            answer = searcher.by_id(image.removeprefix("id:"), request, watch)
        else:
            frames = read(Path(image), limits=Limits(pixels=in_force.max_pixels))
            answer = searcher.by_image(query_frame(frames, frame, image), request, watch)
    if format is Format.json:
        typer.echo(answer.model_dump_json())
    elif format is Format.trec:
        typer.echo("\n".join(trec_lines(answer, image)), nl=bool(answer.results))
    else:
        _print_table(answer)


def _parameter(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, float(value) if "." in value or "e" in value.lower() else int(value)
    except ValueError:
        raise InvalidInput(f"--parameter {text} is not of the form NAME=NUMBER, for instance P=9") from None


def trec_lines(answer: Answer, query: str) -> list[str]:
    """Lines of a TREC run file, `query Q0 image rank score method`, with strictly falling scores.

    The query is named by its id or its file name without suffix; equal scores are told apart in the last digit.
    """
    name = query.removeprefix("id:") if query.startswith("id:") else Path(query).stem
    scores = np.array([hit.score for hit in answer.results])
    return run_lines(name, [hit.image_id for hit in answer.results], scores, answer.rerank.method)


def _print_table(answer: Answer) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("rank", "image", "score", "distance", "labels", box=None)
    for hit in answer.results:
        labels = " ".join(f"{key}={value}" for key, value in hit.labels.items())
        table.add_row(str(hit.rank), hit.image_id, f"{hit.score:.4f}", f"{hit.distance:.3f}", escape(labels))
    console = Console(width=None if Console().is_terminal else 200)
    console.print(table)
    took, how = answer.timings_ms, answer.rerank
    console.print(f"{how.method} over the {how.scope}, {took['total']:.1f} ms", style="dim")
    for note in how.notes:
        console.print(escape(note), style="yellow")
