"""`cbir search`."""

import csv
import sys
from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import TypeAdapter, ValidationError
from typer import Argument, Option

from cbir import settings
from cbir.api.commands.search_output import HTML, open_page, search_each, sheet_of_answer
from cbir.errors import InvalidInput
from cbir.search import command_options as options
from cbir.system.console import results_console
from cbir.system.device import Device
from cbir.system.lazy_commands import SearchCommand

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cbir.api.collection_search import OpenCollection
    from cbir.images import Image
    from cbir.ingest.query_file import QueryOptions
    from cbir.search import Answer, HitGroup, Judgement
    from cbir.search.answer import Hits


EMPTY = "no results: the collection is empty, or no image fulfils the conditions; see `cbir collection info`"


app = typer.Typer(add_completion=False)


@app.command(cls=SearchCommand)
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
    exclude_patient: Annotated[
        str | None, Option(help="Leave out the images of this patient.", hidden=True)
    ] = None,
    exclude_own_study: Annotated[
        bool,
        Option(
            help="Leave out images of the study of the query, or of its patient without one.", hidden=True
        ),
    ] = False,
    frame: options.Frame = None,
    relevant: Annotated[
        list[str] | None, Option(help="Id of a relevant image. Repeatable.", hidden=True)
    ] = None,
    not_relevant: Annotated[
        list[str] | None, Option(help="Id of an irrelevant image. Repeatable.", hidden=True)
    ] = None,
    feedback: Annotated[
        Path | None,
        Option(help='JSON file of judgements: a list of {"image_id", "relevance": -1 to 1}.', hidden=True),
    ] = None,
    device: Annotated[
        Device | None, Option(help="cuda is faster for many queries, not for one.", hidden=True)
    ] = None,
    region: Annotated[
        str | None, Option(help="Part to search with, X,Y,WIDTH,HEIGHT in pixels, as 40,60,200,120.")
    ] = None,
    window: Annotated[
        str | None,
        Option(help="CENTER,WIDTH for grey DICOM files, as 40,400; --window=-600,1500.", hidden=True),
    ] = None,
    format: Annotated[
        Literal["table", "json", "csv", "html", "trec"],
        Option(help="Output format; html: a page with pictures, in one file."),
    ] = "table",
    open_browser: Annotated[bool, Option("--open", help="Open a page with pictures in the browser.")] = False,
    output: Annotated[
        Path | None,
        Option(
            help="Search with each image by itself, and write the results to this .csv, .jsonl, .html or TREC .run "
            "file; IMAGE may also be a folder, or a .csv or .txt list of files. Run it again to continue."
        ),
    ] = None,
    jobs: Annotated[
        int | None, Option(min=1, help="Processes, with --output. [default: cores]", hidden=True)
    ] = None,
    score_threshold: Annotated[
        float | None,
        Option(help="Least score of a result; scores are relative to the query and the method.", hidden=True),
    ] = None,
    max_distance: Annotated[
        float | None,
        Option(
            min=0,
            help="Largest distance of a result; comparable between queries of a collection.",
            hidden=True,
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        Option(
            help="patient, study, series or a label: at most --group-size results have the same one.",
            hidden=True,
        ),
    ] = None,
    group_size: Annotated[int, Option(min=1, max=100, help="Most results of a group.", hidden=True)] = 1,
    anywhere: Annotated[
        bool,
        Option(
            help="Images with something like --region anywhere; after `cbir collection regions`.", hidden=True
        ),
    ] = False,
    vector: Annotated[
        Path | None,
        Option(help="NumPy file (.npy) with one raw vector or several, to search with.", hidden=True),
    ] = None,
) -> None:
    """Search for images similar to one or several, optionally with relevance feedback, or for images by text."""
    from cbir.api.collection_search import OpenCollection, build_request
    from cbir.ingest.query_file import QueryOptions
    from cbir.search import MAX_EXAMPLES
    from cbir.search.search_options import ID, REQUEST_VALUES
    from cbir.system.threads import cores

    values = {name: value for name, value in locals().items() if name in REQUEST_VALUES}
    images = images or []
    if text is not None and (images or vector):
        raise InvalidInput("--text: search with it, or with images and --vector")
    if text is None and not images and vector is None:
        raise InvalidInput("search with images, --text or --vector")
    vectors = None if vector is None else read_vectors_file(vector)
    loaded = settings.load(device=device)
    if loaded.device == "auto":  # a GPU takes longer to start than one search on the CPU
        loaded = loaded.model_copy(update={"device": "cpu"})
    part = QueryOptions(
        frame,
        parse_numbers(region, "--region", "X,Y,WIDTH,HEIGHT", int),
        parse_numbers(window, "--window", "CENTER,WIDTH", float),
    )
    request = build_request(**values, parameters=options.parse_parameters(parameter), where=where or [])
    if group_size > 1 and (format == "trec" or (output is not None and output.suffix == ".run")):
        raise InvalidInput(
            "--group-size: a TREC run is in the order of scores, and groups are not; leave it out"
        )
    if jobs is not None and output is None:
        raise InvalidInput("--jobs is for --output; one search uses one process")
    if output is not None:
        if anywhere:
            raise InvalidInput("--anywhere: is for one search; leave out --output")
        if text is not None or vector or relevant or not_relevant or feedback:
            raise InvalidInput(
                "--output is for searches with images; leave out --text, --vector and judgements"
            )
        if format != "table":
            raise InvalidInput(
                "--format is for one search; the name of --output decides the form of its file"
            )
        if open_browser and output.suffix != HTML:
            raise InvalidInput(f"--open shows pages; name an {HTML} file with --output")
        search_each(
            collection, loaded, request, images, output, part=part, jobs=jobs or cores(), show=open_browser
        )
        return
    if open_browser and format not in ("table", "html"):
        raise InvalidInput(f"--open shows a page; leave out --format {format}")
    if len(images) > MAX_EXAMPLES:
        raise InvalidInput(f"at most {MAX_EXAMPLES} examples can be used, not {len(images)}")
    judgements = parse_judgements(relevant or [], not_relevant or [], feedback)
    if anywhere and (text is not None or vector or judgements or len(images) != 1):
        raise InvalidInput("--anywhere: search with one image and --region")
    names = [text] if text is not None else [*images, *([str(vector)] if vector else [])]
    with OpenCollection(collection, loaded) as db:
        if anywhere:
            query = images[0] if images[0].startswith(ID) else Path(images[0])
            hits = db.answer_region(query, part.region, request, replace(part, region=None))
            ids, queries = list[str](), list[Any]()
        else:
            ids, queries = _read_queries(db, images, part)
            request = request.model_copy(update={"examples": ids, "feedback": judgements})
            hits = db.answer(queries, request, text, vectors)
        if open_browser:
            open_page(sheet_of_answer(db, hits, names, queries))
        elif format == "html":
            typer.echo(sheet_of_answer(db, hits, names, queries), nl=False)
        else:
            _print_answer(hits, format, names[0] if text is None else "text")


