"""gunicorn with one worker process of many threads, on systems with fork."""

import logging
import os
import signal
import socket
import warnings
from collections.abc import Callable
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from cbir.settings import Settings
from service.collections.app_state import EXTENSION
from service.jobs.job_worker import JobWorker
from service.server.connection_worker import ConnectionWorker
from service.server.server_sizes import KEEPALIVE_SECONDS, count_threads


class ServiceWorker(ConnectionWorker):
    """gunicorn worker that hands its jobs back, and exits at once on Ctrl-C."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        """End after the requests at work; jobs end meanwhile."""
        super().handle_exit(sig, frame)
        if worker := self._job_worker():
            worker.begin_stop()

    def handle_quit(self, sig: int, frame: Any) -> None:
        """End without waiting for requests."""
        for number in (signal.SIGINT, signal.SIGQUIT):  # the arbiter sends another one
            signal.signal(number, signal.SIG_IGN)
        worker = self._job_worker()
        if worker and worker.is_running_jobs:
            worker.stop()
        # At once: an orderly exit takes locks that the interrupted thread may hold.
        os._exit(0)

    def _job_worker(self) -> JobWorker | None:
        app: Flask | None = getattr(self, "wsgi", None)  # not there before the app is made
        return app.extensions[EXTENSION].worker if app else None


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
