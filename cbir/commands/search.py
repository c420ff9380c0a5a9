"""`cbir search`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from pydantic import TypeAdapter, ValidationError

from cbir import settings
from cbir.errors import InvalidInput
from cbir.evaluation.trec import run_lines
from cbir.images import Limits, read_images
from cbir.search import (
    MOST_EXAMPLES,
    MOST_JUDGEMENTS,
    Answer,
    Judgement,
    Request,
    Searcher,
    Stopwatch,
    query_frame,
)
from cbir.store import Collection


class Device(StrEnum):
    """Where the collection is searched."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Format(StrEnum):
    """How the answer is printed."""

    table = "table"
    json = "json"
    trec = "trec"


def search(
    images: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE...", help="Image files, or id:IMAGE_ID of the collection's; several examples."
        ),
    ],
    collection: Annotated[Path, typer.Option(help="Folder of the collection.")],
    k: Annotated[int, typer.Option("-k", help="Number of answers.", min=1)] = 20,
    rerank: Annotated[str | None, typer.Option(help="auto, none, eprf ...; a wrong name lists all.")] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the re-ranker, e.g. P=9.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only images with this label, e.g. modality=CT.")
    ] = None,
    exclude_patient: Annotated[str | None, typer.Option(help="Leave this patient's images out.")] = None,
    frame: Annotated[int | None, typer.Option(help="Frame of a multi-frame file, from 1.")] = None,
    relevant: Annotated[list[str] | None, typer.Option(help="Id of an image that is relevant.")] = None,
    not_relevant: Annotated[list[str] | None, typer.Option(help="Id of an image that is not.")] = None,
    feedback: Annotated[
        Path | None, typer.Option(help='Judgements: a JSON list of {"image_id", "relevance": -1 to 1}.')
    ] = None,
    device: Annotated[
        Device | None, typer.Option(help="auto, cpu or cuda; cuda pays for many queries, not for one.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How the answer is printed.")] = Format.table,
) -> None:
    """Find the images most like one image or several, and learn from judgements of answers."""
    in_force = settings.load(device=device and device.value)
    if in_force.device == "auto":  # a device takes longer to start than one search on the processor
        in_force = in_force.model_copy(update={"device": "cpu"})
    if len(images) > MOST_EXAMPLES:
        raise InvalidInput(f"at most {MOST_EXAMPLES} examples can be searched with, not {len(images)}")
    request = Request(
        k=k,
        rerank=rerank,
        parameters=dict(_parameter(text) for text in parameter or []),
        where=where or [],
        exclude_patient=exclude_patient,
        examples=[text.removeprefix("id:") for text in images if text.startswith("id:")],
        feedback=judgements(relevant or [], not_relevant or [], feedback),
    )
    files = [text for text in images if not text.startswith("id:")]
    if frame is not None and not files:
        raise InvalidInput("--frame is for files; an image of the collection is one frame already")
    with Collection(collection) as opened:
        searcher, watch = Searcher(opened, in_force), Stopwatch()
        limits = Limits(pixels=in_force.max_pixels)
        queries = [query_frame(read_images(Path(file), limits=limits), frame, file) for file in files]
        answer = searcher.by_examples(queries, request, watch)
    if format is Format.json:
        typer.echo(answer.model_dump_json())
    elif format is Format.trec:
        typer.echo("\n".join(trec_lines(answer, images[0])), nl=bool(answer.results))
    else:
        _print_table(answer)


def judgements(relevant: list[str], irrelevant: list[str], file: Path | None) -> list[Judgement]:
    """What the options and the file say; raises InvalidInput."""
    said = [Judgement(image_id=name.removeprefix("id:"), relevance=1.0) for name in relevant]
    said += [Judgement(image_id=name.removeprefix("id:"), relevance=-1.0) for name in irrelevant]
    if file is not None:
        try:
            said += TypeAdapter(list[Judgement]).validate_json(file.read_bytes())
        except OSError as error:
            raise InvalidInput(f"--feedback {file} cannot be read: {error.strerror}") from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidInput(f"--feedback {file}: {where}: {first['msg']}".replace(": : ", ": ")) from None
    if len(said) > MOST_JUDGEMENTS:
        raise InvalidInput(f"at most {MOST_JUDGEMENTS} images can be judged, not {len(said)}")
    return said


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
