"""State that the views of the annotation server share."""

import time
from pathlib import Path

from cbir.errors import CollectionBusy, InvalidInput
from cbir.learn.severity.stored_images import matching_records
from cbir.store import Collection
from cbir.store.collection_address import address_or_folder
from service.features.annotate.study import study_plan
from service.features.annotate.study.study import Study
from service.features.annotate.study_trainer import StudyTrainer

EXTENSION = "cbir-annotate"
SHUTDOWN_SECONDS = 10.0  # time that a server which was just killed may take to end


class AnnotationState:
    """A study and its trainer."""

    def __init__(self, collection: Path, folder: Path) -> None:
        """Open the study in `folder`, which must have a plan. Raises the errors of `Study`."""
        self.study = open_study(collection, folder)
        self.trainer = StudyTrainer(collection, self.study)
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


def current_annotation() -> AnnotationState:
    """Return the annotation state of the current app."""
    from flask import current_app  # of the extra serve, which commands do without

    state: AnnotationState = current_app.extensions[EXTENSION]
    return state
