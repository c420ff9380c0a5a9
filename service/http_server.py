"""HTTP server: gunicorn with one worker process of many threads."""

import logging
import os
import socket
import warnings
from collections.abc import Callable
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from cbir.errors import InvalidInput
from cbir.settings import Settings
from service.access import startup_checks
from service.server import open_files
from service.server.connection_worker import ConnectionWorker

SPARE_THREADS = 8  # for refusals while all others are busy
KEEPALIVE_SECONDS = (
    75  # longer than proxies and clients keep connections, which would otherwise use a closed one
)
BACKLOG = 1024  # connections that the system accepts while the service is busy

log = logging.getLogger(__name__)


def count_threads(settings: Settings) -> int:
    """Return the number of threads that answer requests."""
    return settings.threads + settings.queue + SPARE_THREADS


def open_listener(settings: Settings) -> socket.socket:
    """Open a listening socket; raises InvalidInput for insecure `settings` and for a port in use."""
    startup_checks.check_startup(settings)
    open_files.prepare_limit(count_threads(settings))
    host, port = settings.host, settings.port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InvalidInput(f"--host {host} is not an address of this machine: {error.strerror}") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0).lower()}; "
            "choose another with --port, or a free one with --port 0"
        ) from error
    return listener


class ServiceWorker(ConnectionWorker):
    """gunicorn worker that exits at once on Ctrl-C."""

    def handle_quit(self, sig: int, frame: Any) -> None:
        # At once: an orderly exit takes locks that the interrupted thread may hold.
        os._exit(0)


class GunicornServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn application that serves an app until it is stopped.

    Parameters
    ----------
    make_app : callable
        Creates the app; called in the worker, since neither BLAS nor SQLite survives a fork.
    settings : Settings
        Settings of the service.
    listener : socket
        Listening socket; the server takes it over.
    ready : callable
        Called when the server accepts requests.
    """

    def __init__(
        self,
        make_app: Callable[[], Flask],
        settings: Settings,
        listener: socket.socket,
        ready: Callable[[], None],
    ) -> None:
        self.make_app, self.settings, self.listener, self.ready = make_app, settings, listener, ready
        super().__init__()

    def load_config(self) -> None:
        certificate, key = self.settings.tls_certificate, self.settings.tls_key
        options: dict[str, Any] = {
            "bind": f"fd://{self.listener.detach()}",
            "workers": 1,
            "worker_class": ServiceWorker,
            "threads": count_threads(self.settings),
            "keepalive": KEEPALIVE_SECONDS,
            "timeout": 0,  # a worker that opens a large collection does not hang
            "graceful_timeout": 5,
            "loglevel": "warning",
            "post_worker_init": lambda worker: self.ready() if worker.age == 1 else None,
            "control_socket_disable": True,
            "forwarded_allow_ips": "",  # service/access/proxies.py decides which proxies to trust
            "certfile": certificate and str(certificate),
            "keyfile": key and str(key),
        }
        for name, value in options.items():
            if name in self.cfg.settings:  # older gunicorn versions have no control socket
                self.cfg.set(name, value)

    def load(self) -> Flask:
        """Create the app, without the texts of libraries in its log, which quote headers of patients."""
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
        warnings.simplefilter("ignore")
        return self.make_app()
