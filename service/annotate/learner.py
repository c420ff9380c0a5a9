"""Has the ranker learn in another process while people judge."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from threading import Lock, Thread

from cbir.active.study import learn
from cbir.active.study.study import Study
from cbir.errors import CbirError

log = logging.getLogger(__name__)


class Learner:
    """Thread-safe. state: "idle", "learning", or "failed", after which the next full round is tried."""

    def __init__(self, collection: Path, study: Study) -> None:
        self.collection, self.study = collection, study
        self.state = "idle"
        self._lock = Lock()
        self._failed_after: int | None = None

    def wake(self) -> None:
        """Begin where there is something to learn and nobody does."""
        with self._lock:
            after = self.study.to_learn()
            if self.state == "learning" or after is None or after == self._failed_after:
                return
            self.state = "learning"
        Thread(target=self._learn, args=[after], daemon=True).start()

    def _learn(self, after: int) -> None:
        try:
            problem = self._process(after)
            if problem is None:
                self.study.learnt()
        except (CbirError, OSError) as error:
            problem = str(error)
        with self._lock:
            self.state = "failed" if problem else "idle"
            self._failed_after = after if problem else None
        if problem:
            log.error("learning after round %d failed: %s", after, problem)
        self.wake()

    def _process(self, after: int) -> str | None:
        """Learn in a process that ends with this one; what went wrong, None where nothing did."""
        command = [sys.executable, "-m", "cbir.active.study.learn"]
        command += [str(self.collection), str(self.study.folder), str(after), str(os.getpid())]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode == 0:
            return None
        if done.returncode == learn.NOTHING:
            return "none of the judged images can be read"
        last = next(iter(reversed(done.stderr.splitlines())), "")
        return last.removeprefix("cbir: ") or f"its process ended with {done.returncode}"
