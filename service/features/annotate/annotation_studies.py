"""The annotation studies of a service: those in the folder of a setting, or the one that it is started for."""

import logging
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from flask import Flask, current_app, request
from werkzeug.exceptions import Forbidden

from cbir.errors import CollectionBusy, InvalidInput, NotFound
from cbir.settings import Settings
from cbir.system.access_rights import Scope
from cbir.system.remedies import install_command
from service.access.caller import current_rights
from service.access.security import SAFE_METHODS
from service.collections.app_state import EXTENSION as STATE
from service.collections.app_state import AppState
from service.features.annotate import study_plan
from service.features.annotate.annotation_state import AnnotationState
from service.features.annotate.study_plan import StudyPlan
from service.http.problems import NotReady
from service.routes import openapi

EXTENSION = "cbir-annotation-studies"  # key in app.extensions
ADDRESSES = "/annotate/"  # beginning of those of the API
PARAMETER = "study"  # of an address, with the name of its study

log = logging.getLogger(__name__)


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
        return {path.parent.name: path.parent for path in sorted(root.glob(f"*/{study_plan.FILE}"))}

    def list_visible(self) -> list[ListedStudy]:
        """Return the studies that the caller may open; those with a damaged plan are left out and logged."""
        listed = []
        for name, folder in self.folders().items():
            try:
                study = self._listed(name, folder)
            except InvalidInput as error:
                log.error("the annotation study %s is left out: %s", name, error)
                continue
            if self._may_open(study):
                listed.append(study)
        return listed

    def open(self, name: str | None) -> AnnotationState:
        """Return the study of this name, or the only one for None, opened if the caller may see all its images.

        Raises NotFound, InvalidInput for None where there are several, and NotReady while another process has it.
        """
        folders = self.folders()
        if name is None and len(folders) > 1:
            raise InvalidInput(f"{PARAMETER}: name the annotation study; the page /studies lists them")
        name = next(iter(folders), "") if name is None else name
        if name not in folders:
            raise _no_study(name)
        study = self._listed(name, folders[name])
        if not self._may_open(study):
            raise _no_study(name)
        with self._lock:
            if name not in self._open:
                self._open[name] = self._opened(study, folders[name])
            return self._open[name]

    def _listed(self, name: str, folder: Path) -> ListedStudy:
        plan = self._open[name].study.plan if name in self._open else study_plan.read_plan(folder)
        of_default = self._single or not plan.collection  # a study of an earlier version does not say
        return ListedStudy(name, plan, self._state.default if of_default else plan.collection)

    def _may_open(self, study: ListedStudy) -> bool:
        """Return whether the caller may annotate, and see all images of the collection, which a study may show."""
        rights = current_rights()
        if rights is None or rights.where or not rights.allows(Scope.annotate):
            return False
        return study.collection in self._state.visible_names()

    def _opened(self, study: ListedStudy, folder: Path) -> AnnotationState:
        try:
            return AnnotationState(self._state.collections[study.collection].path, folder, study.collection)
        except CollectionBusy as error:
            raise NotReady(f"the study {study.name} is open in another process; stop that first") from error

    def close(self) -> None:
        """Close all studies, so that other processes may open them."""
        with self._lock:
            for each in self._open.values():
                each.study.close()
            self._open.clear()


def _no_study(name: str) -> NotFound:
    """Return the error for a study that there is not, which is also that for one that a caller may not see."""
    return NotFound(
        f"there is no annotation study {name} here; the page /studies lists those that you may open"
    )


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


def current_annotation() -> AnnotationState:
    """Return the study that the parameter `study` of the request names; raises as `AnnotationStudies.open`.

    An answer to no study raises Forbidden.
    """
    try:
        return current_studies().open(request.args.get(PARAMETER))
    except (InvalidInput, NotFound) as error:
        if request.method in SAFE_METHODS:
            raise
        raise Forbidden(str(error)) from error  # pages keep an answer that is forbidden, and drop others
