"""HTTP server: gunicorn with one worker process of many threads."""

import logging
import os
import socket
import ssl
import warnings
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from cbir.errors import InvalidInput
from cbir.settings import Settings
from service.access import startup_checks
from service.http.problems import MEDIA_TYPE, NOT_HTTP, UNEXPECTED, error_location, is_not_http, problem_json
from service.http.timeouts import TimeoutWorker

SPARE_THREADS = 8  # for refusals and health checks while all others are busy
KEEPALIVE_SECONDS = 5
URI_TOO_LONG = HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long; send long parameters in the body"
HEADERS_TOO_LARGE = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long or too many"
TOO_LONG = {"LimitRequestLine": URI_TOO_LONG, "LimitRequestHeaders": HEADERS_TOO_LARGE}

log = logging.getLogger(__name__)


def open_listener(settings: Settings) -> socket.socket:
    """Open a listening socket; raises InvalidInput for insecure `settings` and for a port in use."""
    startup_checks.check_startup(settings)
    host, port = settings.host, settings.port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InvalidInput(f"--host {host} is not an address of this machine: {error.strerror}") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0).lower()}; "
            "choose another with --port, or a free one with --port 0"
        ) from error
    return listener


class ServiceWorker(TimeoutWorker):
    """gunicorn worker that reports invalid HTTP as a problem and exits at once on Ctrl-C."""

    def handle_quit(self, sig: int, frame: Any) -> None:
        # At once: an orderly exit takes locks that the interrupted thread may hold.
        os._exit(0)

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer `exc`, raised before the app was called, with a problem.

        Parameters
        ----------
        req : gunicorn.http.message.Request or None
            Not used, as addr; gunicorn passes it.
        client : socket
            Connection to the client.
        addr : tuple
            Address of the client.
        exc : Exception
            Error of gunicorn's parser, of TLS, or a defect.
        """
        if isinstance(exc, ssl.SSLError):
            return  # no TLS or an unsupported version: the client could not read a response
        if is_not_http(exc):
            status, detail = TOO_LONG.get(type(exc).__name__, (HTTPStatus.BAD_REQUEST, NOT_HTTP))
        else:
            log.error("unexpected error: %s", error_location(exc))
            status, detail = HTTPStatus.INTERNAL_SERVER_ERROR, UNEXPECTED
        text = problem_json(status, detail).encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n"
            f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        )
        try:
            client.sendall(head.encode() + text)
        except OSError:
            self.log.debug("the client left before the error response")


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
        threads = self.settings.threads + self.settings.queue + SPARE_THREADS
        options: dict[str, Any] = {
            "bind": f"fd://{self.listener.detach()}",
            "workers": 1,
            "worker_class": ServiceWorker,
            "threads": threads,
            "worker_connections": max(1000, 2 * threads),
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