def _read_queries(
    db: "OpenCollection", texts: list[str], part: "QueryOptions"
) -> "tuple[list[str], list[Image]]":
    """Return the ids to search with, and the images of files; a region of an image with an id is an image too."""
    from cbir.search.search_options import ID

    ids, images = [], []
    for text in texts:
        if not text.startswith(ID):
            images.append(db.read(Path(text), part))
        elif part.names():
            images.append(db.read_part(text.removeprefix(ID), part))
        else:
            ids.append(text.removeprefix(ID))
    if part.names() and not images:
        raise InvalidInput(f"--{part.names()[0]} is for images; leave it out with --text and --vector")
    return ids, images


def read_vectors_file(path: Path) -> "NDArray[np.floating]":
    """Read one or several vectors from a NumPy file; raises InvalidInput for another file."""
    import numpy as np

    try:
        vectors = np.load(path, allow_pickle=False)
    except OSError as error:
        raise InvalidInput(f"--vector {path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise InvalidInput(
            f"--vector {path} is not a NumPy file of numbers; write one with numpy.save"
        ) from None
    if not isinstance(vectors, np.ndarray) or vectors.dtype.kind not in "fiu":
        raise InvalidInput(f"--vector {path} does not hold one array of numbers; write one with numpy.save")
    return vectors


