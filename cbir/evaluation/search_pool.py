"""Queries in other processes, each with the collection open and one core to itself.

Much of a re-ranked query is small steps of Python, which threads would take in turns.
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

from cbir.descriptors.descriptor import Descriptor
from cbir.errors import CbirError, CollectionBusy
from cbir.images import Image, Limits, read_images
from cbir.ingest.description import DescribeTask, describe_images
from cbir.ingest.process_pool import ProcessPool, WorkerDied
from cbir.search import Request, RerankFacts, Searcher, select_frame
from cbir.settings import Settings
from cbir.store import Collection
from cbir.threads import keep_to_one_core

TOGETHER = 16  # queries a process takes at once: few enough for progress to move

Task = TypeVar("Task")
Result = TypeVar("Result")


class SearchTask(NamedTuple):
    """One search: an image of the collection, or a raw vector (d,), with the hash of its picture."""

    image_id: str | None
    raw: NDArray[np.float32] | None
    content: str
    request: Request


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The answers to one query, best first.

    numbers: (k,) int64, the collection's own. reported: (k,) scores as reported. ties: answers that share the score
    of the one before. reranking: method and notes. milliseconds: from the query's vector to the ranked list.
    """

    numbers: NDArray[np.int64]
    reported: NDArray[np.floating]
    ties: int
    reranking: RerankFacts
    milliseconds: float


@dataclass(frozen=True, eq=False)
class DescribedQuery:
    """A query file: its raw vector (d,), what is known of its picture, or why it cannot be read.

    patient: the key of the patient that DICOM names.
    """

    raw: NDArray[np.float32] | None = None
    content: str = ""
    frame: int | None = None
    burned_in: bool = False
    patient: str | None = None
    refused: str = ""


class SearchPool:
    """The processes. Results come in the order of their tasks."""

    def __init__(self, pool: "ProcessPool[_Call, list[Any]]") -> None:
        self._pool = pool

    def search(self, asked: Sequence[SearchTask], generation: int) -> Iterator[SearchResult]:
        """Answer queries; raises CollectionBusy where the collection is no longer of that generation."""
        return self._each(_search, asked, generation)

    def describe(self, files: Sequence[Path]) -> Iterator[DescribedQuery]:
        """Decode files and describe them, as a search would."""
        return self._each(_describe, files)

    def _each(self, work: Callable[..., list[Result]], tasks: Sequence[Task], *more: Any) -> Iterator[Result]:
        bundles = [tasks[start : start + TOGETHER] for start in range(0, len(tasks), TOGETHER)]
        running = deque(self._pool.submit((work, (bundle, *more))) for bundle in bundles)
        try:
            while running:
                yield from running.popleft().result()
        except WorkerDied as error:
            raise CbirError(
                "a process of the evaluation died, perhaps out of memory; try fewer --jobs"
            ) from error


@contextmanager
def open_search_pool(folder: Path, settings: Settings, jobs: int) -> Iterator[SearchPool]:
    """`jobs` processes on the collection in `folder`; what they have not begun is dropped at the end."""
    with ProcessPool(_run_call, jobs, partial(_open, folder, settings)) as pool:
        yield SearchPool(pool)


_Call = tuple[Callable[..., list[Any]], tuple[Any, ...]]


def _run_call(call: _Call) -> list[Any]:
    function, arguments = call
    return function(*arguments)


_searcher: Searcher | None = None


def _open(folder: Path, settings: Settings) -> None:
    """Prepare a process."""
    global _searcher
    keep_to_one_core()
    _searcher = Searcher(Collection(folder), settings)


def _search(asked: Sequence[SearchTask], generation: int) -> list[SearchResult]:
    assert _searcher is not None, "the initializer ran"
    found = []
    for image_id, raw, content, request in asked:
        if image_id is not None:
            raw = _searcher.collection.vector(image_id)
        assert raw is not None, "files are described before they are searched with"
        started = perf_counter()
        ranked = _searcher.rank(raw, content, request)
        taken = (perf_counter() - started) * 1000
        ties = int((ranked.scores[1:] == ranked.scores[:-1]).sum())
        found.append(SearchResult(ranked.numbers, ranked.reported, ties, ranked.reranking, taken))
    if _searcher.collection.view().generation != generation:
        raise CollectionBusy(
            "the collection was changed while it was evaluated; run again when nothing writes to it"
        )
    return found


def _describe(files: Sequence[Path]) -> list[DescribedQuery]:
    assert _searcher is not None, "the initializer ran"
    limits = Limits(pixels=_searcher.settings.max_pixels)
    task = DescribeTask.for_collection(_searcher.collection, limits, _searcher.settings.device)
    compute = task.load_descriptor()
    return [_describe_query(file, task, compute) for file in files]


def _describe_query(file: Path, task: DescribeTask, compute: Descriptor) -> DescribedQuery:
    def first_frame() -> Iterator[Image]:
        yield select_frame(read_images(file, limits=task.limits), None, file.name)

    described = describe_images(first_frame(), compute, secret=task.secret, source=str(file), source_stamp="")
    if described.refused is not None:
        return DescribedQuery(refused=described.refused)
    (record,), (vector,) = described.records, described.vectors
    return DescribedQuery(vector, record.content_hash, record.frame, record.burned_in, record.patient_key)
