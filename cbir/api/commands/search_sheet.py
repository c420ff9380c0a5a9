"""`cbir search` as a contact sheet: one HTML file."""

import tempfile
import webbrowser
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cbir.errors import CbirError, InvalidInput
from cbir.settings import Settings
from cbir.system.atomic import atomic_text
from cbir.system.console.printable import echo

if TYPE_CHECKING:
    from cbir.api.collection_search import OpenCollection
    from cbir.evaluation.batch.batch_pool import BatchAnswer
    from cbir.images import Image
    from cbir.ingest.query_file import QueryOptions
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
    from cbir.images.thumbnail import make_thumbnail
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
    from cbir.images.thumbnail import make_thumbnail
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