def parse_numbers(text: str | None, option: str, form: str, kind: Callable[[str], Any]) -> Any:
    """Parse numbers with commas between them.

    Parameters
    ----------
    text : str or None
        None for no value.
    option : str
        Its name, for messages.
    form : str
        Names of the numbers, which there must be as many of.
    kind : type
        int or float.

    Returns
    -------
    tuple or None
    """
    if text is None:
        return None
    try:
        values = tuple(map(kind, text.split(",")))
        if len(values) != form.count(",") + 1 or not all(map(isfinite, values)):
            raise ValueError
    except ValueError:
        raise InvalidInput(f"{option} {text} is not of the form {form}") from None
    return values


def _print_answer(hits: "Hits", format: str, query: str) -> None:
    from cbir.evaluation.batch import csv_columns, csv_rows

    if format == "json":
        typer.echo(hits.model_dump_json())
    elif format == "trec":
        typer.echo("\n".join(trec_lines(hits, query)), nl=bool(hits.results))
    elif format == "csv":
        rows = csv.writer(sys.stdout, lineterminator="\n")
        grouped = hits.grouping is not None
        rows.writerow(csv_columns(grouped))
        rows.writerows(csv_rows({"query": query, "results": [hit.model_dump() for hit in hits]}, grouped))
    else:
        _print_table(hits)


def parse_judgements(relevant: list[str], irrelevant: list[str], file: Path | None) -> "list[Judgement]":
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
    from cbir.search import MAX_JUDGEMENTS, Judgement

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


def trec_lines(answer: "Answer", query: str) -> list[str]:
    """Return the lines of a TREC run file, `query Q0 image rank score method`, with strictly falling scores.

    The query is named by its id or its file name without suffix; equal scores differ in the last digit.
    """
    import numpy as np

    from cbir.evaluation.run_files import run_lines

    name = query.removeprefix("id:") if query.startswith("id:") else Path(query).stem
    scores = np.array([hit.score for hit in answer.results])
    return run_lines(name, [hit.image_id for hit in answer.results], scores, answer.rerank.method)


def _group_text(group: "HitGroup") -> str:
    """Return the key of a group, and how many more images it has."""
    return " ".join(filter(None, (group.key, f"+{group.more} more" if group.more else "")))


def _print_table(answer: "Answer") -> None:
    from rich.table import Table

    grouped = ["group"] if answer.grouping else []
    table = Table("rank", "image", "score", "distance", *grouped, "labels", "file", box=None)
    for hit in answer.results:
        labels = " ".join(f"{key}={value}" for key, value in hit.labels.items())
        table.add_row(
            str(hit.rank),
            hit.image_id,
            f"{hit.score:z.4f}",
            f"{hit.distance:.3f}",
            *([_group_text(hit.group)] if hit.group else []),
            labels,
            hit.source or "",
        )
    console = results_console()
    if not answer.results:
        console.print(EMPTY, style="yellow")
        return
    console.print(table)
    reranking, milliseconds = answer.rerank, answer.timings_ms["total"]
    console.print(f"{reranking.method} over the {reranking.scope}, {milliseconds:.1f} ms", style="dim")
    if reranking.reason:
        console.print(f"auto chose {reranking.method}: {reranking.reason}", style="dim")
    if answer.query.outlier:
        console.print(
            "nothing in the collection looks like the query image: 99 of 100 images have a nearer neighbour; "
            "scores are relative to the best result",
            style="yellow",
        )
    for note in reranking.notes:
        console.print(note, style="yellow")
