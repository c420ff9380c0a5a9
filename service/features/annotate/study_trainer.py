"""Training of the ranker in another process while people judge."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from threading import Lock, Thread
from typing import Literal

from cbir.errors import CbirError
from service.features.annotate.study import study_training
from service.features.annotate.study.study import Study

log = logging.getLogger(__name__)

RETRY_ENTRIES = 50  # answers after which a failed training is tried again within a round


class StudyTrainer:
    """Trains the ranker of a study after each complete round. Thread-safe.

    `state` is "idle", "learning", or "failed"; after a failure, training is tried again after the next round or some
    more grades or, once the study is finished, with the next answer.
    """

    def __init__(self, collection: Path, study: Study) -> None:
        self.collection, self.study = collection, study
        self.state: Literal["idle", "learning", "failed"] = "idle"
        self._lock = Lock()
        self._failed: tuple[int, int] | None = None

    def wake(self) -> None:
        """Start training if a round is complete and no training runs."""
        with self._lock:
            after = self.study.round_to_train()
            if self.state == "learning" or after is None:
                return
            entries = len(self.study.journal.entries)
            attempt = after, entries if self.study.finished else entries // RETRY_ENTRIES
            if attempt == self._failed:
                return
            self.state = "learning"
        Thread(target=self._train, args=[attempt], daemon=True).start()

    def _train(self, attempt: tuple[int, int]) -> None:
        after = attempt[0]
        try:
            problem = self._train_in_process(after)
            if problem is None:
                self.study.reload_model()
        except (CbirError, OSError) as error:
            problem = str(error)
        with self._lock:
            self.state = "failed" if problem else "idle"
            self._failed = attempt if problem else None
        if problem:
            log.error("training after round %d failed: %s", after, problem)
        self.wake()

    def _train_in_process(self, after: int) -> str | None:
        """Train in a process that ends with this one; return the error, None on success."""
        command = [sys.executable, "-m", "service.features.annotate.study.study_training"]
        command += [str(self.collection), str(self.study.folder), str(after), str(os.getpid())]
        process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if process.returncode == 0:
            return None
        if process.returncode == study_training.NOTHING:
            return "none of the judged images can be read"
        last_line = next(iter(reversed(process.stderr.splitlines())), "")
        return last_line.removeprefix("cbir: ") or f"the process exited with {process.returncode}"
