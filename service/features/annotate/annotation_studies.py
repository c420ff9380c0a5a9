"""Annotation studies of a service: open ones with the trainers of their rankers, and which it has."""

import logging
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import Literal, NamedTuple

from flask import Flask, current_app, request
from werkzeug.exceptions import Forbidden

from cbir.errors import CbirError, CollectionBusy, InvalidInput, NotFound, find_denied
from cbir.settings import Settings
from cbir.system.access_rights import Scope
from cbir.system.remedies import install_command
from service.access.caller import current_rights
from service.access.security import SAFE_METHODS
from service.collections.app_state import EXTENSION as STATE
from service.collections.app_state import AppState
from service.features.annotate import study_plan, study_training
from service.features.annotate.study import Study, open_study
from service.features.annotate.study_plan import StudyPlan
from service.http.problems import NotReady
from service.routes import openapi

EXTENSION = "cbir-annotation-studies"  # key in app.extensions
ADDRESSES = "/annotate/"  # beginning of those of the API
PARAMETER = "study"  # of an address, with the name of its study
ID_PARAMETER = "study_id"  # of an address, with the id of its study, which no other study of that name has
RETRY_ENTRIES = 50  # answers after which a failed training is tried again within a round
SHUTDOWN_SECONDS = 10.0  # time that a server which was just killed may take to end

log = logging.getLogger(__name__)


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


class ListedStudy(NamedTuple):
    """An annotation study that a caller may open. collection: its name in the service."""

    name: str
    plan: StudyPlan
    collection: str


class AnnotationStudies:
    """Annotation studies by the names of their folders, opened when they are first needed. Thread-safe."""

    def __init__(self, state: AppState, single: Path | None = None) -> None:
        """Offer the study in the folder `single`, or else those in the folder of the setting `annotation_studies`."""
        self._state, self._single = state, single
        self._lock = Lock()
        self._open: dict[str, AnnotationState] = {}

    def folders(self) -> dict[str, Path]:
        """Return the folder of each study."""
        if self._single:
            return {self._single.name: self._single}
        root = self._state.settings.annotation_studies
        if root is None:
            return {}
        if not root.is_dir():
            raise NotReady(f"the folder of the setting annotation_studies, {root}, is not there")
        if denied := find_denied(root):  # which a search for files would pass over
            raise denied
        folders = (path.parent for path in sorted(root.glob(f"*/{study_plan.FILE}")))
        return {folder.name: folder for folder in folders if _is_text(folder.name)}

    def list_visible(self) -> list[ListedStudy]:
        """Return the studies that the caller may open; those with a damaged plan are left out and logged."""
        studies = (self._listed(name, folder) for name, folder in self.folders().items())
        return [study for study in studies if study and self._may_open(study)]

    def open(self, name: str | None) -> AnnotationState:
        """Return the study of this name, or the only one for None, opened if the caller may see all its images.

        Raises NotFound, InvalidInput for None where there are several, and NotReady while another process has it.
        """
        folders = self.folders()
        if name is None and len(folders) > 1:
            raise InvalidInput(f"{PARAMETER}: name the annotation study; the page /studies lists them")
        folder_name = next(iter(folders), "") if name is None else name
        study = self._listed(folder_name, folders[folder_name]) if folder_name in folders else None
        if study is None or not self._may_open(study):
            raise self._no_study(name)
        with self._lock:
            state = self._open.get(folder_name)
            if state is None or not state.study.journal.is_in_place():
                state = self._open[folder_name] = self._reopened(state, study, folders[folder_name])
            return state

    def _listed(self, name: str, folder: Path) -> ListedStudy | None:
        """Return a study as lists have it; None if its plan cannot be read, which is logged."""
        state = self._open.get(name)
        try:
            in_place = state and state.study.journal.is_in_place()
            plan = state.study.plan if state and in_place else study_plan.read_plan(folder)
        except (InvalidInput, OSError) as error:
            log.error("the annotation study %s is left out: %s", name, error)
            return None
        of_default = self._single or not plan.collection  # a study of an earlier version does not say
        return ListedStudy(name, plan, self._state.default if of_default else plan.collection)

    def _may_open(self, study: ListedStudy) -> bool:
        """Return whether the caller may annotate, and see all images of the collection, which a study may show."""
        rights = current_rights()
        if rights is None or rights.where or not rights.allows(Scope.annotate):
            return False
        return study.collection in self._state.visible_names()

    def _reopened(self, state: AnnotationState | None, study: ListedStudy, folder: Path) -> AnnotationState:
        """Open a study, in place of `state`, whose folder was removed or replaced while it was open."""
        if state:
            state.study.close()
            self._open.pop(study.name)
        try:
            return AnnotationState(self._state.collections[study.collection].path, folder, study.collection)
        except CollectionBusy as error:
            raise NotReady(f"the study {study.name} is open in another process; stop that first") from error
        except InvalidInput as error:  # of the study's files, not of the request
            raise NotReady(f"the study {study.name} cannot be opened: {error}") from error

    def _no_study(self, name: str | None) -> NotFound:
        """Return the error for a study that there is not, which is also that for one that a caller may not see."""
        missing = (
            "there is no annotation study here"
            if name is None
            else f"there is no annotation study {name} here"
        )
        return NotFound(
            missing if self._single else f"{missing}; the page /studies lists those that you may open"
        )

    def close(self) -> None:
        """Close all studies, so that other processes may open them."""
        with self._lock:
            for each in self._open.values():
                each.study.close()
            self._open.clear()


def _is_text(name: str) -> bool:
    """Return whether the name of a folder can be part of an address: other systems may have written it in bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def install_annotation(app: Flask) -> None:
    """Let `app` offer the annotation studies of its settings."""
    app.extensions[EXTENSION] = AnnotationStudies(app.extensions[STATE])
    app.extensions.setdefault(openapi.SEPARATE_DOCUMENT, ADDRESSES)


def check_annotation_studies(settings: Settings) -> None:
    """Raise InvalidInput if the setting `annotation_studies` names no folder, or what trains is not installed."""
    if settings.annotation_studies is None:
        return
    if not settings.annotation_studies.is_dir():
        raise InvalidInput(f"the setting annotation_studies: {settings.annotation_studies} is not a folder")
    if find_spec("torch") is None:
        raise InvalidInput(f"annotation studies need torch: {install_command('deep')}")


def current_studies() -> AnnotationStudies:
    """Return the annotation studies of the current app."""
    studies: AnnotationStudies = current_app.extensions[EXTENSION]
    return studies


def current_annotation(without_404: bool = False) -> AnnotationState:
    """Return the study that the parameters of the request name; raises as `AnnotationStudies.open`.

    An answer to no study, or a request with the id of another one, raises Forbidden. without_404: so does any
    request without a study, since a page takes that status for an image that is gone, which it then skips.
    """
    try:
        annotation = current_studies().open(request.args.get(PARAMETER))
    except (InvalidInput, NotFound) as error:
        if request.method in SAFE_METHODS and not without_404:
            raise
        raise Forbidden(str(error)) from error  # pages keep an answer that is forbidden, and drop others
    if request.args.get(ID_PARAMETER, annotation.study.plan.study) != annotation.study.plan.study:
        raise Forbidden(f"{ID_PARAMETER}: there is another study here now; reload the page")
    return annotation
