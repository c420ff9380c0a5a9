"""An open study, and the trainer of its ranker."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Lock, Thread
from typing import Literal

from cbir.errors import CbirError, CollectionBusy, InvalidInput
from cbir.learn.severity.stored_images import matching_records
from cbir.store import Collection
from cbir.store.collection_address import address_or_folder
from service.features.annotate import study_plan, study_training
from service.features.annotate.study import Study

log = logging.getLogger(__name__)
RETRY_ENTRIES = 50  # answers after which a failed training is tried again within a round
SHUTDOWN_SECONDS = 10.0  # time that a server which was just killed may take to end


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
            if (
                problem is None and self.study.journal.is_in_place()
            ):  # else the folder is another study's by now
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
        command = [sys.executable, "-m", "service.features.annotate.study_training"]
        command += [str(self.collection), str(self.study.folder), str(after), str(os.getpid())]
        process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if process.returncode == 0:
            return None
        if process.returncode == study_training.NOTHING:
            return "none of the judged images can be read"
        last_line = next(iter(reversed(process.stderr.splitlines())), "")
        return last_line.removeprefix("cbir: ") or f"the process exited with {process.returncode}"


class AnnotationState:
    """A study and its trainer. collection: its name in the service."""

    def __init__(self, path: Path, folder: Path, collection: str) -> None:
        """Open the study in `folder`, which must have a plan, over the collection at `path`.

        Raises the errors of `Study`.
        """
        self.collection = collection
        self.study = open_study(path, folder)
        self.trainer = StudyTrainer(path, self.study)
        self.trainer.wake()


def open_study(collection: Path, folder: Path) -> Study:
    """Open the study in `folder`, which must have a plan, over the images of `collection` that meet its conditions.

    Raises the errors of `Study`.
    """
    settled_plan = study_plan.read_plan(folder)
    with Collection(collection) as opened:
        where = opened.conditions(settled_plan.where)
        ids = [record.image_id for _, record in matching_records(opened, where)]
    if len(ids) < 2:
        raise InvalidInput(
            f"{len(ids)} images of {address_or_folder(collection)} fulfil the conditions of the study, and comparing "
            "needs two; start it with another --where, or --where none"
        )
    return Study(folder, ids, settled_plan)


def check_study(collection: Path, study: Path) -> None:
    """Open the study of `collection` in the folder `study` once, to report errors before the server listens.

    Waits for a server of the same study that was just killed. Raises the errors of `Study`.
    """
    end = time.monotonic() + SHUTDOWN_SECONDS
    while True:
        try:
            open_study(collection, study).close()
            return
        except CollectionBusy:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
