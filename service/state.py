"""What the views of one app share: the settings, the gate, and the collections, opened when they can be."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from flask import current_app

from cbir.errors import CbirError, InvalidInput, NotFound
from cbir.images import Image
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from service.archive import Pictures
from service.cache import Cache
from service.gate import Gate
from service.graders import Graders
from service.jobs import Jobs
from service.place import Place
from service.problems import where

EXTENSION = "cbir"
CACHE_BYTES = 64 * 2**20

log = logging.getLogger(__name__)


class State:
    """Thread-safe. places: the collections by name; the first one is meant where none is named."""

    def __init__(self, folders: Sequence[Path], settings: Settings) -> None:
        self.settings = settings
        self.gate = Gate(settings.threads, settings.queue)
        self.thumbnails = Cache(CACHE_BYTES)
        check_names(folders)
        self.places = {folder.name: Place(folder, settings) for folder in folders}
        self.default = next(iter(self.places))
        self.jobs = Jobs()
        self.graders = Graders()
        self.pictures = Pictures(settings)

    def place(self, name: str | None = None) -> Place:
        """The collection of that name; raises NotFound."""
        found = self.places.get(name or self.default)
        if found is None:
            raise NotFound(f"there is no collection {name}; there are: {', '.join(self.places)}")
        return found

    def searcher(self, name: str | None = None) -> Searcher:
        """The searcher of a collection; raises NotFound and NotReady."""
        return self.place(name).searcher()

    def snapshot_problem(self) -> str | None:
        """Damage of the first collection that queries get around; None where there is none."""
        return self.place().snapshot_problem()

    def warm_up(self) -> None:
        """Load the vectors and all code of a query, so that the first one does not wait for them."""
        ramp = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
        for place in self.places.values():
            try:
                place.searcher().by_image(Image(ramp), Request(k=1), Stopwatch())
                place.snapshot_problem()
            except CbirError as error:
                log.warning("not ready: %s", error)
            except Exception as error:
                log.warning("the first search failed: %s", where(error))


def check_names(folders: Sequence[Path]) -> None:
    """Raise InvalidInput where two folders have the same name, which is what requests call them by."""
    names = [folder.name for folder in folders]
    if double := {name for name in names if names.count(name) > 1}:
        raise InvalidInput(f"two collections have the folder name {min(double)}; requests call them by it")


def state() -> State:
    """The state of the app that answers the present request."""
    found: State = current_app.extensions[EXTENSION]
    return found
