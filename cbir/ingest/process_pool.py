"""Spawned worker processes that survive a task which kills its process, and tasks that are killed at a deadline."""

import atexit
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from math import inf
from multiprocessing import connection, parent_process, resource_tracker
from multiprocessing.connection import Connection
from queue import Empty, Queue
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from cbir.ingest.process_memory import private_memory
from cbir.system.threads import release_memory

START_SECONDS = 120.0  # for a process to import its modules
END_SECONDS = 5.0  # for an idle process to end by itself
CHECK_SECONDS = 0.1  # between two checks whether a task is still wanted
GRACE_SECONDS = 0.5  # before a task that is not wanted any more is killed: a new process costs more
KEPT_BYTES = 32 * 2**20  # that a task may leave behind before unused memory is returned to the system
EXTENSION_SECONDS = 1.0  # at most this often a task extends its deadline
STOPPING = (signal.SIGINT, signal.SIGTERM)

_context = multiprocessing.get_context("spawn")
_starting = threading.Lock()

Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerDied(Exception):
    """The process died on its task: a crash, or killed for want of memory."""


class WorkerTimedOut(WorkerDied):
    """The process was killed because its task took too long."""


def _always_wanted() -> None:
    pass


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
    seconds : float
        Time that a task may take; then its process is killed. `extend_deadline` gives it more.
    again : tuple of exception types
        A task that raises one of these in a process that has worked before is given to a new one: what earlier tasks
        left behind in a process decides nothing.
    """

    def __init__(
        self,
        function: Callable[[Task], Result],
        jobs: int,
        initializer: Callable[[], None] | None = None,
        seconds: float = inf,
        again: tuple[type[Exception], ...] = (),
    ) -> None:
        self.jobs, self.seconds = jobs, seconds
        self._again = again
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

    def run(self, task: Task, check: Callable[[], None] = _always_wanted) -> Result:
        """Run a task and wait for its result.

        Parameters
        ----------
        task : Task
            Passed to the function.
        check : callable
            Called again and again while the task waits or runs; if it raises, the task is killed.

        Raises
        ------
        WorkerDied, WorkerTimedOut
            If the process died or took too long. Its replacement has started when the call returns.
        Exception
            What the function or `check` raises.
        """
        worker = self._take_worker(check)
        try:
            if not worker.process.is_alive():  # killed while it was idle
                worker = self._replace(worker)
            succeeded, value = worker.call(task, self.seconds, check)
            if not succeeded and isinstance(value, self._again) and worker.tasks > 1:
                worker = self._replace(worker)
                succeeded, value = worker.call(task, self.seconds, check)
        except BaseException as error:
            worker = self._replace(worker)
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

    def _take_worker(self, check: Callable[[], None]) -> "_WorkerProcess":
        while True:
            try:
                return self._idle.get_nowait()
            except Empty:
                if worker := self._new_worker():
                    return worker
            try:
                return self._idle.get(timeout=CHECK_SECONDS)
            except Empty:
                check()

    def _new_worker(self) -> "_WorkerProcess | None":
        with self._lock:
            if self._started == self.jobs:
                return None
            worker = _WorkerProcess(*self._arguments)
            self._started += 1
            return worker

    def _replace(self, worker: "_WorkerProcess") -> "_WorkerProcess":
        """Kill a process and return another that has started: who comes next does not wait for its imports."""
        worker.kill()
        worker = _WorkerProcess(*self._arguments)
        with suppress(WorkerDied, EOFError, OSError):
            worker.wait_ready()
        return worker


@contextmanager
def _hidden_script() -> Iterator[None]:
    """Keep a process from importing the script that starts it, which would run it again without a main guard."""
    with _starting:
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


@contextmanager
def _held_signals() -> Iterator[None]:
    """Let a process inherit that Ctrl-C and SIGTERM wait: they would end it before it can ignore them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # else Python starts it now, and lets them through after that
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _WorkerProcess:
    """A process and the pipe to it. The thread that holds it is the only one to use it."""

    def __init__(self, function: Callable[[Any], Any], initializer: Callable[[], None] | None) -> None:
        self._pipe, child_end = _context.Pipe()
        arguments = child_end, function, initializer
        self.process = _context.Process(target=_serve_tasks, args=arguments, daemon=True)
        with _hidden_script(), _held_signals():
            self.process.start()
        atexit.register(self.process.kill)  # else Python would wait for it
        child_end.close()  # so that the pipe breaks when the process dies
        self._ready = False
        self.tasks = 0  # begun

    def wait_ready(self) -> None:
        """Wait until the process has imported its modules."""
        if not self._ready:
            self._receive(START_SECONDS, _always_wanted)
            self._ready = True

    def call(self, task: Any, seconds: float, check: Callable[[], None]) -> tuple[bool, Any]:
        """Return whether the task succeeded, and its result or exception. EOFError, OSError: the process died."""
        self.wait_ready()
        self.tasks += 1
        self._pipe.send(task)
        return cast(tuple[bool, Any], self._receive(seconds, check))

    def _receive(self, seconds: float, check: Callable[[], None]) -> Any:
        """Return the next reply; raises WorkerTimedOut if none comes in `seconds`, or in those it asks for."""
        started = time.monotonic()
        until = started + seconds
        while True:
            while not self._pipe.poll(max(0.0, min(CHECK_SECONDS, until - time.monotonic()))):
                now = time.monotonic()
                if now - started > GRACE_SECONDS:
                    check()
                if now > until:
                    raise WorkerTimedOut
            reply = self._pipe.recv()
            if not isinstance(reply, float):
                return reply
            until = time.monotonic() + reply

    def end(self) -> None:
        """End the process: an unused one at once, another by force after `END_SECONDS`."""
        self._pipe.close()
        if self._ready:
            self.process.join(END_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self._pipe.close()
        self.process.kill()
        self.process.join()
        atexit.unregister(self.process.kill)


def use_one_thread() -> None:
    """Keep OpenCV, BLAS and torch to one thread: the processes of a pool share the cores."""
    import cv2
    from threadpoolctl import threadpool_limits

    cv2.setNumThreads(1)
    threadpool_limits(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # of torch, which is imported with the first network


def prepare_to_decode() -> None:
    """Keep to one thread, import what reads DICOM, and drop what libpng and libtiff write, which quote damaged files.

    Imports before the first task do not count as memory that an image takes.
    """
    import_module("cbir.images.dicom_decoder")
    use_one_thread()
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), 2)


_parent_pipe: Connection | None = None
_extended = 0.0


def extend_deadline(seconds: float) -> None:
    """Give the task that this process works on `seconds` from now; without effect outside of a pool."""
    global _extended
    if _parent_pipe is not None and time.monotonic() - _extended > min(EXTENSION_SECONDS, seconds / 10):
        _extended = time.monotonic()
        _parent_pipe.send(float(seconds))


def _serve_tasks(
    pipe: Connection, function: Callable[[Any], Any], initializer: Callable[[], None] | None
) -> None:
    global _parent_pipe
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=_exit_with_parent, args=(parent.sentinel,), daemon=True).start()
    if initializer is not None:
        initializer()
    _parent_pipe = pipe
    pipe.send(None)  # ready
    kept = private_memory()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        reply = None
        try:
            reply = True, function(task)
        except Exception as error:
            reply = False, error
        pipe.send(reply)
        task = reply = None  # a failed reply holds the arrays of its task
        if private_memory() > kept + KEPT_BYTES:
            release_memory()
            kept = private_memory()


def _exit_with_parent(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
