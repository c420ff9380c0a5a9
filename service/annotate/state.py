"""What the views of the annotation server share."""

from pathlib import Path

from flask import current_app

from cbir.active.study import plan
from cbir.active.study.study import Study
from cbir.store import Collection
from service.annotate.learner import Learner

EXTENSION = "cbir-annotate"


class Annotation:
    """A study and the learner that goes with it."""

    def __init__(self, collection: Path, folder: Path) -> None:
        """Open the study in `folder`, whose plan is settled. Raises what `Study` does."""
        self.study = open_study(collection, folder)
        self.learner = Learner(collection, self.study)
        self.learner.wake()


def open_study(collection: Path, folder: Path) -> Study:
    """The study in `folder`, whose plan is settled, over a collection's images. Raises what `Study` does."""
    settled = plan.read(folder)
    with Collection(collection) as opened:
        ids = [record.image_id for _, record in opened.iterate()]
    return Study(folder, ids, settled)


def annotation() -> Annotation:
    """The study of the app that answers the present request."""
    found: Annotation = current_app.extensions[EXTENSION]
    return found
