"""gunicorn with threads, in one process."""

import logging
import os
import socket
import ssl
import warnings
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from cbir.errors import InvalidInput
from cbir.settings import Settings
from service.access import start
from service.app import create_app
from service.patience import PatientWorker
from service.problems import MEDIA_TYPE, NOT_HTTP, UNEXPECTED, body, is_not_http, where
from service.state import EXTENSION

SPARE_THREADS = 8  # they refuse what is too much, and answer whether the service is up
KEEPALIVE_SECONDS = 5
TOO_LONG = {
    "LimitRequestLine": (
        HTTPStatus.REQUEST_URI_TOO_LONG,
        "the address is longer than the service reads; send long parameters in the body",
    ),
    "LimitRequestHeaders": (
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "the headers are longer or more than the service reads",
    ),
}

log = logging.getLogger(__name__)


def listen(settings: Settings) -> socket.socket:
    """A listening socket; raises InvalidInput for settings that leave the door open, and for a port that is taken."""
    start.check(settings)
    host, port = settings.host, settings.port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InvalidInput(f"--host {host} is no address of this machine: {error.strerror}") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0).lower()}; "
            "--port names another, --port 0 takes a free one"
        ) from error
    return listener


def _text(path: Path | None) -> str | None:
    return str(path) if path else None


class Worker(PatientWorker):
    """gunicorn's threaded worker; requests that are not HTTP get a problem like all others, and Ctrl-C ends it."""

    def handle_quit(self, sig: int, frame: Any) -> None:
        # At once: to end in order takes locks, which the thread that the signal interrupted may be holding.
        os._exit(0)

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        if isinstance(exc, ssl.SSLError):
            return  # no TLS, or none we speak: there is nobody to understand an answer
        if is_not_http(exc):
            status, detail = TOO_LONG.get(type(exc).__name__, (HTTPStatus.BAD_REQUEST, NOT_HTTP))
        else:
            log.error("unexpected error: %s", where(exc))
            status, detail = HTTPStatus.INTERNAL_SERVER_ERROR, UNEXPECTED
        text = body(status, detail).encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n"
            f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        )
        try:
            client.sendall(head.encode() + text)
        except OSError:
            self.log.debug("the client did not wait for the error")


class Server(BaseApplication):
    """Serves collections on a listening socket until it is told to stop; `ready` is called when it answers."""

    def __init__(
        self,
        collections: Sequence[Path],
        settings: Settings,
        listener: socket.socket,
        ready: Callable[[], None],
    ) -> None:
        self.collections = collections
        self.settings = settings
        self.listener = listener
        self.ready = ready
        super().__init__()

    def load_config(self) -> None:
        threads = self.settings.threads + self.settings.queue + SPARE_THREADS
        options: dict[str, Any] = {
            "bind": f"fd://{self.listener.detach()}",
            "workers": 1,
            "worker_class": Worker,
            "threads": threads,
            "worker_connections": max(1000, 2 * threads),
            "keepalive": KEEPALIVE_SECONDS,
            "timeout": 0,  # a worker that opens a large collection does not hang
            "graceful_timeout": 5,
            "loglevel": "warning",
            "post_worker_init": lambda worker: self.ready() if worker.age == 1 else None,
            "control_socket_disable": True,
            "forwarded_allow_ips": "",  # service/access/proxies.py decides whom to believe
            "certfile": _text(self.settings.tls_certificate),
            "keyfile": _text(self.settings.tls_key),
        }
        for name, value in options.items():
            if name in self.cfg.settings:  # not every gunicorn has a control socket
                self.cfg.set(name, value)

    def load(self) -> Flask:
        """The app, warmed up; called in the worker, since neither BLAS nor SQLite may be carried over a fork."""
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
        warnings.simplefilter("ignore")  # pydicom's quote the header they are about
        app = create_app(self.collections, self.settings)
        app.extensions[EXTENSION].warm_up()
        return app
