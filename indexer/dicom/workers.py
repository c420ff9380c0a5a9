"""Processes that decode and describe, and that others take the place of where an instance kills one."""

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from threading import Lock

from indexer.dicom.handing import Handed, handed, received
from indexer.dicom.instance import Described, Fate, Task, describe
from indexer.extract import prepare


class Workers:
    """Describes instances in `jobs` processes. Thread-safe."""

    def __init__(self, task: Task, jobs: int) -> None:
        self.task = task
        self.jobs = jobs
        self._lock = Lock()
        self._alone = Lock()
        self._pool = _pool(jobs)

    def describe(self, data: bytes) -> Described:
        """See `indexer.dicom.instance.describe`; an instance whose decoder crashes is one that is not understood."""
        with handed(data) as given:
            return self._described(given)

    def _described(self, given: Handed) -> Described:
        pool = self._pool
        try:
            return pool.submit(_describe, given, self.task).result()
        except BrokenProcessPool:
            self._replace(pool)
        # Which of those under way did it is told by trying each in a process that no other shares.
        with self._alone, _pool(1) as own:
            try:
                return own.submit(_describe, given, self.task).result()
            except BrokenProcessPool:
                return Described(
                    fate=Fate.unreadable, reason="makes its decoder crash, or needs too much memory"
                )

    def _replace(self, broken: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is broken:
                self._pool = _pool(self.jobs)
        broken.shutdown(wait=False)

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)


def _describe(given: Handed, task: Task) -> Described:
    return describe(received(given), task)


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare)


def _prepare() -> None:
    prepare()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to the whole group; the parent ends us in order
