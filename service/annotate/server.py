"""The annotation server as a process: gunicorn, as the service."""

import logging
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from flask import Flask

from cbir.errors import CollectionBusy
from cbir.settings import Settings
from service.annotate.app import create_app
from service.annotate.state import open_study
from service.server import Server

PATIENCE = 10.0  # seconds that a server which was just killed may take to end


class AnnotationServer(Server):
    """Serves one study until it is told to stop."""

    def __init__(
        self,
        collection: Path,
        study: Path,
        settings: Settings,
        listener: socket.socket,
        ready: Callable[[], None],
    ) -> None:
        self.study = study
        super().__init__([collection], settings, listener, ready)

    def load(self) -> Flask:
        """The app; called in the worker, which holds the journal."""
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
        warnings.simplefilter("ignore")  # pydicom's quote the header they are about
        return create_app(self.collections[0], self.study, self.settings)


def check(collection: Path, study: Path) -> None:
    """Open the study once, so that what is wrong with it is told before anything listens.

    Waits for a server of the same study that was just killed. Raises what `Study` does.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            open_study(collection, study).close()
            return
        except CollectionBusy:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
