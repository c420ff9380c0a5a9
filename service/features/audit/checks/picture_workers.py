"""Work on the pictures of a collection on all cores: by threads for few images, by processes for many."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cbir.errors import CbirError
from cbir.images.suppress_logs import suppress_decoder_logs
from cbir.ingest.process_pool import ProcessPool, WorkerDied, use_one_thread_silently
from cbir.store import Collection
from cbir.system.cancellation import checkpoint
from cbir.system.threads import OneBlasThread, cores
from service.features.audit.checks.duplicate_pictures import PictureReader

# Threads wait for Python's lock for almost half of the time, but processes take two seconds to start.
LEAST_FOR_PROCESSES = 5000  # images
AHEAD = 4  # tasks that wait, for each core

Task = TypeVar("Task")
Result = TypeVar("Result")
Submit = Callable[[Callable[[PictureReader, Any], Any], Any], Future[Any]]


class PictureWorkers:
    """Threads or processes, each with a reader of the pictures."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit

    def map(self, work: Callable[[PictureReader, Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield work(reader, task) of each task in their order, with a checkpoint before each.

        `work` is a function of a module; tasks and results can be pickled. Raises CbirError if a process dies.
        """
        running = deque[Future[Result]]()
        for task in tasks:
            running.append(self._submit(work, task))
            if len(running) > AHEAD * cores():
                yield _wait(running.popleft())
        while running:
            yield _wait(running.popleft())


def _wait(future: Future[Result]) -> Result:
    checkpoint()
    try:
        return future.result()
    except WorkerDied as error:
        raise CbirError(
            "a process of the audit died, perhaps out of memory; run the audit again when more is free"
        ) from error


@contextmanager
def picture_workers(reader: PictureReader, images: int) -> Iterator[PictureWorkers]:
    """Start threads or processes for so many images; on exit, tasks that have not begun are dropped."""
    if images < LEAST_FOR_PROCESSES or cores() == 1:
        executor = ThreadPoolExecutor(cores())
        try:
            with OneBlasThread():
                yield PictureWorkers(lambda work, task: executor.submit(work, reader, task))
        finally:
            executor.shutdown(cancel_futures=True)
        return
    call = partial(_Call, reader.collection.folder, reader.max_pixels)
    with ProcessPool(_run, cores(), use_one_thread_silently) as pool:
        yield PictureWorkers(lambda work, task: pool.submit(call(work, task)))


class _Call(NamedTuple):
    folder: Path
    max_pixels: int
    work: Callable[[PictureReader, Any], Any]
    task: Any


@cache  # opened by the first task, whose error says why it cannot be
def _open_reader(folder: Path, max_pixels: int) -> PictureReader:
    return PictureReader(Collection(folder), max_pixels)


def _run(call: _Call) -> Any:
    with suppress_decoder_logs():  # once: each time, logging forgets which of its loggers are enabled
        return call.work(_open_reader(call.folder, call.max_pixels), call.task)
