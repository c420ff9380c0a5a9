"""Searches with many queries in worker processes, so that a file that crashes a decoder stops nothing else."""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from cbir.errors import InvalidInput, NotFound, UnreadableImage
from cbir.evaluation.batch.query_list import ID
from cbir.images import Limits
from cbir.ingest.process_pool import ProcessPool, WorkerDied
from cbir.ingest.query_file import QueryOptions, read_query_file
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection
from cbir.system.threads import keep_to_one_core

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
