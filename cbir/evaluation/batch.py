"""Search with many images in one run: queries, worker processes, files of answers."""

import csv
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np

from cbir.errors import InvalidInput, NotFound, UnreadableImage
from cbir.evaluation.qrels import unique_names
from cbir.evaluation.run_files import run_lines
from cbir.images import Limits
from cbir.ingest.image_files import file_stamp, find_images
from cbir.ingest.manifest import Manifest
from cbir.ingest.process_pool import ProcessPool, WorkerDied
from cbir.ingest.query_file import QueryOptions, read_query_file
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection
from cbir.system.files import atomic_text, harmless_cell, open_private, try_lock
from cbir.system.threads import keep_to_one_core

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


AHEAD = 4  # queries that wait, for each process

SECONDS = 600.0  # for a query

BatchAnswer = dict[str, Any]


def search_batch(
    folder: Path, settings: Settings, request: Request, queries: Sequence[str], part: QueryOptions, jobs: int
) -> Iterator[BatchAnswer]:
    """Yield the answer to each query, in their order.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    settings : Settings
    request : Request
        Of every search.
    queries : sequence of str
        As `list_queries` returns them.
    part : QueryOptions
        Part of each file.
    jobs : int
        Number of processes.

    Yields
    ------
    dict
        `query`, and either `error`, the reason why it cannot be used, or `content`, the hash of the picture,
        `method` and `results`: rank, image_id, score, distance, labels and source, with groups also `group`. Ready
        for JSON.

    Raises
    ------
    InvalidInput
        If the request does not fit the collection.
    """
    prepare = partial(_open_searcher, folder, settings, request, part)
    with ProcessPool(_answer_query, jobs, prepare, SECONDS) as pool:
        names = iter(queries)
        running = deque((name, pool.submit(name)) for name in islice(names, AHEAD * jobs))
        while running:
            name, future = running.popleft()
            try:
                yield future.result()
            except WorkerDied:
                yield {"query": name, "error": "its process died, or took too long; repair the file"}
            running.extend((name, pool.submit(name)) for name in islice(names, 1))


_state: tuple[Searcher, Request, QueryOptions] | None = None


def _open_searcher(folder: Path, settings: Settings, request: Request, part: QueryOptions) -> None:
    """Initialise a process."""
    global _state
    keep_to_one_core()
    _state = Searcher(Collection(folder), settings), request, part


def _answer_query(name: str) -> BatchAnswer:
    assert _state is not None, "the initializer ran"
    searcher, request, part = _state
    try:
        if name.startswith(ID):
            record = searcher.collection.record(name.removeprefix(ID))
            content, answer = record.content_hash, searcher.by_id(record.image_id, request, Stopwatch())
        else:
            limits, grid = Limits.from_settings(searcher.settings), searcher.collection.profile.volume_grid
            image = read_query_file(Path(name), limits, grid, part)
            content, answer = image.content_hash, searcher.by_image(image, request, Stopwatch())
    except (UnreadableImage, NotFound, InvalidInput) as error:
        return {"query": name, "error": str(error)}
    fields = {"rank", "image_id", "score", "distance", "labels", "source"}
    fields |= {"group"} if request.group_by else set()
    hits = [hit.model_dump(include=fields) for hit in answer.results]
    return {"query": name, "content": content, "method": answer.rerank.method, "results": hits}


def check_request(folder: Path, settings: Settings, request: Request) -> dict[str, Any]:
    """Return what decides the answers of a collection to a request, after a search that shows that it fits.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    settings : Settings
    request : Request

    Raises
    ------
    InvalidInput
        If the request does not fit, or the collection is empty.
    """
    with Collection(folder) as collection:
        record = next((record for _, record in collection.iterate()), None)
        if record is None:
            raise InvalidInput(f"{folder} has no images; index some first")
        first = request.model_copy(update={"k": 1})
        Searcher(collection, settings).by_id(record.image_id, first, Stopwatch())
        info = collection.info()
    return {name: info[name] for name in ("created", "generation", "profile_hash")}


SUFFIX = ".unfinished"

FORMATS = (".csv", ".jsonl", ".run")

COLUMNS = ("query", "rank", "image_id", "score", "distance", "labels", "source")

GROUP_COLUMNS = ("group", "more")  # of searches with groups, after the others


