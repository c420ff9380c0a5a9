"""Queries of a batch: files, images of a collection, folders, and lists of files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from cbir.errors import InvalidInput, NotFound
from cbir.ingest.image_files import file_stamp, find_images
from cbir.ingest.manifest import Manifest

ID = "id:"
VOLUMES = (".nii", ".nii.gz", ".zip")


def list_queries(sources: Sequence[str], volumes: bool) -> list[str]:
    """Return the queries that arguments name, each once, in their order.

    Parameters
    ----------
    sources : sequence of str
        id:IMAGE_ID, image files, folders with images below them, and lists: a csv with a column `path`, or a text
        file with a path per line, relative to its folder.
    volumes : bool
        The collection is of CT series: a folder stands for the series in its subfolders, NIfTI files and ZIP
        archives, or without any for its own series.

    Raises
    ------
    NotFound, InvalidInput
        For a file that is missing, or without any query.
    """
    queries = list(dict.fromkeys(query for source in sources for query in _expand(source, volumes)))
    if not queries:
        raise InvalidInput(f"{', '.join(sources)}: no image to search with")
    return queries


def query_stamp(query: str) -> str:
    """Return a text that changes when the file of a query does."""
    path = Path(query)
    return file_stamp(path) if not query.startswith(ID) and path.exists() else ""


def _expand(source: str, volumes: bool) -> Iterator[str]:
    path = Path(source)
    if source.startswith(ID):
        yield source
    elif path.is_dir():
        yield from map(str, _series_in(path) if volumes else find_images([path]))
    elif not path.is_file():
        raise NotFound(f"there is no file or folder {source}")
    elif path.suffix.lower() == ".csv":
        yield from (str(file) for file, _ in Manifest(path).rows())
    elif path.suffix.lower() == ".txt":
        yield from _read_list(path)
    else:
        yield source


def _read_list(path: Path) -> Iterator[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read as a list of files: {error}") from error
    for line in filter(None, map(str.strip, lines)):
        yield line if line.startswith(ID) else str(path.parent / line)


def _series_in(folder: Path) -> list[Path]:
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return [entry for entry in entries if entry.is_dir() or entry.name.lower().endswith(VOLUMES)] or [folder]
