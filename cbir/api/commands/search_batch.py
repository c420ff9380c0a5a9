"""`cbir search --output`: many queries in one run."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import cbir
from cbir.api.commands.search_sheet import HTML, check_pictures, open_in_browser, write_sheet
from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.system.console import StageBars, echo

if TYPE_CHECKING:
    from cbir.ingest.query_file import QueryOptions
    from cbir.search import Request

SOME_REFUSED = 3  # exit code, as of cbir index
LISTED = 10  # queries in messages


def search_each(
    collection: Path,
    settings: Settings,
    request: "Request",
    sources: Sequence[str],
    output: Path,
    *,
    part: "QueryOptions",
    jobs: int,
    show: bool = False,
) -> None:
    """Search with each image that the arguments name, and write the answers.

    Parameters
    ----------
    collection : Path
        Folder of the collection.
    settings : Settings
    request : Request
        Of every search, without examples and judgements.
    sources : sequence of str
        See `list_queries`.
    output : Path
        .csv, .jsonl, .run or .html. An interrupted run leaves OUTPUT.unfinished, and the same command continues it.
    part : QueryOptions
        Part of each file.
    jobs : int
        Number of processes.
    show : bool
        Open the output in the browser.

    Raises
    ------
    InvalidInput, NotFound
    """
    from cbir.evaluation.batch import (
        FORMATS,
        ID,
        AnswerJournal,
        check_request,
        csv_columns,
        list_queries,
        query_stamp,
        search_batch,
        write_answers,
    )
    from cbir.evaluation.runs import DECISIVE_SETTINGS
    from cbir.store import Collection
    from cbir.store.records.records import hash_patient

    if output.suffix not in (*FORMATS, HTML):
        raise InvalidInput(f"--output {output} must end with {', '.join((*FORMATS, HTML))}")
    if not output.parent.is_dir():
        raise InvalidInput(f"--output {output} cannot be written: there is no folder {output.parent}")
    if output.is_dir():
        raise InvalidInput(f"--output {output} is a folder; name a file")
    with Collection(collection) as opened:
        grid = opened.profile.volume_grid
        patient = hash_patient(opened.secret, request.exclude_patient or "")  # the journal has no identifier
    part.check_volume(grid)
    queries = list_queries(sources, volumes=grid is not None)
    if part.names() and any(query.startswith(ID) for query in queries):
        raise InvalidInput(f"--{part.names()[0]} with --output is for files; leave out the ids")
    if output.suffix == HTML:
        check_pictures(len(queries) * (request.k + 1))
    settings = settings.model_copy(update={"show_sources": True})
    stamps = json.dumps([(query, query_stamp(query)) for query in queries])
    terms = {
        "cbir": cbir.__version__,
        "collection": check_request(collection, settings, request),
        "settings": settings.model_dump(mode="json", include=DECISIVE_SETTINGS | {"rerank"}),
        "request": request.model_dump(mode="json") | {"exclude_patient": patient},
        "part": asdict(part),
        "columns": csv_columns(request.group_by is not None),
        "queries": hashlib.sha256(stamps.encode(errors="surrogateescape")).hexdigest(),
    }
    with AnswerJournal(output, terms) as journal, StageBars() as bars:
        bars.show("searching", journal.done, len(queries))
        for answer in search_batch(collection, settings, request, queries[journal.done :], part, jobs):
            journal.add(answer)
            bars.show("searching", journal.done, len(queries))
        refused = [answer for answer in journal.answers() if "error" in answer]
        if len(refused) == len(queries):
            journal.remove()
            raise InvalidInput(
                f"none of the {len(queries)} queries can be used; the first one: "
                f"{refused[0]['query']}: {refused[0]['error']}"
            )
        if output.suffix == HTML:
            write_sheet(journal.answers(), output, collection, settings, part)
        else:
            write_answers(journal, output, request.group_by is not None)
        journal.remove()
    echo(f"{len(queries) - len(refused)} queries answered: {output}")
    if show:
        open_in_browser(output)
    for answer in refused[:LISTED]:
        echo(f"{answer['query']}: {answer['error']}", err=True)
    if len(refused) > LISTED:
        echo(f"and {len(refused) - LISTED} more that cannot be used", err=True)
    if refused:
        raise typer.Exit(SOME_REFUSED)
