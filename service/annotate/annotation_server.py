"""Annotation server process, run by gunicorn like the service."""

import logging
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from flask import Flask

from cbir.errors import CollectionBusy
from cbir.settings import Settings
from service.annotate.annotation_app import create_app
from service.annotate.annotation_state import open_study
from service.http_server import GunicornServer

SHUTDOWN_SECONDS = 10.0  # time that a server which was just killed may take to end


class AnnotationServer(GunicornServer):
    """Serves one study until it is stopped."""

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
        """Create the app; called in the worker, which holds the journal."""
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
        warnings.simplefilter("ignore")  # pydicom's warnings quote the header
        return create_app(self.collections[0], self.study, self.settings)


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
