"""Runs extraction in parallel, and survives a file that kills its process."""

import multiprocessing
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from indexer.extract import Extracted, Task, extract, prepare

CHUNK = 32  # files a process takes at once
AHEAD = 8  # chunks waiting for each process: busy through a commit, and memory bounded


def extract_all(paths: Iterable[Path], task: Task, jobs: int) -> Generator[Extracted, None, None]:
    """Extract every file in `jobs` processes; results come as they are ready.

    Where a process dies (a decoder crashed), the files it may have held are tried again one by one, and the one
    that kills its process is refused.
    """
    chunks = _chunks(paths)
    suspects: deque[Path] = deque()
    while True:
        pool = _pool(jobs)
        try:
            yield from _one_by_one(pool, suspects, task)
            yield from _side_by_side(pool, chunks, task, jobs, suspects)
            return
        except BrokenProcessPool:
            continue
        finally:
            pool.shutdown(cancel_futures=True)


def _pool(jobs: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=prepare)


def _side_by_side(
    pool: ProcessPoolExecutor,
    chunks: Iterator[list[Path]],
    task: Task,
    jobs: int,
    suspects: deque[Path],
) -> Iterator[Extracted]:
    running: dict[Future[list[Extracted]], list[Path]] = {}
    more = True
    while more or running:
        while more and len(running) < AHEAD * jobs:
            chunk = next(chunks, None)
            more = chunk is not None
            if chunk:
                try:
                    running[pool.submit(extract, chunk, task)] = chunk
                except BrokenProcessPool:
                    suspects.extend(chunk)
                    _collect(running, suspects)
                    raise
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in [one for one in running if one in finished]:  # a set has no order; images keep theirs
            if isinstance(future.exception(), BrokenProcessPool):
                _collect(running, suspects)
                raise BrokenProcessPool
            del running[future]
            yield from future.result()


def _collect(running: dict[Future[list[Extracted]], list[Path]], suspects: deque[Path]) -> None:
    """Put aside the files of every chunk that did not come back."""
    for chunk in running.values():
        suspects.extend(chunk)


def _one_by_one(pool: ProcessPoolExecutor, suspects: deque[Path], task: Task) -> Iterator[Extracted]:
    while suspects:
        try:
            result = pool.submit(extract, [suspects[0]], task).result()
        except BrokenProcessPool:
            yield Extracted(
                suspects.popleft(), refused="its process died on it: a decoder crashed, or memory ran out"
            )
            raise
        suspects.popleft()
        yield from result


def _chunks(paths: Iterable[Path]) -> Iterator[list[Path]]:
    chunk: list[Path] = []
    for path in paths:
        chunk.append(path)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
