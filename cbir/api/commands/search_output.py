"""`cbir search --output`: many queries in one run, and contact sheets, one HTML file."""

import hashlib
import json
import tempfile
import webbrowser
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import cbir
from cbir.errors import CbirError, InvalidInput
from cbir.settings import Settings
from cbir.system.console import StageBars, echo
from cbir.system.files import atomic_text

if TYPE_CHECKING:
    from cbir.api.collection_search import OpenCollection
    from cbir.evaluation.batch import BatchAnswer
    from cbir.images import Image
    from cbir.ingest.query_file import QueryOptions
    from cbir.search import Request
    from cbir.search.answer import Hits
    from cbir.search.contact_sheet import SheetRow

HTML = ".html"

MOST_PICTURES = 5000  # of some 8 KB each


def check_pictures(count: int) -> None:
    """Raise InvalidInput if a sheet would have more pictures than a browser shows with ease."""
    if count > MOST_PICTURES:
        raise InvalidInput(
            f"a page of {count} pictures is too large, at most {MOST_PICTURES}: lower -k, or write a .csv"
        )


def sheet_of_answer(db: "OpenCollection", hits: "Hits", names: list[str], images: "list[Image]") -> str:
    """Return the page of one answer.

    Parameters
    ----------
    db : OpenCollection
    hits : Hits
    names : list of str
        Queries as the user wrote them, ids with "id:", or the text.
    images : list of Image
        Those of them that are files, decoded.
    """
    from cbir.images.scaling import make_thumbnail
    from cbir.search.contact_sheet import SheetRow, render_sheet
    from cbir.search.search_options import ID

    check_pictures(len(hits))
    ids = [name.removeprefix(ID) for name in names if name.startswith(ID)]
    pictures = [*map(make_thumbnail, images), *map(db.thumbnail, ids)]
    note = f"{hits.rerank.method}, {len(hits)} images"
    row = SheetRow(", ".join(names), pictures, hits.results, note)
    return "".join(render_sheet([row], hits.picture, f"Images similar to {', '.join(names)}"))


def write_sheet(
    answers: "Iterable[BatchAnswer]", output: Path, folder: Path, settings: Settings, part: "QueryOptions"
) -> None:
    """Write the page of a batch.

    Parameters
    ----------
    answers : iterable of dict
        As of `search_batch`.
    output : Path
    folder : Path
        Folder of the collection.
    settings : Settings
    part : QueryOptions
        Part of each file that was searched with.
    """
    from cbir.api.collection_search import OpenCollection
    from cbir.search.contact_sheet import render_sheet

    page = atomic_text(output, errors="backslashreplace")  # names that are not UTF-8
    with OpenCollection(folder, settings) as db, page as file:
        rows = _batch_rows(db, answers, part)
        file.writelines(
            render_sheet(rows, lambda hit: _thumbnail(db, hit.image_id), f"Searches in {folder.name}")
        )


def _batch_rows(
    db: "OpenCollection", answers: "Iterable[BatchAnswer]", part: "QueryOptions"
) -> "Iterator[SheetRow]":
    from cbir.search import Hit
    from cbir.search.contact_sheet import SheetRow

    for answer in answers:
        name = answer["query"]
        if "error" in answer:
            yield SheetRow(name, [], [], answer["error"])
            continue
        hits = [Hit.model_construct(**hit) for hit in answer["results"]]
        yield SheetRow(name, [_query_picture(db, name, part)], hits, answer["method"])


def _query_picture(db: "OpenCollection", name: str, part: "QueryOptions") -> bytes | None:
    from cbir.images.scaling import make_thumbnail
    from cbir.search.search_options import ID

    if name.startswith(ID):
        return _thumbnail(db, name.removeprefix(ID))
    try:
        return make_thumbnail(db.read(Path(name), part))
    except CbirError:  # the file has changed meanwhile
        return None


def _thumbnail(db: "OpenCollection", image_id: str) -> bytes | None:
    try:
        return db.thumbnail(image_id)
    except CbirError:  # deleted meanwhile
        return None


def open_page(page: str) -> None:
    """Write a page to a temporary file that only its owner can read, print its path, and open it in the browser."""
    descriptor, name = tempfile.mkstemp(suffix=HTML, prefix="cbir-")
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(page)
    echo(name)
    open_in_browser(Path(name))


def open_in_browser(path: Path) -> None:
    """Open a file in the browser, where there is one."""
    webbrowser.open(path.resolve().as_uri())


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
