"""Searches in worker processes, each with the collection open and a core to itself.

Much of a re-ranked query is small steps of Python, which threads would run one at a time.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import CbirError, CollectionBusy
from cbir.evaluation.relevance import Candidates
from cbir.images import Image, Limits, read_images
from cbir.ingest.description import DescribedFile, describe_images
from cbir.ingest.process_pool import ProcessPool, WorkerDied
from cbir.search import Request, RerankFacts, Searcher, select_frame
from cbir.settings import Settings
from cbir.store import Collection
from cbir.system.threads import keep_to_one_core

BATCH = 16  # queries sent to a process at once: few enough for progress to move

Task = TypeVar("Task")
Result = TypeVar("Result")


class SearchTask(NamedTuple):
    """A search for an image of the collection, or for a raw vector (d,), with the hash of its picture."""

    image_id: str | None
    raw: NDArray[np.float32] | None
    content: str
    request: Request


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Answers to one query, best first.

    numbers: (k,) int64, of the collection. reported: (k,) scores as reported. ties: number of answers that share
    the score of their predecessor. reranking: method and notes. milliseconds: from the vector to the ranked list.
    """

    numbers: NDArray[np.int64]
    reported: NDArray[np.floating]
    ties: int
    reranking: RerankFacts
    milliseconds: float


class SearchPool:
    """Worker processes; results come in the order of their tasks."""

    def __init__(self, pool: "ProcessPool[_Call, list[Any]]") -> None:
        self._pool = pool

    def search(self, tasks: Sequence[SearchTask], generation: int) -> Iterator[SearchResult]:
        """Run searches; raise CollectionBusy if the collection is no longer of this generation."""
        return self._map(_search, tasks, generation)

    def search_ids(
        self, tasks: Sequence[SearchTask], candidates: Candidates, progress: Callable[[int], None]
    ) -> list[tuple[str, ...]]:
        """Return the ids of the answers, of `candidates`, to each of the tasks; `progress` gets how many are done."""
        answers: list[tuple[str, ...]] = []
        for result in self.search(tasks, candidates.generation):
            positions = candidates.positions(result.numbers).tolist()
            answers.append(tuple(candidates.records[position].image_id for position in positions))
            progress(len(answers))
        return answers

    def describe(self, files: Sequence[Path]) -> Iterator[DescribedFile]:
        """Decode and describe the first frame of each file, as a search does."""
        return self._map(_describe, files)

    def _map(
        self, function: Callable[..., list[Result]], tasks: Sequence[Task], *more: Any
    ) -> Iterator[Result]:
        batches = [tasks[start : start + BATCH] for start in range(0, len(tasks), BATCH)]
        running = deque(self._pool.submit((function, (batch, *more))) for batch in batches)
        try:
            while running:
                yield from running.popleft().result()
        except WorkerDied as error:
            raise CbirError(
                "a process of the evaluation died, perhaps out of memory; try fewer --jobs"
            ) from error


@contextmanager
def open_search_pool(folder: Path, settings: Settings, jobs: int) -> Iterator[SearchPool]:
    """Start processes that search a collection; on exit, tasks that have not begun are dropped.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    settings : Settings
        Settings of the searches.
    jobs : int
        Number of processes.
    """
    with ProcessPool(_run_call, jobs, partial(_open, folder, settings)) as pool:
        yield SearchPool(pool)


_Call = tuple[Callable[..., list[Any]], tuple[Any, ...]]


def _run_call(call: _Call) -> list[Any]:
    function, arguments = call
    return function(*arguments)


_searcher: Searcher | None = None


def _open(folder: Path, settings: Settings) -> None:
    """Initialise a process."""
    global _searcher
    keep_to_one_core()
    _searcher = Searcher(Collection(folder), settings)


def _search(tasks: Sequence[SearchTask], generation: int) -> list[SearchResult]:
    assert _searcher is not None, "the initializer ran"
    results = []
    for image_id, raw, content, request in tasks:
        if image_id is not None:
            raw = _searcher.collection.vector(image_id)
        assert raw is not None, "files are described before the search"
        started = perf_counter()
        ranked = _searcher.rank(raw, content, request)
        milliseconds = (perf_counter() - started) * 1000
        ties = int((ranked.scores[1:] == ranked.scores[:-1]).sum())
        results.append(
            SearchResult(ranked.numbers, ranked.reported, ties, RerankFacts.of_ranked(ranked), milliseconds)
        )
    if _searcher.collection.generation() != generation:
        raise CollectionBusy(
            "the collection changed during the evaluation; run again when nothing writes to it"
        )
    return results


def _describe(files: Sequence[Path]) -> list[DescribedFile]:
    assert _searcher is not None, "the initializer ran"
    limits = Limits.from_settings(_searcher.settings)
    collection = _searcher.collection
    compute = collection.profile.load_descriptor(_searcher.settings.device)
    secret = collection.secret
    return [describe_images(_first_frame(file, limits), compute, secret, str(file), "") for file in files]


def _first_frame(file: Path, limits: Limits) -> Iterator[Image]:
    yield select_frame(read_images(file, limits=limits), None, file.name)
