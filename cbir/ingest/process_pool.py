"""Spawned worker processes that survive a task which kills its process."""

import atexit
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection
from queue import Empty, Queue
from typing import Any, Generic, TypeVar, cast

END_SECONDS = 5.0  # for an idle process to end by itself

_context = multiprocessing.get_context("spawn")

Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerDied(Exception):
    """The process died on its task: a crash, or killed for want of memory."""


class ProcessPool(Generic[Task, Result]):
    """Calls `function(task)` in up to `jobs` spawned processes. Thread-safe.

    A task whose process dies raises WorkerDied; the others go on, and a new process replaces the dead one.
    Processes start when first needed, ignore SIGINT and SIGTERM (Ctrl-C and `kill` reach the whole group; the
    parent ends them in order), and never outlive their parent.

    Parameters
    ----------
    function : callable
        Picklable, as are its tasks and results.
    jobs : int
        Greatest number of processes.
    initializer : callable, optional
        Called in every process before its first task.
    """

    def __init__(
        self, function: Callable[[Task], Result], jobs: int, initializer: Callable[[], None] | None = None
    ) -> None:
        self.jobs = jobs
        self._arguments = function, initializer
        self._idle: Queue[_WorkerProcess] = Queue()
        self._started = 0
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> "ProcessPool[Task, Result]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start all processes now."""
        while worker := self._new_worker():
            self._idle.put(worker)

    def run(self, task: Task) -> Result:
        """Run a task and wait for its result. Raises what the function raises, or WorkerDied."""
        worker = self._take_worker()
        try:
            succeeded, value = worker.call(task)
        except BaseException as error:
            worker.end()
            worker = _WorkerProcess(*self._arguments)
            if isinstance(error, EOFError | OSError):
                raise WorkerDied from error
            raise
        finally:
            self._idle.put(worker)
        if succeeded:
            return cast(Result, value)
        raise value

    def submit(self, task: Task) -> "Future[Result]":
        """Queue a task: first in, first started."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.jobs)
        return self._threads.submit(self.run, task)

    def close(self) -> None:
        """Drop tasks that have not begun, wait for those that run, and end the processes."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for _ in range(self._started):
            self._idle.get().end()

    def _take_worker(self) -> "_WorkerProcess":
        try:
            return self._idle.get_nowait()
        except Empty:
            return self._new_worker() or self._idle.get()

    def _new_worker(self) -> "_WorkerProcess | None":
        with self._lock:
            if self._started == self.jobs:
                return None
            worker = _WorkerProcess(*self._arguments)
            self._started += 1
            return worker


class _WorkerProcess:
    """A process and the pipe to it. The thread that holds it is the only one to use it."""

    def __init__(self, function: Callable[[Any], Any], initializer: Callable[[], None] | None) -> None:
        self._pipe, child_end = _context.Pipe()
        arguments = child_end, function, initializer
        self.process = _context.Process(target=_serve_tasks, args=arguments, daemon=True)
        self.process.start()
        atexit.register(self.process.kill)  # else Python would wait for it
        child_end.close()  # so that the pipe breaks when the process dies

    def call(self, task: Any) -> tuple[bool, Any]:
        """Return whether the task succeeded, and its result or exception. EOFError, OSError: the process died."""
        self._pipe.send(task)
        return cast(tuple[bool, Any], self._pipe.recv())

    def end(self) -> None:
        """End the process, by force after `END_SECONDS`."""
        self._pipe.close()
        self.process.join(END_SECONDS)
        self.process.kill()
        atexit.unregister(self.process.kill)


def use_one_thread() -> None:
    """Keep OpenCV, BLAS and torch to one thread: the processes of a pool share the cores."""
    import cv2
    from threadpoolctl import threadpool_limits

    cv2.setNumThreads(1)
    threadpool_limits(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # of torch, which is imported with the first network


def _serve_tasks(
    pipe: Connection, function: Callable[[Any], Any], initializer: Callable[[], None] | None
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=_exit_with_parent, args=(parent.sentinel,), daemon=True).start()
    if initializer is not None:
        initializer()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            reply: tuple[bool, Any] = True, function(task)
        except Exception as error:
            reply = False, error
        pipe.send(reply)


def _exit_with_parent(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
