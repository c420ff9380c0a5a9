"""Processes that decode and describe, and that others take the place of where an instance kills one."""

import multiprocessing
import signal
from multiprocessing.connection import Connection
from queue import Queue

from indexer.dicom.handing import Handed, handed, received
from indexer.dicom.instance import Described, Fate, Task, describe
from indexer.extract import prepare

CRASHED = Described(fate=Fate.unreadable, reason="makes its decoder crash, or needs too much memory")
END_SECONDS = 5.0

_context = multiprocessing.get_context("spawn")


class Workers:
    """Describes instances in `jobs` processes, each one at a time. Thread-safe."""

    def __init__(self, task: Task, jobs: int) -> None:
        self.task = task
        self.jobs = jobs
        self._idle: Queue[_Worker] = Queue()
        for _ in range(jobs):
            self._idle.put(_Worker(task))

    def describe(self, data: bytes) -> Described:
        """See `indexer.dicom.instance.describe`; an instance whose decoder crashes is one that is not understood."""
        with handed(data) as given:
            worker = self._idle.get()
            try:
                return worker.describe(given)
            except (EOFError, OSError):
                worker.end()
                worker = _Worker(self.task)
                return CRASHED
            finally:
                self._idle.put(worker)

    def close(self) -> None:
        """End the processes, after what they are at."""
        for _ in range(self.jobs):
            self._idle.get().end()


class _Worker:
    """A process, and the way to it: the thread that has it talks to it without others between."""

    def __init__(self, task: Task) -> None:
        self.way, other = _context.Pipe()
        self.process = _context.Process(target=_work, args=(other, task), daemon=True)
        self.process.start()
        other.close()  # so that the way ends with the process

    def describe(self, given: Handed) -> Described:
        """Raises EOFError or OSError where the process dies."""
        self.way.send(given)
        described = self.way.recv()
        assert isinstance(described, Described)
        return described

    def end(self) -> None:
        self.way.close()
        self.process.join(END_SECONDS)
        self.process.kill()


def _work(way: Connection, task: Task) -> None:
    prepare()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to the whole group; the parent ends us in order
    while True:
        try:
            given = way.recv()
        except (EOFError, OSError):
            return
        way.send(describe(received(given), task))