class AnswerJournal:
    """Lines of JSON beside the output: the terms of the batch, then an answer each, in the order of the queries.

    A journal of the same terms is continued; another one is begun again. One process writes it at a time. `done`:
    number of answers in it.
    """

    def __init__(self, output: Path, terms: Mapping[str, Any]) -> None:
        self.path = output.with_name(output.name + SUFFIX)
        self.done = 0
        terms = json.loads(json.dumps(terms))  # tuples become lists, as they are read
        try:
            self._file = open(  # noqa: SIM115 - stays open
                self.path, "a", encoding="utf-8", newline="\n", opener=open_private
            )
            if not try_lock(self._file.fileno()):
                self._file.close()
                raise InvalidInput(f"another search writes {output}; wait for it, or name another file")
            complete = self._complete_bytes(terms)
            self._file.truncate(complete)
            if not complete:
                self._file.write(json.dumps(terms) + "\n")
        except OSError as error:
            raise InvalidInput(f"{output} cannot be written: {error.strerror}") from error

    def _complete_bytes(self, terms: Mapping[str, Any]) -> int:
        """Count the complete lines of a journal, and return their bytes; 0 if there is none of these terms."""
        with self.path.open("rb") as file:
            try:
                if json.loads(file.readline()) != terms:
                    return 0
            except ValueError:
                return 0
            complete = file.tell()
            for line in file:
                if not _is_answer(line):  # cut, or damaged: what follows is searched again
                    break
                complete += len(line)
                self.done += 1
        return complete

    def add(self, answer: BatchAnswer) -> None:
        """Append an answer."""
        self._file.write(json.dumps(answer) + "\n")
        self._file.flush()
        self.done += 1

    def answers(self) -> Iterator[BatchAnswer]:
        """Yield all answers so far."""
        with self.path.open(encoding="utf-8") as file:
            file.readline()
            yield from map(json.loads, file)

    def remove(self) -> None:
        """Remove the journal, once its answers are elsewhere."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _is_answer(line: bytes) -> bool:
    try:
        answer = json.loads(line)
    except ValueError:
        return False
    return line.endswith(b"\n") and isinstance(answer, dict) and "query" in answer


def csv_columns(grouped: bool) -> tuple[str, ...]:
    """Return the names of the columns, for searches with or without groups."""
    return (*COLUMNS, *GROUP_COLUMNS) if grouped else COLUMNS


def write_answers(journal: AnswerJournal, output: Path, grouped: bool = False) -> None:
    """Write the answers of a journal as csv, lines of JSON, or a TREC run, by the suffix of `output`.

    Queries that cannot be used are in lines of JSON alone. A run names queries by the hash of their picture, as
    `cbir evaluate run` does.

    Parameters
    ----------
    journal : AnswerJournal
        Answers of all queries.
    output : Path
        File that is written.
    grouped : bool
        Whether the searches had groups, which are columns of a csv.
    """
    with atomic_text(output, errors="backslashreplace") as file:  # names that are not UTF-8
        if output.suffix == ".jsonl":
            file.writelines(json.dumps(answer) + "\n" for answer in journal.answers())
        elif output.suffix == ".csv":
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(csv_columns(grouped))
            rows.writerows(row for answer in journal.answers() for row in csv_rows(answer, grouped))
        else:
            names = iter(
                unique_names([answer["content"] for answer in journal.answers() if "content" in answer])
            )
            for answer in journal.answers():
                if "content" in answer:
                    file.writelines(f"{line}\n" for line in _trec_lines(next(names), answer))


def csv_rows(answer: BatchAnswer, grouped: bool = False) -> Iterator[list[Any]]:
    """Yield the cells of `csv_columns` for each hit of an answer."""
    for hit in answer.get("results", ()):
        labels = " ".join(f"{key}={value}" for key, value in hit["labels"].items())
        values = [hit[name] for name in ("rank", "image_id", "score", "distance")]
        values = [answer["query"], *values, labels, hit["source"]]
        values += [hit["group"]["key"] or "", hit["group"]["more"]] if grouped else []
        yield [harmless_cell(value) for value in values]


def _trec_lines(name: str, answer: BatchAnswer) -> list[str]:
    images = [hit["image_id"] for hit in answer["results"]]
    return run_lines(name, images, np.array([hit["score"] for hit in answer["results"]]), answer["method"])
