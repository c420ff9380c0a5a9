"""`cbir search`."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from pydantic import TypeAdapter, ValidationError
from typer import Argument, Option

from cbir import settings
from cbir.commands import options
from cbir.commands.output import results_console
from cbir.commands.search_batch import search_each
from cbir.errors import InvalidInput
from cbir.evaluation.trec import run_lines
from cbir.hardware import Device
from cbir.images import Image, Limits, read_images
from cbir.ingest.query_volume import read_query_volume
from cbir.search import (
    MAX_EXAMPLES,
    MAX_JUDGEMENTS,
    Answer,
    Judgement,
    Request,
    Searcher,
    Stopwatch,
    select_frame,
)
from cbir.store import Collection
from cbir.threads import cores


def search_images(
    collection: options.Folder,
    images: Annotated[
        list[str] | None,
        Argument(
            metavar="IMAGE",
            help="Image files, or id:IMAGE_ID; several are one query. In a collection of CT series: "
            "folders or ZIP archives of a series, or NIfTI files.",
        ),
    ] = None,
    text: Annotated[
        str | None, Option(help="Words to search with, for encoders of image-text models.")
    ] = None,
    k: Annotated[int, Option("-k", help="Number of results.", min=1)] = 20,
    rerank: options.Rerank = None,
    parameter: options.Parameter = None,
    where: options.Where = None,
    exclude_patient: Annotated[str | None, Option(help="Leave out the images of this patient.")] = None,
    frame: options.Frame = None,
    relevant: Annotated[list[str] | None, Option(help="Id of a relevant image. Repeatable.")] = None,
    not_relevant: Annotated[list[str] | None, Option(help="Id of an irrelevant image. Repeatable.")] = None,
    feedback: Annotated[
        Path | None, Option(help='JSON file of judgements: a list of {"image_id", "relevance": -1 to 1}.')
    ] = None,
    device: Annotated[Device | None, Option(help="cuda is faster for many queries, not for one.")] = None,
    format: Annotated[Literal["table", "json", "trec"], Option(help="Output format.")] = "table",
    output: Annotated[
        Path | None,
        Option(
            help="Search with each image by itself, and write the results to this .csv, .jsonl or TREC .run file; "
            "IMAGE may also be a folder, or a .csv or .txt list of files. Run it again to continue."
        ),
    ] = None,
    jobs: Annotated[int | None, Option(min=1, help="Processes, with --output. [default: cores]")] = None,
) -> None:
    """Search for images similar to one or several, optionally with relevance feedback, or for images by text."""
    images = images or []
    if (text is None) == (not images):
        raise InvalidInput("search with images or with --text, one of them")
    loaded = settings.load(device=device)
    if loaded.device == "auto":  # a GPU takes longer to start than one search on the CPU
        loaded = loaded.model_copy(update={"device": "cpu"})
    if jobs is not None and output is None:
        raise InvalidInput("--jobs is for --output; one search uses one process")
    if output is not None:
        if text is not None or relevant or not_relevant or feedback:
            raise InvalidInput("--output is for searches with images; leave out --text and judgements")
        if format != "table":
            raise InvalidInput(
                "--format is for one search; the name of --output decides the form of its file"
            )
        request = Request(
            k=k,
            rerank=rerank,
            parameters=options.parse_parameters(parameter),
            where=where or [],
            exclude_patient=exclude_patient,
        )
        search_each(collection, loaded, request, images, output, frame=frame, jobs=jobs or cores())
        return
    if len(images) > MAX_EXAMPLES:
        raise InvalidInput(f"at most {MAX_EXAMPLES} examples can be used, not {len(images)}")
    request = Request(
        k=k,
        rerank=rerank,
        parameters=options.parse_parameters(parameter),
        where=where or [],
        exclude_patient=exclude_patient,
        examples=[text.removeprefix("id:") for text in images if text.startswith("id:")],
        feedback=parse_judgements(relevant or [], not_relevant or [], feedback),
    )
    files = [text for text in images if not text.startswith("id:")]
    if frame is not None and text is not None:
        raise InvalidInput("--frame is for files; leave it out with --text")
    if frame is not None and not files:
        raise InvalidInput("--frame is for files; an image of the collection is a single frame")
    with Collection(collection) as opened:
        searcher, watch = Searcher(opened, loaded), Stopwatch()
        if text is not None:
            answer = searcher.by_text(text, request, watch)
        else:
            limits = Limits.from_settings(loaded)
            queries = [_read_query(Path(file), frame, opened, limits) for file in files]
            answer = searcher.by_examples(queries, request, watch)
    if format == "json":
        typer.echo(answer.model_dump_json())
    elif format == "trec":
        typer.echo("\n".join(trec_lines(answer, images[0] if images else "text")), nl=bool(answer.results))
    else:
        _print_table(answer)


def _read_query(path: Path, frame: int | None, collection: Collection, limits: Limits) -> Image:
    grid = collection.profile.volume_grid
    if grid is None:
        return select_frame(read_images(path, limits=limits), frame, str(path))
    if frame is not None:
        raise InvalidInput("--frame is for single images, and the collection is of CT series; leave it out")
    return read_query_volume(path, limits, grid)


def parse_judgements(relevant: list[str], irrelevant: list[str], file: Path | None) -> list[Judgement]:
    """Parse relevance judgements.

    Parameters
    ----------
    relevant, irrelevant : list of str
        Image ids, with or without "id:".
    file : Path, optional
        JSON list of judgements.

    Raises
    ------
    InvalidInput
        If the file is not such a list, or there are more than MAX_JUDGEMENTS.
    """
    judgements = [Judgement(image_id=name.removeprefix("id:"), relevance=1.0) for name in relevant]
    judgements += [Judgement(image_id=name.removeprefix("id:"), relevance=-1.0) for name in irrelevant]
    if file is not None:
        try:
            judgements += TypeAdapter(list[Judgement]).validate_json(file.read_bytes())
        except OSError as error:
            raise InvalidInput(f"--feedback {file} cannot be read: {error.strerror}") from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidInput(f"--feedback {file}: {where}: {first['msg']}".replace(": : ", ": ")) from None
    if len(judgements) > MAX_JUDGEMENTS:
        raise InvalidInput(f"at most {MAX_JUDGEMENTS} images can be judged, not {len(judgements)}")
    return judgements


def trec_lines(answer: Answer, query: str) -> list[str]:
    """Return the lines of a TREC run file, `query Q0 image rank score method`, with strictly falling scores.

    The query is named by its id or its file name without suffix; equal scores differ in the last digit.
    """
    name = query.removeprefix("id:") if query.startswith("id:") else Path(query).stem
    scores = np.array([hit.score for hit in answer.results])
    return run_lines(name, [hit.image_id for hit in answer.results], scores, answer.rerank.method)


def _print_table(answer: Answer) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("rank", "image", "score", "distance", "labels", box=None)
    for hit in answer.results:
        labels = " ".join(f"{key}={value}" for key, value in hit.labels.items())
        table.add_row(str(hit.rank), hit.image_id, f"{hit.score:.4f}", f"{hit.distance:.3f}", escape(labels))
    console = results_console()
    console.print(table)
    reranking, milliseconds = answer.rerank, answer.timings_ms["total"]
    console.print(f"{reranking.method} over the {reranking.scope}, {milliseconds:.1f} ms", style="dim")
    if reranking.reason:
        console.print(f"auto chose {reranking.method}: {escape(reranking.reason)}", style="dim")
    for note in reranking.notes:
        console.print(escape(note), style="yellow")
