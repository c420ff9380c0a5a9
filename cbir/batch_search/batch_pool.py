"""Searches with many queries in worker processes, so that a file that crashes a decoder stops nothing else."""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from cbir.batch_search.query_list import ID
from cbir.errors import InvalidInput, NotFound, UnreadableImage
from cbir.images import Image, Limits, read_images
from cbir.images.volume import Volume
from cbir.ingest.process_pool import ProcessPool, WorkerDied
from cbir.ingest.query_volume import read_query_volume
from cbir.search import Request, Searcher, Stopwatch, select_frame
from cbir.settings import Settings
from cbir.store import Collection
from cbir.threads import keep_to_one_core

AHEAD = 4  # queries that wait, for each process
SECONDS = 600.0  # for a query

BatchAnswer = dict[str, Any]


def search_batch(
    folder: Path, settings: Settings, request: Request, queries: Sequence[str], frame: int | None, jobs: int
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
    frame : int or None
        Frame of multi-frame files, from 1.
    jobs : int
        Number of processes.

    Yields
    ------
    dict
        `query`, and either `error`, the reason why it cannot be used, or `content`, the hash of the picture,
        `method` and `results`: rank, image_id, score, distance and labels. Ready for JSON.

    Raises
    ------
    InvalidInput
        If the request does not fit the collection.
    """
    prepare = partial(_open_searcher, folder, settings, request, frame)
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


_state: tuple[Searcher, Request, int | None] | None = None


def _open_searcher(folder: Path, settings: Settings, request: Request, frame: int | None) -> None:
    """Initialise a process."""
    global _state
    keep_to_one_core()
    _state = Searcher(Collection(folder), settings), request, frame


def _answer_query(name: str) -> BatchAnswer:
    assert _state is not None, "the initializer ran"
    searcher, request, frame = _state
    try:
        if name.startswith(ID):
            record = searcher.collection.record(name.removeprefix(ID))
            content, answer = record.content_hash, searcher.by_id(record.image_id, request, Stopwatch())
        else:
            image = _read(searcher, Path(name), frame)
            content, answer = image.content_hash, searcher.by_image(image, request, Stopwatch())
    except (UnreadableImage, NotFound) as error:
        return {"query": name, "error": str(error)}
    fields = {"rank", "image_id", "score", "distance", "labels"}
    hits = [hit.model_dump(include=fields) for hit in answer.results]
    return {"query": name, "content": content, "method": answer.rerank.method, "results": hits}


def _read(searcher: Searcher, path: Path, frame: int | None) -> Image | Volume:
    limits, grid = Limits.from_settings(searcher.settings), searcher.collection.profile.volume_grid
    if grid is not None:
        return read_query_volume(path, limits, grid)
    return select_frame(read_images(path, limits=limits), frame, str(path))


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
